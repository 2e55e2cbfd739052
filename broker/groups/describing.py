"""DescribeGroups and ListGroups: a group as outsiders see it."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ...protocol.messages.list_groups import ListedGroup
from .machine import Group
from .states import GroupState

NOT_FOUND_VERSION = 6
"""From here on a group that nobody knows is GROUP_ID_NOT_FOUND; before it is Dead, without an error (KIP-1043)."""

GROUP_TYPE = "classic"

ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Nothing is forbidden: the bits of READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS."""


def describe(group_id: str, group: Group | None, error: ErrorCode, version: int) -> DescribedGroup:
    """One group of DescribeGroups; `group` None where it is not known, with the error that kept us from looking."""
    if error is not ErrorCode.NONE:
        return DescribedGroup(error_code=error, group_id=group_id)
    if group is None or group.state is GroupState.DEAD:
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= NOT_FOUND_VERSION:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            missing.error_message = f"Group {group_id} not found."
        return missing
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                # While the group rebalances nobody knows under which protocol it will be read.
                member.metadata(group.protocol) if stable else b"",
                member.assignment,
            )
            for member in group.roster.members.values()
        ],
    )


def list_groups(groups: Iterable[Group], states: list[str], types: list[str]) -> list[ListedGroup]:
    """The groups in any of `states` and of any of `types`; either empty means all. Case does not matter."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    if wanted_types and GROUP_TYPE not in wanted_types:
        return []
    return [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, GROUP_TYPE)
        for group in groups
        if not wanted_states or group.state.value.lower() in wanted_states
    ]
