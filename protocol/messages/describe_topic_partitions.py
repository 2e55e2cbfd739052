"""DescribeTopicPartitions, API key 75: topics with their partitions, page by page (KIP-966). Flexible from the start.

The cursor names the first partition of a page: null where the listing begins, and where it has ended.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, string, struct, uuid


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array("0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct("0+", nullable="0+", default=None)


class TopicRequest(Struct):
    name: str = string("0+")


class Cursor(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsResponse(Message, request=DescribeTopicPartitionsRequest):
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array("0+")
    next_cursor: Cursor | None = struct("0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: bytes = uuid("0+", ignorable=True)
    is_internal: bool = boolean("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array("0+")
    topic_authorized_operations: int = int32("0+", default=-2147483648)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("0+", of="int32")
    isr_nodes: list[int] = array("0+", of="int32")
    eligible_leader_replicas: list[int] | None = array("0+", of="int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("0+", of="int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("0+", of="int32", ignorable=True)
