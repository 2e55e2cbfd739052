"""The beginning and the end of a group at this coordinator: it is created, loaded from the log, or unloaded.

And what happens where records could not be written: nothing of their outcome has happened. The state tells what the
records were for, because the group was not stepped in between.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_history import HistoricCause
from ..classic import rebalance
from ..classic.sessions import answer_parked, start_session
from ..classic.states import GroupState
from .events import Create, Failed, Joined, Loaded, Outcome, Synced, Unload, append_failed_replies
from .group import Group, empty_record
from .history import CauseKind, Ending
from .records import ClassicEnded, OffsetRecord, PartRecord


def create(group: Group, event: Create, outcome: Outcome, now_ms: int) -> None:
    """Write a new group without members down, so that it survives a restart like any other."""
    if group.is_blank() and group.state is not GroupState.DEAD:
        outcome.records.append(empty_record(group, now_ms))


def loaded(group: Group, event: Loaded, outcome: Outcome, now_ms: int) -> None:
    """Start the sessions of all members after the replay. Those that are gone expire within a session timeout."""
    for member in group.roster.members.values():
        start_session(member, outcome)
    if len(group.roster) > group.limits.max_size:
        rebalance.prepare(group, [HistoricCause(CauseKind.TOO_MANY)], outcome, now_ms)


def begin_after_downgrade(group: Group, outcome: Outcome, now_ms: int) -> None:
    """Begin a rebalance of a group that was a consumer group until now: its record names no leader.

    Nobody has the partitions of the members that left before that.
    """
    if group.leader is None and group.state is GroupState.STABLE:
        group.leader = next(iter(group.roster.members))
        rebalance.prepare(group, [HistoricCause(CauseKind.DOWNGRADED)], outcome, now_ms)


def unload(group: Group, event: Unload, outcome: Outcome, now_ms: int) -> None:
    """Answer all parked requests with NOT_COORDINATOR: the clients look for the coordinator again."""
    answer_parked(group, ErrorCode.NOT_COORDINATOR, outcome)
    group.move_to(GroupState.DEAD, now_ms)


def append_failed(group: Group, event: Failed, outcome: Outcome, now_ms: int) -> None:
    """Answer the requests of the outcome with the error, and let the group go on from its state before."""
    if isinstance(event.outcome.records[0], OffsetRecord):
        outcome.replies += append_failed_replies(event)
    elif isinstance(event.outcome.records[0], ClassicEnded | PartRecord):
        # The group stays a classic one. Its members that waited join again, as they would have had to.
        for token, answer in event.outcome.replies:
            outcome.reply(token, answer if isinstance(answer, Joined | Synced) else event.error)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        _assignment_failed(group, event, outcome, now_ms)
    elif group.state is GroupState.STABLE:
        _new_id_failed(group, event, outcome)
    elif group.state is GroupState.PREPARING_REBALANCE:
        _emptying_failed(group, event, outcome)
    elif group.state is GroupState.EMPTY and event.outcome.replies:
        # A DeleteGroups without offsets to delete.
        outcome.replies += append_failed_replies(event)
    elif group.state is GroupState.EMPTY and group.is_blank():
        outcome.notes.append(f"group {group.group_id} could not be created: {event.error.name}")
        group.move_to(GroupState.DEAD, now_ms)


def _assignment_failed(group: Group, event: Failed, outcome: Outcome, now_ms: int) -> None:
    """Begin another rebalance: the assignment is lost."""
    rebalance.answer_syncs(group, event.error, outcome)
    # The rebalance was noted as stable when the leader brought the assignment.
    group.rebalances[-1].ending = Ending.RUNNING
    rebalance.prepare(group, [HistoricCause(CauseKind.NOT_WRITTEN, detail=event.error.name)], outcome, now_ms)


def _new_id_failed(group: Group, event: Failed, outcome: Outcome) -> None:
    """Leave the static member under its old id."""
    group.incoming = None
    outcome.replies += append_failed_replies(event)


def _emptying_failed(group: Group, event: Failed, outcome: Outcome) -> None:
    """Make the group empty in memory all the same, because no member is left.

    A coordinator that reads the log finds the generation before; its members will not send heartbeats, and expire.
    """
    for record in event.outcome.records:
        group.apply(record)
    outcome.replies, outcome.timers = event.outcome.replies, event.outcome.timers
    outcome.notes.append(f"group {group.group_id} could not write that it is empty: {event.error.name}")
