"""ShareGroupDescribe, API key 77: state, epochs and members of share groups (KIP-932).

Version 0 was a preview.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, string, struct
from .consumer_group_describe import Assignment
from .consumer_group_describe import TopicPartitions as TopicPartitions


class ShareGroupDescribeRequest(Message, key=77, versions="1", flexible="0+"):
    group_ids: list[str] = array("0+", of="string")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(Message, request=ShareGroupDescribeRequest):
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
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("0+", of="string")
    assignment: Assignment = struct("0+")
