"""ConsumerGroupHeartbeat, API key 68: a member of a consumer group (KIP-848) joins, lives, changes or leaves.

A null field of the request or the response means: unchanged. MemberEpoch 0 joins, -1 leaves, -2 leaves for a moment (a
static member).

Versions: 1 subscription by a regular expression; the member makes its own id (KIP-1082).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string, struct, uuid


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array("0+", nullable="0+", default=None, of="string")
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array("0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatResponse(Message, request=ConsumerGroupHeartbeatRequest):
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
