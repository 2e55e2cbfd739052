"""Records that could not be written, in the group machine: nothing of their outcome has happened.

The state tells what the records were for, because the group was not stepped in between.
"""

from __future__ import annotations

from . import rebalance
from .events import AppendFailed, Joined, Outcome, Synced
from .group import Group
from .history import Cause, CauseKind, Ending
from .records import ClassicEnded, OffsetRecord, PartRecord
from .states import GroupState


def append_failed(group: Group, event: AppendFailed, outcome: Outcome, now_ms: int) -> None:
    """Answer the requests of the outcome with the error, and let the group go on from its state before."""
    if isinstance(event.outcome.records[0], OffsetRecord):
        _reply_error(event, outcome)
    elif isinstance(event.outcome.records[0], ClassicEnded | PartRecord):
        _upgrade_failed(event, outcome)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        _assignment_failed(group, event, outcome, now_ms)
    elif group.state is GroupState.STABLE:
        _new_id_failed(group, event, outcome)
    elif group.state is GroupState.PREPARING_REBALANCE:
        _emptying_failed(group, event, outcome)
    elif group.state is GroupState.EMPTY and event.outcome.replies:
        # A DeleteGroups without offsets to delete.
        _reply_error(event, outcome)
    elif group.state is GroupState.EMPTY and not group.recorded:
        outcome.notes.append(f"group {group.group_id} could not be created: {event.error.name}")
        group.move_to(GroupState.DEAD, now_ms)


def _reply_error(event: AppendFailed, outcome: Outcome) -> None:
    outcome.replies.extend((token, event.error) for token, _ in event.outcome.replies)


def _upgrade_failed(event: AppendFailed, outcome: Outcome) -> None:
    """Leave the group a classic one. Its members that waited join again, as they would have had to."""
    for token, answer in event.outcome.replies:
        outcome.reply(token, answer if isinstance(answer, Joined | Synced) else event.error)


def _assignment_failed(group: Group, event: AppendFailed, outcome: Outcome, now_ms: int) -> None:
    """Begin another rebalance: the assignment is lost."""
    rebalance.answer_syncs(group, event.error, outcome)
    # The rebalance was noted as stable when the leader brought the assignment.
    group.rebalances[-1].ending = Ending.RUNNING
    rebalance.prepare(group, [Cause(CauseKind.NOT_WRITTEN, detail=event.error.name)], outcome, now_ms)


def _new_id_failed(group: Group, event: AppendFailed, outcome: Outcome) -> None:
    """Leave the static member under its old id."""
    group.incoming = None
    outcome.replies.extend((token, Joined(event.error, "")) for token, _ in event.outcome.replies)


def _emptying_failed(group: Group, event: AppendFailed, outcome: Outcome) -> None:
    """Make the group empty in memory all the same, because no member is left.

    A coordinator that reads the log finds the generation before; its members will not send heartbeats, and expire.
    """
    for record in event.outcome.records:
        group.apply(record)
    outcome.replies, outcome.timers = event.outcome.replies, event.outcome.timers
    outcome.notes.append(f"group {group.group_id} could not write that it is empty: {event.error.name}")
