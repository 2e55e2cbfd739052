"""Who is still there, in the group machine: heartbeats, leaves, sessions that ended, and whose commits are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from . import rebalance
from .events import CommitOffsets, Heartbeat, Leave, Leaver, Left, Outcome, SessionExpired
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group


def heartbeat(group: Group, event: Heartbeat, outcome: Outcome, now_ms: int) -> None:
    """Keeps the session; tells a member of a rebalance."""
    outcome.replies.append((event.token, _heartbeat(group, event, outcome)))


def _heartbeat(group: Group, event: Heartbeat, outcome: Outcome) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.keep_session(group.roster.members[event.member_id], outcome)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, event: Leave, outcome: Outcome, now_ms: int) -> None:
    """Members go, in any number; one rebalance for all of them."""
    gone: list[str] = []
    errors: list[ErrorCode] = []
    was_pending = False
    for leaver in event.members:
        error, member_id = _identify(group, leaver)
        errors.append(error)
        if error is ErrorCode.NONE:
            was_pending |= member_id in group.roster.pending
            if member_id in group.roster.members:
                gone.append(member_id + (f" ({leaver.reason})" if leaver.reason else ""))
            group.drop(member_id, outcome)
    outcome.replies.append((event.token, Left(errors)))
    if gone:
        rebalance.trigger(group, f"{', '.join(gone)} left", outcome, now_ms)
    elif was_pending and group.state is GroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(group, outcome, now_ms)


def _identify(group: Group, leaver: Leaver) -> tuple[ErrorCode, str]:
    """Who leaves: by its id, or by its instance id alone, as an administrator would say it."""
    roster = group.roster
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
    if not leaver.member_id:
        member_id = roster.static.get(leaver.instance_id or "")
        return (ErrorCode.UNKNOWN_MEMBER_ID, "") if member_id is None else (ErrorCode.NONE, member_id)
    if leaver.member_id in roster.pending:
        return ErrorCode.NONE, leaver.member_id
    return roster.check(leaver.member_id, leaver.instance_id), leaver.member_id


def session_expired(group: Group, event: SessionExpired, outcome: Outcome, now_ms: int) -> None:
    """A member was silent too long, unless it is the one that waits for an answer."""
    roster = group.roster
    member_id = event.member_id
    if member_id in roster.pending:
        group.drop(member_id, outcome)
        if group.state is GroupState.PREPARING_REBALANCE:
            rebalance.complete_if_all_joined(group, outcome, now_ms)
        return
    member = roster.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member_id in roster.joins or member_id in roster.syncs):
        # Its session begins anew with the answer.
        return
    waited_ms = member.session_timeout_ms
    group.drop(member_id, outcome)
    rebalance.trigger(group, f"{member_id} was silent for {waited_ms} ms", outcome, now_ms)


def commit_offsets(group: Group, event: CommitOffsets, outcome: Outcome, now_ms: int) -> None:
    """Lets a commit pass to the log, or refuses it whole."""
    error = _check_commit(group, event)
    outcome.replies.append((event.token, error))
    if error is not ErrorCode.NONE:
        return
    outcome.records.extend(event.records)
    member = group.roster.members.get(event.member_id)
    if member is not None:
        group.keep_session(member, outcome)


def _check_commit(group: Group, event: CommitOffsets) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if event.generation < 0 and group.state is GroupState.EMPTY:
        # From outside of the group: an administrator, or a consumer that assigns itself.
        return ErrorCode.NONE
    if event.generation < 0 and not event.member_id and event.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
