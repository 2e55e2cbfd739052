"""SyncGroup in the group machine: the leader brings the assignments of all members, the others wait for theirs.

The leader's assignment becomes a record. When it is committed, the group is stable and all parked syncs are answered.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ..groups.events import CancelTimer, Outcome, Sync, Synced, SyncTimeout
from ..groups.group import Group, generation_record
from ..groups.history import Ending
from . import rebalance
from .sessions import renew_session, start_session
from .states import GroupState


def sync(group: Group, event: Sync, outcome: Outcome, now_ms: int) -> None:
    """Answer with the assignment in a stable group. Otherwise park the sync until the leader has synced."""
    member = group.roster.members[event.member_id]
    renew_session(member, outcome, now_ms)
    _note_synced(group, event.member_id, outcome)
    if group.state is GroupState.STABLE:
        outcome.reply(event.token, _synced(group, member.assignment))
        return
    earlier = group.roster.syncs.get(event.member_id)
    if earlier is not None:
        outcome.reply(earlier, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
    group.roster.syncs[event.member_id] = event.token
    if group.leader == event.member_id:
        _write_assignments(group, event, outcome, now_ms)


def _note_synced(group: Group, member_id: str, outcome: Outcome) -> None:
    if group.roster.not_synced:
        group.roster.not_synced.discard(member_id)
        if not group.roster.not_synced:
            outcome.timers.append(CancelTimer(SyncTimeout()))


def _write_assignments(group: Group, event: Sync, outcome: Outcome, now_ms: int) -> None:
    """Write the leader's assignment. A member that the leader left out gets an empty one."""
    members = group.roster.members
    seats = [(member, event.assignments.get(member.member_id, b"")) for member in members.values()]
    outcome.records.append(generation_record(group, group.generation, seats, group.leader, now_ms))
    for member, assignment in seats:
        token = group.roster.syncs.get(member.member_id)
        if token is not None:
            outcome.reply(token, _synced(group, assignment))
            start_session(member, outcome)
    rebalance.end(group, Ending.STABLE, outcome, now_ms)


def _synced(group: Group, assignment: bytes) -> Synced:
    return Synced(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)
