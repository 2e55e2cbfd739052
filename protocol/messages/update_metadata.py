"""UpdateMetadata, API key 6: the controller tells a broker of all brokers, and of the partitions of every topic.

Versions: 1 several endpoints for each broker; 2 rack; 3 listener names; 4 offline replicas; 5 broker epoch, partitions
by topic; 6 flexible; 7 topic ids; 8 whether a KRaft controller asks, and whether all is named (KIP-866). Kafka 4 has no
such request: these are the files of 3.9.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid

# The type of a request that names every partition of the cluster. Others name what has changed, or do not say.
FULL = 2


class UpdateMetadataRequest(Message, key=6, versions="0-8", flexible="6+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("8+", default=False)
    type: int = int8("8+", default=0, tag=0)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array("0-4")
    topic_states: list[UpdateMetadataTopicState] = array("5+")
    live_brokers: list[UpdateMetadataBroker] = array("0+")


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: bytes = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array("5+")


class UpdateMetadataBroker(Struct):
    id: int = int32("0+")
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array("1+", ignorable=True)
    rack: str | None = string("2+", nullable="0+", ignorable=True)


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("0+", of="int32")
    zk_version: int = int32("0+")
    replicas: list[int] = array("0+", of="int32")
    offline_replicas: list[int] = array("4+", of="int32", ignorable=True)


class UpdateMetadataResponse(Message, request=UpdateMetadataRequest):
    error_code: int = int16("0+")
