"""The machine of a consumer group (KIP-848): an event goes in, an outcome comes out. Pure, as ../classic/machine.py.

Nothing changes before its records are committed, so an append that fails needs nothing undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from ..classic import offset_steps
from ..groups import events
from ..groups.group import Group, empty_record
from ..modern.events import MemberSilent, TargetComputed
from ..outcome import nothing
from . import changes, classic_members, departure, heartbeat, offsets, regexes
from .events import REVOKE, ConsumerHeartbeat, MemberLate, MemberTimer, RegexesResolved
from .state import MemberState
from .target import CONSUMER_TARGET


def step(group: Group, event: events.Event, now_ms: int) -> events.Outcome:
    """Return the outcome of an event."""
    outcome = events.Outcome()
    STEPS[event.__class__](group, event, outcome, now_ms)
    return outcome


def _become_classic(group: Group, event: events.Create, outcome: events.Outcome, now_ms: int) -> None:
    """Make a classic group of one without members, for the member that is about to join. The offsets stay."""
    if group.consumer is not None and not group.consumer.members:
        outcome.records += changes.group_gone(group.group_id, group.consumer)
        outcome.records.append(empty_record(group, now_ms))


def _loaded(group: Group, event: events.Loaded, outcome: events.Outcome, now_ms: int) -> None:
    """Begin every member's session anew after the replay, and the wait for partitions that are given up."""
    body = group.consumer
    assert body is not None
    body.drop_halves()
    for member_id, member in body.members.items():
        departure.start_session(group, member_id, member.said, outcome)
        _wait_for_revocation(group, member_id, outcome)


def _wait_for_revocation(group: Group, member_id: str, outcome: events.Outcome) -> None:
    """Begin the time anew in which a member has to give partitions up, if it has to."""
    member = None if group.consumer is None else group.consumer.members.get(member_id)
    if member is None or member.said is None or member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    outcome.timers.append(events.SetTimer(MemberLate(member_id, REVOKE), member.said.rebalance_timeout_ms))


def _append_failed(group: Group, event: events.Failed, outcome: events.Outcome, now_ms: int) -> None:
    outcome.replies += events.append_failed_replies(event)
    if group.consumer is not None:
        # Timers of members that have to join again, and topics that were found, may have been part of the outcome.
        group.consumer.rejoining.clear()
        group.consumer.matched.clear()
    # A member that should have gone is still here: look again when its session or its time to revoke is over again.
    for each in event.outcome.timers:
        if isinstance(each, events.CancelTimer) and isinstance(each.event, MemberSilent):
            session_ms = group.limits.consumer.session_timeout_ms
            outcome.timers.append(events.SetTimer(each.event, session_ms))
            _wait_for_revocation(group, each.event.member_id, outcome)


STEPS: dict[type[Any], Callable[[Group, Any, events.Outcome, int], None]] = {
    # Timers of the classic group before, or a stop: no request waits in a consumer group.
    **dict.fromkeys((*get_args(events.TimerEvent), events.Unload, events.Rebalance), nothing),
    ConsumerHeartbeat: heartbeat.heartbeat,
    **dict.fromkeys(get_args(MemberTimer), departure.late),
    RegexesResolved: regexes.resolved,
    TargetComputed: CONSUMER_TARGET.computed,
    events.Create: _become_classic,
    events.Join: classic_members.join,
    events.Sync: classic_members.sync,
    events.Heartbeat: classic_members.beat,
    events.Leave: departure.leave_by_admin,
    events.CommitOffsets: offsets.commit_offsets,
    events.CommitInTransaction: offsets.commit_in_transaction,
    events.Delete: offsets.delete,
    events.DeleteOffsets: offset_steps.delete_offsets,
    events.ExpireOffsets: offset_steps.expire_offsets,
    events.DropTopic: offset_steps.drop_topic,
    events.EndTransaction: offset_steps.end_transaction,
    events.Loaded: _loaded,
    events.AppendFailed: _append_failed,
}
