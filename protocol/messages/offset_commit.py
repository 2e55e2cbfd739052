"""OffsetCommit, API key 8: where a group, or a consumer on its own, has got to.

Versions: 0 names neither member nor generation; 1 does, and takes a timestamp a partition; 2 a retention time in its
place; 3 throttle time; 5 without retention; 6 leader epoch; 7 instance id; 8 flexible; 9 member epochs of the newer
consumer protocol; 10 topic ids in place of names. 0-1 are no longer in Kafka 4's files.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequest(Message, key=8, versions="0-10", flexible="8+"):
    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array("0+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array("0+")


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


class OffsetCommitResponse(Message, request=OffsetCommitRequest):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array("0+")


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
