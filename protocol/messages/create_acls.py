"""CreateAcls, API key 30: new access control lists.

Versions: 1 pattern types (KIP-290); 2 flexible; 3 resource type USER. Kafka 4 has no version 0.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array("0+")


class AclCreation(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsResponse(Message, request=CreateAclsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array("0+")


class AclCreationResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
