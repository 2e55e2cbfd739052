"""The records of __consumer_offsets that a share group (KIP-932) consists of, types 10 to 15.

Keys and values are written as those of group_records.py. A group lives while it has an 11; each member has a 10 (what
it said), a 14 (where it stands), and a 13 (where it should be) if its target is not empty. The epoch of all targets
is in 12. Type 15 says for which partitions the share coordinator has a state.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int32, int64, string, uuid
from .consumer_group_records import TopicPartition


class ShareGroupMemberMetadataKey(Message, key=10, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupMemberMetadataValue(Message, key=10, versions="0", flexible="0+"):
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", of="string")


class ShareGroupMetadataKey(Message, key=11, versions="0"):
    group_id: str = string("0")


class ShareGroupMetadataValue(Message, key=11, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions="0"):
    group_id: str = string("0")


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", default=0, ignorable=True, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array("0+")


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array("0+")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", of="int32")


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions="0"):
    group_id: str = string("0")


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array("0+")
    initialized_topics: list[TopicPartitionsInfo] = array("0+")
    deleting_topics: list[TopicInfo] = array("0+")


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class TopicInfo(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
