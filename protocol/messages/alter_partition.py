"""AlterPartition, API key 56: a leader asks the controller to change the ISR of its partitions (KIP-497).

Versions: 1 leader recovery state (KIP-704); 2 topic ids in place of names, and errors that say why a replica is not
eligible (KIP-841); 3 the broker epoch of each replica (KIP-903). Flexible from the first version on. 0 and 1 are no
longer in Kafka 4's files.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class AlterPartitionRequest(Message, key=56, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array("0+")


class TopicData(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[PartitionData] = array("0+")


class PartitionData(Struct):
    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: list[int] = array("0-2", of="int32")
    new_isr_with_epochs: list[BrokerState] = array("3+")
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+")


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionResponse(Message, request=AlterPartitionRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlteredTopic] = array("0+")


class AlteredTopic(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlteredPartition] = array("0+")


class AlteredPartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("0+", of="int32")
    leader_recovery_state: int = int8("1+", default=0, ignorable=True)
    partition_epoch: int = int32("0+")
