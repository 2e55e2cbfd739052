"""SyncGroup in the group machine, and word from the coordinator and its log: created, loaded, let go, not written.

The leader's sync carries the assignment: it becomes a record, and when that is committed the group is stable and every
parked sync is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import GroupMetadataValue
from . import rebalance
from .events import AppendFailed, CancelTimer, Create, Joined, Loaded, Outcome, Sync, Synced, SyncTimeout, Unload
from .history import Cause, CauseKind, Ending
from .records import GroupRecord, OffsetRecord
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group


def sync(group: Group, event: Sync, outcome: Outcome, now_ms: int) -> None:
    """A member asks for its assignment; the leader brings everyone's."""
    error = _check(group, event)
    if error is not ErrorCode.NONE:
        outcome.replies.append((event.token, Synced(error)))
        return
    member = group.roster.members[event.member_id]
    group.heard(member, outcome, now_ms)
    _note_synced(group, event.member_id, outcome)
    if group.state is GroupState.STABLE:
        outcome.replies.append((event.token, _synced(group, member.assignment)))
        return
    earlier = group.roster.syncs.get(event.member_id)
    if earlier is not None:
        outcome.replies.append((earlier, Synced(ErrorCode.REBALANCE_IN_PROGRESS)))
    group.roster.syncs[event.member_id] = event.token
    if group.leader == event.member_id:
        _write_assignments(group, event, outcome, now_ms)


def _check(group: Group, event: Sync) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type not in (None, group.protocol_type) or event.protocol not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _note_synced(group: Group, member_id: str, outcome: Outcome) -> None:
    if group.roster.not_synced:
        group.roster.not_synced.discard(member_id)
        if not group.roster.not_synced:
            outcome.timers.append(CancelTimer(SyncTimeout()))


def _write_assignments(group: Group, event: Sync, outcome: Outcome, now_ms: int) -> None:
    """Members that the leader left out have an empty assignment."""
    members = group.roster.members
    seats = [(member, event.assignments.get(member.member_id, b"")) for member in members.values()]
    outcome.records.append(group.generation_record(group.generation, seats, group.leader, now_ms))
    for member, assignment in seats:
        token = group.roster.syncs.get(member.member_id)
        if token is not None:
            outcome.replies.append((token, _synced(group, assignment)))
            group.keep_session(member, outcome)
    rebalance.end(group, Ending.STABLE, outcome, now_ms)


def _synced(group: Group, assignment: bytes) -> Synced:
    return Synced(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)


# Word from the coordinator and the log.


def create(group: Group, event: Create, outcome: Outcome, now_ms: int) -> None:
    """A group without members is written down, so that it outlives a restart like any other."""
    value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=now_ms)
    outcome.records.append(GroupRecord(group.group_id, value))


def loaded(group: Group, event: Loaded, outcome: Outcome, now_ms: int) -> None:
    """After the replay: whoever lives will say so within a session timeout."""
    for member in group.roster.members.values():
        group.keep_session(member, outcome)
    if len(group.roster) > group.limits.max_size:
        rebalance.prepare(group, [Cause(CauseKind.TOO_MANY)], outcome, now_ms)


def unload(group: Group, event: Unload, outcome: Outcome, now_ms: int) -> None:
    """Whoever waits here shall look for the coordinator again."""
    roster = group.roster
    for member_id, token in roster.joins.items():
        outcome.replies.append((token, Joined(ErrorCode.NOT_COORDINATOR, member_id)))
    for token in roster.syncs.values():
        outcome.replies.append((token, Synced(ErrorCode.NOT_COORDINATOR)))
    roster.joins.clear()
    roster.syncs.clear()
    group.move_to(GroupState.DEAD, now_ms)


def append_failed(group: Group, event: AppendFailed, outcome: Outcome, now_ms: int) -> None:
    """Nothing of the outcome came to be. What had been tried follows from the state, for nothing was stepped."""
    failed = event.outcome
    if isinstance(failed.records[0], OffsetRecord):
        outcome.replies.extend((token, event.error) for token, _ in failed.replies)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        rebalance.answer_syncs(group, event.error, outcome)
        # What the leader brought came to nothing, so this one has not ended stable.
        group.rebalances[-1].ending = Ending.RUNNING
        rebalance.prepare(group, [Cause(CauseKind.NOT_WRITTEN, detail=event.error.name)], outcome, now_ms)
    elif group.state is GroupState.STABLE:
        group.incoming = None
        outcome.replies.extend((token, Joined(event.error, "")) for token, _ in failed.replies)
    elif group.state is GroupState.PREPARING_REBALANCE:
        # Nobody is left: the group is empty whether that could be written or not. A coordinator that reads the log
        # finds the generation before, whose members will not answer.
        for record in failed.records:
            group.apply(record)
        outcome.replies, outcome.timers = failed.replies, failed.timers
        outcome.notes.append(f"group {group.group_id} could not write that it is empty: {event.error.name}")
    elif group.state is GroupState.EMPTY and failed.replies:
        # Someone wanted it deleted.
        outcome.replies.extend((token, event.error) for token, _ in failed.replies)
    elif group.state is GroupState.EMPTY and not group.recorded:
        outcome.notes.append(f"group {group.group_id} could not be created: {event.error.name}")
        group.move_to(GroupState.DEAD, now_ms)
