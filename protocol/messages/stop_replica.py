"""StopReplica, API key 5: the controller tells a broker to stop replicas, and to delete some of them.

Versions: 1 broker epoch, partitions by topic; 2 flexible; 3 leader epoch and deletion by partition (KIP-570); 4 whether
a KRaft controller asks (KIP-866). Kafka 4 has no such request: these are the files of 3.9.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class StopReplicaRequest(Message, key=5, versions="0-4", flexible="2+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("4+", default=False)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array("0")
    topics: list[StopReplicaTopicV1] = array("1-2")
    topic_states: list[StopReplicaTopicState] = array("3+")


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    name: str = string("1-2")
    partition_indexes: list[int] = array("1-2", of="int32")


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array("3+")


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaResponse(Message, request=StopReplicaRequest):
    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array("0+")


class StopReplicaPartitionError(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
