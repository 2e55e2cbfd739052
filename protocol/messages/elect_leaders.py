"""ElectLeaders, API key 43: preferred leaders, or any living replica where the whole ISR is dead (KIP-183, KIP-460).

Versions: 1 the type of the election, and an error for the whole response; 2 flexible.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, string


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array("0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class TopicPartitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class ElectLeadersResponse(Message, request=ElectLeadersRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array("0+")


class ReplicaElectionResult(Struct):
    topic: str = string("0+")
    partition_result: list[PartitionResult] = array("0+")


class PartitionResult(Struct):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
