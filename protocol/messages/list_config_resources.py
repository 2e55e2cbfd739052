"""ListConfigResources, API key 74: the resources that can have configs.

Versions: 0 lists client metrics only; 1 names the types to list (KIP-1142). All versions are flexible.
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
