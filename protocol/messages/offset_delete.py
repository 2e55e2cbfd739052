"""OffsetDelete, API key 47: committed offsets of a group, partition by partition (KIP-496).

Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class OffsetDeleteRequest(Message, key=47, versions="0"):
    group_id: str = string("0+")
    topics: list[OffsetDeleteRequestTopic] = array("0+")


class OffsetDeleteRequestTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetDeleteRequestPartition] = array("0+")


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32("0+")


class OffsetDeleteResponse(Message, request=OffsetDeleteRequest):
    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array("0+")


class OffsetDeleteResponseTopic(Struct):
    name: str = string("0+")
    partitions: list[OffsetDeleteResponsePartition] = array("0+")


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
