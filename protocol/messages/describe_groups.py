"""DescribeGroups, API key 15: state and members of groups.

Versions: 1 throttle time; 3 authorized operations; 4 instance id; 5 flexible; 6 error message, and GROUP_ID_NOT_FOUND
for a group that does not exist, which older versions call Dead.

Ours: `include_history` asks for the group's rebalances, which come as a GroupHistory (group_history.py) in `history`. A
broker that keeps none leaves the field out. See docs/decisions/0008-history-in-tagged-fields.md.
"""

from __future__ import annotations

from ..schema import OWN_TAGS, Message, Struct, array, binary, boolean, int16, int32, string


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array("0+", of="string")
    include_authorized_operations: bool = boolean("3+")
    include_history: bool = boolean("5+", tag=OWN_TAGS, ignorable=True)


class DescribeGroupsResponse(Message, request=DescribeGroupsRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array("0+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array("0+")
    authorized_operations: int = int32("3+", default=-2147483648)
    history: bytes | None = binary("5+", nullable="5+", tag=OWN_TAGS, default=None, ignorable=True)


class DescribedGroupMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")
