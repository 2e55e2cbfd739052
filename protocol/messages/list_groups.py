"""ListGroups, API key 16: the groups that a broker coordinates.

Versions: 1 throttle time; 3 flexible; 4 states, shown and to be filtered by; 5 types, likewise.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array("4+", of="string")
    types_filter: list[str] = array("5+", of="string")


class ListGroupsResponse(Message, request=ListGroupsRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array("0+")


class ListedGroup(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)
