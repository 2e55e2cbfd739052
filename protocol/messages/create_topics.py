"""CreateTopics, API key 19.

Versions: 1 validation only, and error messages; 2 throttle time; 4 partitions and replicas of -1 stand for the broker's
defaults; 5 flexible, and says what was made with which configs; 6 may say THROTTLING_QUOTA_EXCEEDED; 7 topic id. 0-1
are gone since Kafka 4.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string, uuid


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array("0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreatableTopic(Struct):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array("0+")
    configs: list[CreatableTopicConfig] = array("0+")


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+")
    broker_ids: list[int] = array("0+", of="int32")


class CreatableTopicConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreateTopicsResponse(Message, request=CreateTopicsRequest):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array("0+")


class CreatableTopicResult(Struct):
    name: str = string("0+")
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array("5+", nullable="5+", ignorable=True)


class CreatableTopicConfigs(Struct):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")
