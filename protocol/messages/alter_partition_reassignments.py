"""AlterPartitionReassignments, API key 45: give partitions other replicas, or cancel that (KIP-455).

Version 1 lets a request forbid another number of replicas. Null replicas cancel the reassignment that is under way.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, string


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array("0+")


class ReassignableTopic(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartition] = array("0+")


class ReassignablePartition(Struct):
    partition_index: int = int32("0+")
    replicas: list[int] | None = array("0+", of="int32", nullable="0+", default=None)


class AlterPartitionReassignmentsResponse(Message, request=AlterPartitionReassignmentsRequest):
    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array("0+")


class ReassignableTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ReassignablePartitionResponse] = array("0+")


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
