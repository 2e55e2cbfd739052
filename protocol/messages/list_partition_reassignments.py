"""ListPartitionReassignments, API key 46: the partitions that are moving to other replicas (KIP-455).

Version 0 is the only one. Null topics mean all.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array("0+", nullable="0+", default=None)


class ListPartitionReassignmentsTopics(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", of="int32")


class ListPartitionReassignmentsResponse(Message, request=ListPartitionReassignmentsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array("0+")


class OngoingTopicReassignment(Struct):
    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array("0+")


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+")
    replicas: list[int] = array("0+", of="int32")
    adding_replicas: list[int] = array("0+", of="int32")
    removing_replicas: list[int] = array("0+", of="int32")
