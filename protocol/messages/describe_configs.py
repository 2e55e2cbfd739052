"""DescribeConfigs, API key 32: every config of a resource, with where its value comes from.

Versions: 1 source and synonyms; 3 type and documentation; 4 flexible. 0 is gone since Kafka 4.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array("0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configuration_keys: list[str] | None = array("0+", of="string", nullable="0+")


class DescribeConfigsResponse(Message, request=DescribeConfigsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[DescribeConfigsResult] = array("0+")


class DescribeConfigsResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[DescribeConfigsResourceResult] = array("0+")


class DescribeConfigsResourceResult(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
    read_only: bool = boolean("0+")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = array("1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")
