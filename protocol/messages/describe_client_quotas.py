"""DescribeClientQuotas, API key 48: the quotas of users, client ids and addresses that a filter matches.

Versions: 1 flexible.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, float64, int8, int16, int32, string


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = array("0+")
    strict: bool = boolean("0+")


class ComponentData(Struct):
    entity_type: str = string("0+")
    match_type: int = int8("0+")
    match: str | None = string("0+", nullable="0+")


class DescribeClientQuotasResponse(Message, request=DescribeClientQuotasRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[EntryData] | None = array("0+", nullable="0+")


class EntryData(Struct):
    entity: list[EntityData] = array("0+")
    values: list[ValueData] = array("0+")


class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ValueData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
