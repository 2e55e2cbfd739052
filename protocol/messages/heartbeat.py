"""Heartbeat, API key 12: a member is alive, and hears whether to join again.

Versions: 1 throttle time; 3 instance id; 4 flexible.
"""

from __future__ import annotations

from ..schema import Message, int16, int32, string


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, request=HeartbeatRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
