"""The guards of the group machine: in which state a group rejects which request, and with which error.

GUARDS is the whole rule. A row is a request, a column is a state. An entry lists the checks that the request must pass
there, in this order. The first error is the answer. An empty entry lets the request through. Timers and news from the
log have no row: they are never rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.errors import ErrorCode
from ..groups.events import (
    CommitInTransaction,
    CommitOffsets,
    Delete,
    DeleteOffsets,
    Event,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from ..groups.group import Group
from ..groups.subscriptions import CONSUMER
from .roster import Roster
from .states import GroupState

# Python 3.11 takes a tenth of a microsecond to look up a member of an enum: a percent of a heartbeat.
_NONE = ErrorCode.NONE

Guard = Callable[[Group, Any], ErrorCode]


def find_error(group: Group, event: Event) -> ErrorCode:
    """Return the error with which the group rejects an event, or NONE."""
    row = GUARDS.get(event.__class__)
    if row is None:
        return _NONE
    for check in row[group.state]:
        error = check(group, event)
        if error:
            return error
    return _NONE


def check_member(roster: Roster, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID if another member has the instance id (KIP-345), or NONE."""
    if instance_id is not None:
        owner = roster.static.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return _NONE if member_id in roster.members else ErrorCode.UNKNOWN_MEMBER_ID


# -- Checks


def _always(error: ErrorCode) -> Guard:
    return lambda group, event: error


def _current_member(group: Group, event: Sync | Heartbeat | CommitOffsets | CommitInTransaction) -> ErrorCode:
    """Check that a member sends the request, and that it names the current generation."""
    error = check_member(group.roster, event.member_id, event.instance_id)
    if not error and event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _outsider_or_current_member(group: Group, event: CommitOffsets | CommitInTransaction) -> ErrorCode:
    """Let a commit from outside of the group through: an administrator's, or a consumer's that assigns itself."""
    return _NONE if event.generation < 0 else _current_member(group, event)


def _unnamed_or_current_member(group: Group, event: CommitInTransaction) -> ErrorCode:
    """Let a producer through that names no member: clients name one since KIP-447."""
    is_unnamed = event.generation < 0 and not event.member_id and event.instance_id is None
    return _NONE if is_unnamed else _current_member(group, event)


def _room(group: Group, event: Join) -> ErrorCode:
    """Check `group.max.size`. In a rebalance only members that have joined again count, so the last ones lose."""
    roster, max_size = group.roster, group.limits.max_size
    taken = roster.joins if group.state is GroupState.PREPARING_REBALANCE else roster.members
    has_room = event.member_id in taken or len(taken) < max_size
    return _NONE if has_room else ErrorCode.GROUP_MAX_SIZE_REACHED


def _shared_protocol(group: Group, event: Join) -> ErrorCode:
    """Check the protocol type and that all members share a protocol. Without members, any named protocol will do."""
    if not group.roster.members:
        fits = bool(event.protocol_type and event.protocols)
    else:
        fits = event.protocol_type == group.protocol_type and group.roster.supports(event.protocols)
    return _NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _new_pending_or_member(group: Group, event: Join) -> ErrorCode:
    """Check the member id of a join: none yet, one that was given out for this join, or a member's."""
    is_pending = event.member_id in group.roster.pending and event.instance_id is None
    if is_pending or not event.member_id:
        return _NONE
    return check_member(group.roster, event.member_id, event.instance_id)


def _elected_protocol(group: Group, event: Sync) -> ErrorCode:
    """Check that a sync names the elected protocol. A sync that names none is not checked."""
    fits = event.protocol_type in (None, group.protocol_type) and event.protocol in (None, group.protocol)
    return _NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _consumers(group: Group, event: DeleteOffsets) -> ErrorCode:
    """Check that the broker can read what the members subscribe: it must not delete an offset that they use."""
    return _NONE if group.protocol_type == CONSUMER else ErrorCode.NON_EMPTY_GROUP


# -- The table


_PASS: tuple[Guard, ...] = ()
_REBALANCES = _always(ErrorCode.REBALANCE_IN_PROGRESS)
# The client looks for the coordinator again, and finds a group that is not dead.
_LOOK_AGAIN: tuple[Guard, ...] = (_always(ErrorCode.COORDINATOR_NOT_AVAILABLE),)
_NOT_FOUND: tuple[Guard, ...] = (_always(ErrorCode.GROUP_ID_NOT_FOUND),)
_NOT_EMPTY: tuple[Guard, ...] = (_always(ErrorCode.NON_EMPTY_GROUP),)

_JOIN: tuple[Guard, ...] = (_room, _shared_protocol, _new_pending_or_member)
_SYNC: tuple[Guard, ...] = (_current_member, _elected_protocol)
_MEMBER: tuple[Guard, ...] = (_current_member,)
_OUTSIDER: tuple[Guard, ...] = (_outsider_or_current_member,)
_PRODUCER: tuple[Guard, ...] = (_unnamed_or_current_member,)


def _row(*checks: tuple[Guard, ...]) -> dict[GroupState, tuple[Guard, ...]]:
    return dict(zip(GroupState, checks, strict=True))


GUARDS: dict[type[Event], dict[GroupState, tuple[Guard, ...]]] = {
    # In Empty, PreparingRebalance, CompletingRebalance, Stable and Dead.
    # The first members of a group find room, whatever `group.max.size` is.
    Join: _row((_shared_protocol, _new_pending_or_member), _JOIN, _JOIN, _JOIN, _LOOK_AGAIN),
    Sync: _row(_SYNC, (*_SYNC, _REBALANCES), _SYNC, _SYNC, _LOOK_AGAIN),
    # A rebalance does not reject a heartbeat: it renews the session, and its answer tells of the rebalance.
    Heartbeat: _row(_MEMBER, _MEMBER, _MEMBER, _MEMBER, _LOOK_AGAIN),
    # Each member that leaves has a result of its own (membership.py).
    Leave: _row(_PASS, _PASS, _PASS, _PASS, _LOOK_AGAIN),
    # Members may save their work until the next generation is known.
    CommitOffsets: _row(_OUTSIDER, _MEMBER, (_current_member, _REBALANCES), _MEMBER, _LOOK_AGAIN),
    # A producer may commit in the middle of a rebalance: its transaction keeps that from going wrong.
    CommitInTransaction: _row(_OUTSIDER, _PRODUCER, _PRODUCER, _PRODUCER, _LOOK_AGAIN),
    Delete: _row(_PASS, _NOT_EMPTY, _NOT_EMPTY, _NOT_EMPTY, _NOT_FOUND),
    DeleteOffsets: _row(_PASS, (_consumers,), (_consumers,), (_consumers,), _NOT_FOUND),
}
