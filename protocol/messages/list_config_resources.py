"""ListConfigResources, API key 74: which resources can have configs. Flexible from the first version on.

Version 0 lists client metrics alone; 1 says of which types (KIP-1142).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array("1+", of="int8")


class ListConfigResourcesResponse(Message, request=ListConfigResourcesRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array("0+")


class ConfigResource(Struct):
    resource_name: str = string("0+")
    resource_type: int = int8("1+", default=16, ignorable=True)
