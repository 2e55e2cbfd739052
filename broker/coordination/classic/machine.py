"""The machine of a classic group: an event goes in, an outcome comes out. Pure: no clock, no log, no network.

    outcome = step(group, event, now_ms)
    append outcome.records; when they are committed:  for record in outcome.records: group.apply(record)
    then send outcome.replies and set outcome.timers

The guards (guards.py) come first: they reject a request that does not fit the group's state. STEPS then names the one
function that each event takes.

Two kinds of changes:

- What the log keeps changes in `apply`, when the record is committed: a group becomes Empty or Stable, gets assignments
  or committed offsets, or is deleted. Start-up applies the same records, so it finds what the clients were told.
- What a rebalance needs changes at once: PreparingRebalance and CompletingRebalance, members that join and leave,
  parked requests, the next generation. A crash loses this, and start-up finds the last generation that was written.

Two exceptions: a group without members becomes Empty even if its record could not be written (lifecycle.py), and
the offsets of a transaction count with EndTransaction, because its marker is in the log already.

A group that is a consumer group (KIP-848) or a share group (KIP-932) has a machine of its own (consumer/machine.py,
share_groups/machine.py). That of share groups is imported when the first one is met.

Between a step that returns a record of the group and its `apply` (or an AppendFailed) the caller does not step the
group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ....protocol.errors import ErrorCode
from ..consumer import machine as consumer
from ..groups import events, lifecycle
from ..groups.group import Group
from . import guards, join_phase, membership, offset_steps, rebalance, sync_phase
from .states import GroupState


def step(group: Group, event: events.Event, now_ms: int) -> events.Outcome:
    """Return the outcome of an event. `now_ms` is the wall clock, which only dates records and history."""
    do = STEPS.get(event.__class__)
    if group.state is GroupState.DEAD and isinstance(event, FOUNDERS):
        # It waited for the end of this group. The client looks again, and finds none.
        return events.Outcome(replies=[events.rejection(event, ErrorCode.COORDINATOR_NOT_AVAILABLE)])
    if group.share is not None or event.__class__ in SHARE_EVENTS:
        return _share_step()(group, event, now_ms)
    if group.consumer is not None or do is None:
        return consumer.step(group, event, now_ms)
    outcome = events.Outcome()
    if group.leader is None:
        lifecycle.begin_after_downgrade(group, outcome, now_ms)
    error = guards.find_error(group, event)
    if not error:
        do(group, event, outcome, now_ms)
    elif isinstance(event, events.Join):
        join_phase.reject(group, event, error, outcome, now_ms)
    elif isinstance(event, events.Request):
        outcome.replies.append(events.rejection(event, error))
    return outcome


@cache
def _share_step() -> Callable[[Group, events.Event, int], events.Outcome]:
    from ..share_groups import machine as share

    return share.step


# What makes a group of the newer kinds. The guards know those of classic groups.
FOUNDERS = (events.ConsumerHeartbeat, events.ShareHeartbeat, events.AlterStates)

# What makes a share group of a group that is none, or finds none.
SHARE_EVENTS = frozenset(
    {
        events.ShareHeartbeat,
        events.AlterStates,
        events.DeleteStates,
        events.StatesInitialized,
        events.StatesDeleted,
        events.ForgetTopic,
    }
)

# All others are of consumer groups: they make one of a group that is none, or find none.
STEPS: dict[type[events.Event], Callable[[Group, Any, events.Outcome, int], None]] = {
    events.Join: join_phase.join,
    events.Sync: sync_phase.sync,
    events.Heartbeat: membership.heartbeat,
    events.Leave: membership.leave,
    events.CommitOffsets: offset_steps.commit_offsets,
    events.CommitInTransaction: offset_steps.commit_in_transaction,
    events.Delete: offset_steps.delete,
    events.DeleteOffsets: offset_steps.delete_offsets,
    events.SessionExpired: membership.session_expired,
    events.InitialDelayPassed: rebalance.initial_delay_passed,
    events.RebalanceTimeout: rebalance.rebalance_timeout,
    events.SyncTimeout: rebalance.sync_timeout,
    events.Create: lifecycle.create,
    events.Rebalance: rebalance.rebalance,
    events.ExpireOffsets: offset_steps.expire_offsets,
    events.DropTopic: offset_steps.drop_topic,
    events.EndTransaction: offset_steps.end_transaction,
    events.Loaded: lifecycle.loaded,
    events.Unload: lifecycle.unload,
    events.AppendFailed: lifecycle.append_failed,
}
