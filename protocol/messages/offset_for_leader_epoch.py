"""OffsetForLeaderEpoch, API key 23: where the records of a leader epoch end; tells a client what was lost (KIP-320).

Versions: 3 replica id; 4 flexible. Kafka 4 offers no lower one than 2, which brought the current leader epoch.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array("0+")


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array("0+")


class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+")


class OffsetForLeaderEpochResponse(Message, request=OffsetForLeaderEpochRequest):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array("0+")


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array("0+")


class EpochEndOffset(Struct):
    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)
