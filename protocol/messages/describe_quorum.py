"""DescribeQuorum, API key 55: who leads the quorum of controllers, and how far its voters and observers are.

Versions: 1 when a replica last fetched and caught up (KIP-836); 2 directory ids, the nodes with their listeners, and
errors in words (KIP-853).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = array("0+")


class TopicData(Struct):
    topic_name: str = string("0+")
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")


class DescribeQuorumResponse(Message, request=DescribeQuorumRequest):
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[DescribedTopic] = array("0+")
    nodes: list[Node] = array("2+")


class DescribedTopic(Struct):
    topic_name: str = string("0+")
    partitions: list[DescribedPartition] = array("0+")


class DescribedPartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    high_watermark: int = int64("0+")
    current_voters: list[ReplicaState] = array("0+")
    observers: list[ReplicaState] = array("0+")


class ReplicaState(Struct):
    replica_id: int = int32("0+")
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class Node(Struct):
    node_id: int = int32("2+")
    listeners: list[Listener] = array("2+")


class Listener(Struct):
    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")
