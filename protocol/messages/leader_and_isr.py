"""LeaderAndIsr, API key 4: the controller tells a broker which replicas it holds, and who leads them.

Versions: 1 says whether a replica is new; 2 broker epoch, partitions by topic; 3 adding and removing replicas; 4
flexible; 5 topic ids, and whether all partitions of the broker are named (KIP-516); 6 leader recovery state (KIP-704);
7 whether a KRaft controller asks (KIP-866). Kafka 4 has no such request: these are the files of 3.9.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class LeaderAndIsrRequest(Message, key=4, versions="0-7", flexible="4+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("7+", default=False)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array("0-1")
    topic_states: list[LeaderAndIsrTopicState] = array("2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array("0+")


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array("2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("0+", of="int32")
    partition_epoch: int = int32("0+")
    replicas: list[int] = array("0+", of="int32")
    adding_replicas: list[int] = array("3+", of="int32", ignorable=True)
    removing_replicas: list[int] = array("3+", of="int32", ignorable=True)
    is_new: bool = boolean("1+", default=False, ignorable=True)
    leader_recovery_state: int = int8("6+", default=0)


class LeaderAndIsrResponse(Message, request=LeaderAndIsrRequest):
    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array("0-4")
    topics: list[LeaderAndIsrTopicError] = array("5+")


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array("5+")


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
