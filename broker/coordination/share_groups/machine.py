"""The machine of a share group (KIP-932): an event goes in, an outcome comes out. Pure, as ../classic/machine.py.

Nothing changes before its records are committed, so an append that fails needs nothing undone. Share groups have no
committed offsets, and no group of another kind becomes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from ....protocol.errors import ErrorCode
from ..classic import offset_steps
from ..groups import events
from ..groups.group import Group
from ..modern.events import MemberSilent, Rejection
from ..outcome import nothing
from . import changes, heartbeat, initialization
from .events import AlterStates, DeleteStates, ForgetTopic, ShareHeartbeat, StatesDeleted, StatesInitialized
from .target import SHARE_TARGET


def step(group: Group, event: events.Event, now_ms: int) -> events.Outcome:
    """Return the outcome of an event."""
    outcome = events.Outcome()
    _STEPS[event.__class__](group, event, outcome, now_ms)
    return outcome


def _delete(group: Group, event: events.Delete, outcome: events.Outcome, now_ms: int) -> None:
    """Delete an empty group, whose states are deleted."""
    body = group.share
    assert body is not None
    if body.members or body.places():
        outcome.reply(event.token, ErrorCode.NON_EMPTY_GROUP)
        return
    outcome.reply(event.token, ErrorCode.NONE)
    outcome.records += changes.group_gone(group.group_id, body)
    outcome.notes.append(f"share group {group.group_id} is deleted by request")


def _loaded(group: Group, event: events.Loaded, outcome: events.Outcome, now_ms: int) -> None:
    """Begin every member's session anew after the replay."""
    body = group.share
    assert body is not None
    body.drop_halves()
    for member_id in body.members:
        heartbeat.start_session(group, member_id, outcome)


def _append_failed(group: Group, event: events.Failed, outcome: events.Outcome, now_ms: int) -> None:
    outcome.replies += events.append_failed_replies(event)
    # A member that should have gone is still here: look again when its session is over once more.
    for each in event.outcome.timers:
        if isinstance(each, events.CancelTimer) and isinstance(each.event, MemberSilent):
            heartbeat.start_session(group, each.event.member_id, outcome)


def _reject(group: Group, event: Any, outcome: events.Outcome, now_ms: int) -> None:
    """Reject what only groups of other kinds serve."""
    if isinstance(event, events.Join):
        outcome.reply(event.token, events.Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
        return
    outcome.replies.append(events.rejection(event, _REJECTIONS[event.__class__]))


def _reject_consumer(group: Group, event: events.ConsumerHeartbeat, outcome: events.Outcome, now_ms: int) -> None:
    why = f"Group {group.group_id} is not a consumer group."
    outcome.reply(event.token, Rejection(ErrorCode.GROUP_ID_NOT_FOUND, why))


_REJECTIONS: dict[type[Any], ErrorCode] = {
    events.Sync: ErrorCode.UNKNOWN_MEMBER_ID,
    events.Heartbeat: ErrorCode.UNKNOWN_MEMBER_ID,
    events.Leave: ErrorCode.UNKNOWN_MEMBER_ID,
    events.CommitOffsets: ErrorCode.GROUP_ID_NOT_FOUND,
    events.CommitInTransaction: ErrorCode.GROUP_ID_NOT_FOUND,
    events.DeleteOffsets: ErrorCode.GROUP_ID_NOT_FOUND,
}

_STEPS: dict[type[Any], Callable[[Group, Any, events.Outcome, int], None]] = {
    # Timers and news of groups of other kinds, or a stop: no request waits in a share group.
    **dict.fromkeys((*get_args(events.TimerEvent), events.RegexesResolved), nothing),
    **dict.fromkeys((events.ExpireOffsets, events.Unload, events.Create, events.Rebalance), nothing),
    ShareHeartbeat: heartbeat.heartbeat,
    MemberSilent: heartbeat.silent,
    events.TargetComputed: SHARE_TARGET.computed,
    AlterStates: initialization.alter,
    DeleteStates: initialization.delete,
    StatesInitialized: initialization.initialized,
    StatesDeleted: initialization.deleted,
    ForgetTopic: initialization.forget_topic,
    events.Delete: _delete,
    events.DropTopic: offset_steps.drop_topic,
    events.EndTransaction: offset_steps.end_transaction,
    events.Loaded: _loaded,
    events.AppendFailed: _append_failed,
    events.ConsumerHeartbeat: _reject_consumer,
    **dict.fromkeys((*_REJECTIONS, events.Join), _reject),
}
