"""SyncGroup, API key 14: the leader hands in the assignment, every member receives its part.

Versions: 1 throttle time; 3 instance id; 4 flexible; 5 protocol type and name, to be checked by both sides.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, binary, int16, int32, string


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array("0+")


class SyncGroupRequestAssignment(Struct):
    member_id: str = string("0+")
    assignment: bytes = binary("0+")


class SyncGroupResponse(Message, request=SyncGroupRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary("0+")
