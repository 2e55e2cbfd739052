"""The beginning and the end of a group at this coordinator: it is created, loaded from the log, or unloaded."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import GroupMetadataValue
from . import rebalance
from .events import Create, Joined, Loaded, Outcome, Synced, Unload
from .group import Group
from .history import Cause, CauseKind
from .records import GroupRecord
from .sessions import start_session
from .states import GroupState


def create(group: Group, event: Create, outcome: Outcome, now_ms: int) -> None:
    """Write a group without members down, so that it survives a restart like any other."""
    value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=now_ms)
    outcome.records.append(GroupRecord(group.group_id, value))


def loaded(group: Group, event: Loaded, outcome: Outcome, now_ms: int) -> None:
    """Start the sessions of all members after the replay. Those that are gone expire within a session timeout."""
    for member in group.roster.members.values():
        start_session(member, outcome)
    if len(group.roster) > group.limits.max_size:
        rebalance.prepare(group, [Cause(CauseKind.TOO_MANY)], outcome, now_ms)


def begin_after_downgrade(group: Group, outcome: Outcome, now_ms: int) -> None:
    """Begin a rebalance of a group that was a consumer group until now: its record names no leader.

    Nobody has the partitions of the members that left before that.
    """
    if group.leader is None and group.state is GroupState.STABLE:
        group.leader = next(iter(group.roster.members))
        rebalance.prepare(group, [Cause(CauseKind.DOWNGRADED)], outcome, now_ms)


def unload(group: Group, event: Unload, outcome: Outcome, now_ms: int) -> None:
    """Answer all parked requests with NOT_COORDINATOR: the clients look for the coordinator again."""
    roster = group.roster
    for member_id, token in roster.joins.items():
        outcome.reply(token, Joined(ErrorCode.NOT_COORDINATOR, member_id))
    for token in roster.syncs.values():
        outcome.reply(token, Synced(ErrorCode.NOT_COORDINATOR))
    roster.joins.clear()
    roster.syncs.clear()
    group.move_to(GroupState.DEAD, now_ms)
