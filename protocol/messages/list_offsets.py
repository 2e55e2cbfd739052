"""ListOffsets, API key 2: the offset at a time, or at an end of the log.

Versions: 0 gives up to so many segments' offsets before a time; 1 one offset with its timestamp; 2 isolation level
and throttle time; 4 leader epoch; 5 may say OFFSET_NOT_AVAILABLE; 6 flexible; 7 the offset of the largest timestamp
(-3); 8 the earliest local offset (-4); 9 the latest tiered one (-5); 10 a time-out for remote storage; 11 the earliest
one that is not uploaded yet (-6). 0 is no longer in Kafka 4's files.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, int64, string


class ListOffsetsRequest(Message, key=2, versions="0-11", flexible="6+"):
    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array("0+")
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsTopic(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array("0+")


class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsResponse(Message, request=ListOffsetsRequest):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array("0+")


class ListOffsetsTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array("0+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array("0", of="int64")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)
