"""ConsumerGroupDescribe, API key 69: state, epochs and members of consumer groups (KIP-848).

Versions: 1 whether a member speaks the classic protocol (KIP-1099).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, string, struct, uuid


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array("0+", of="string")
    include_authorized_operations: bool = boolean("0+")


class ConsumerGroupDescribeResponse(Message, request=ConsumerGroupDescribeRequest):
    throttle_time_ms: int = int32("0+")
    groups: list[DescribedGroup] = array("0+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[Member] = array("0+")
    authorized_operations: int = int32("0+", default=-2147483648)


class Member(Struct):
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", of="string")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = struct("0+")
    target_assignment: Assignment = struct("0+")
    # -1 unknown, 0 a member of the classic protocol, 1 of the consumer protocol.
    member_type: int = int8("1+", default=-1, ignorable=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array("0+")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("0+", of="int32")
