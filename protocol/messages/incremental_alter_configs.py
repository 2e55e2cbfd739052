"""IncrementalAlterConfigs, API key 44: some configs of a resource; the others stay as they are (KIP-339).

`config_operation`: 0 set, 1 delete, 2 append to a list, 3 subtract from a list. Versions: 1 flexible.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int32, string
from .alter_configs import AlterConfigsResourceResponse


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource] = array("0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array("0+")


class AlterableConfig(Struct):
    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", nullable="0+")


class IncrementalAlterConfigsResponse(Message, request=IncrementalAlterConfigsRequest):
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array("0+")
