"""CreatePartitions, API key 37: more partitions for topics that exist. There is no way to have fewer.

Versions: 2 flexible; 3 may say THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, string


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array("0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsTopic(Struct):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array("0+", nullable="0+")


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array("0+", of="int32")


class CreatePartitionsResponse(Message, request=CreatePartitionsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
