"""AlterConfigs, API key 33: the configs of a resource, all of them: what is not named goes back to its default.

Versions: 2 flexible. Kafka would have IncrementalAlterConfigs used instead.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array("0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array("0+")


class AlterableConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class AlterConfigsResponse(Message, request=AlterConfigsRequest):
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array("0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
