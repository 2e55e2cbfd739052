"""ShareGroupHeartbeat, API key 76: a member of a share group (KIP-932) joins, lives, changes or leaves.

A null field of the request or the response means: unchanged. MemberEpoch 0 joins, -1 leaves. Version 0 was a preview.
"""

from __future__ import annotations

from ..schema import Message, array, int16, int32, string, struct
from .consumer_group_heartbeat import Assignment
from .consumer_group_heartbeat import TopicPartitions as TopicPartitions


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array("0+", nullable="0+", default=None, of="string")


class ShareGroupHeartbeatResponse(Message, request=ShareGroupHeartbeatRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct("0+", nullable="0+", default=None)
