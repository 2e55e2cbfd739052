"""The records of __consumer_offsets that a consumer group (KIP-848) consists of, types 3 to 8 and 16.

Keys and values are written as those of group_records.py. A group lives while it has a type 3; each member has a 5 (what
it said), an 8 (where it stands), and a 7 (where it should be) if its target is not empty. The epoch of all targets
is in 6. Type 4 was written before Kafka 4.1 only. Type 16 holds the topics that a regular expression matched.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, binary, int8, int32, int64, string, struct, uuid


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    group_id: str = string("0")


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0"):
    group_id: str = string("0")


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", of="string")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        "0+", nullable="0+", default=None, tag=0, writes_null=True
    )


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array("0+")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, ignorable=True, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array("0+")


class TopicPartition(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", of="int32")


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    # A MemberState of the coordinator: 0 stable, 1 has unrevoked partitions, 2 waits for unreleased ones.
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array("0+")
    partitions_pending_revocation: list[TopicPartitions] = array("0+")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", of="int32")
    # For each partition the epoch at which the member got it (KIP-1251); null in records of Kafka before 4.3.
    assignment_epochs: list[int] | None = array("0+", of="int32", nullable="0+", default=None, tag=0)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    topics: list[str] = array("0+", of="string")
    version: int = int64("0+")
    timestamp: int = int64("0+")
