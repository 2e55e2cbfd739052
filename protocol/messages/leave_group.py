"""LeaveGroup, API key 13: members leave without waiting for their session to end.

Versions: 1 throttle time; 3 several members at once, by member or instance id; 4 flexible; 5 the reason for leaving.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array("3+")


class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupResponse(Message, request=LeaveGroupRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array("3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")
