"""ShareGroupHeartbeat, API key 76: a member of a share group (KIP-932) joins, lives, changes or leaves.

A null field of the request or the response means: unchanged. MemberEpoch 0 joins, -1 leaves. Version 0 was a preview.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string, struct, uuid


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


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array("0+")


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("0+", of="int32")
