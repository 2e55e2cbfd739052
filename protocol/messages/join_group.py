"""JoinGroup, API key 11: a member enters a group, or enters its next generation.

Versions: 1 rebalance time-out, apart from the session's; 2 throttle time; 4 a new member is first told its id
(MEMBER_ID_REQUIRED) and joins again with it; 5 instance id; 6 flexible; 7 says the protocol type, and null for no
protocol; 8 the reason for joining; 9 may tell the leader to skip the assignment.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, binary, boolean, int16, int32, string


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array("0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class JoinGroupResponse(Message, request=JoinGroupRequest):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array("0+")


class JoinGroupResponseMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary("0+")
