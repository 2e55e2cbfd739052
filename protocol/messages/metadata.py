"""Metadata, API key 3: brokers, topics, and who leads which partition.

Versions: 0 takes no topics for all of them; 1 takes null for all, and adds controller, racks and which topics are
internal; 2 cluster id; 3 throttle time; 4 the client may forbid auto-creation; 5 offline replicas; 7 leader epoch;
8 authorized operations; 9 flexible; 10 topic ids in the response; 11 leaves the cluster's operations to
DescribeCluster; 12 asks by topic id; 13 an error for the whole response.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array("0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+", ignorable=True)
    name: str | None = string("0+", nullable="10+")


class MetadataResponse(Message, request=MetadataRequest):
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array("0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array("0+")
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array("0+")
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("0+", of="int32")
    isr_nodes: list[int] = array("0+", of="int32")
    offline_replicas: list[int] = array("5+", of="int32", ignorable=True)
