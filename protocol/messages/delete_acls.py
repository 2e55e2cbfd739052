"""DeleteAcls, API key 31: delete the access control lists that filters match.

Versions: 1 pattern types (KIP-290); 2 flexible; 3 resource type USER. Kafka 4 has no version 0.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array("0+")


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsResponse(Message, request=DeleteAclsRequest):
    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array("0+")


class DeleteAclsFilterResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array("0+")


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")
