"""AlterClientQuotas, API key 49: sets and removes quotas of users, client ids and addresses.

Versions: 1 flexible.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, float64, int16, int32, string
from .describe_client_quotas import EntityData


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array("0+")
    validate_only: bool = boolean("0+")


class EntryData(Struct):
    entity: list[EntityData] = array("0+")
    ops: list[OpData] = array("0+")


class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class AlterClientQuotasResponse(Message, request=AlterClientQuotasRequest):
    throttle_time_ms: int = int32("0+")
    entries: list[EntryResult] = array("0+")


class EntryResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array("0+")
