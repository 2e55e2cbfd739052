"""Who is still there, in the group machine: heartbeats, leaves, sessions that ended, and whose commits are taken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from . import rebalance
from .events import CommitInTransaction, CommitOffsets, Heartbeat, Leave, Leaver, Left, Outcome, SessionExpired
from .history import UNKNOWN_MS, Cause, CauseKind
from .roster import Member
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group


def heartbeat(group: Group, event: Heartbeat, outcome: Outcome, now_ms: int) -> None:
    """Keeps the session; tells a member of a rebalance."""
    outcome.replies.append((event.token, _heartbeat(group, event, outcome, now_ms)))


def _heartbeat(group: Group, event: Heartbeat, outcome: Outcome, now_ms: int) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.heard(group.roster.members[event.member_id], outcome, now_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, event: Leave, outcome: Outcome, now_ms: int) -> None:
    """Members go, in any number; one rebalance for all of them."""
    gone: list[Cause] = []
    errors: list[ErrorCode] = []
    was_pending = False
    for leaver in event.members:
        error, member_id = _identify(group, leaver)
        errors.append(error)
        if error is ErrorCode.NONE:
            was_pending |= member_id in group.roster.pending
            if member_id in group.roster.members:
                gone.append(group.roster.members[member_id].cause(CauseKind.LEFT, leaver.reason))
            group.drop(member_id, outcome)
    outcome.replies.append((event.token, Left(errors)))
    if gone:
        rebalance.trigger(group, gone, outcome, now_ms)
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
            group.rebalances[-1].lost(member_id, now_ms)
            rebalance.complete_if_all_joined(group, outcome, now_ms)
        return
    member = roster.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member_id in roster.joins or member_id in roster.syncs):
        # Its session begins anew with the answer.
        return
    group.drop(member_id, outcome)
    rebalance.trigger(group, [_expired(member, now_ms)], outcome, now_ms)


def _expired(member: Member, now_ms: int) -> Cause:
    silent_ms = UNKNOWN_MS if member.heard_ms < 0 else max(now_ms - member.heard_ms, 0)
    what = (
        "never had an answer to its first join" if member.is_new else f"session.timeout.ms {member.session_timeout_ms}"
    )
    return replace(member.cause(CauseKind.EXPIRED, what), silent_ms=silent_ms)


def commit_offsets(group: Group, event: CommitOffsets, outcome: Outcome, now_ms: int) -> None:
    """Lets a commit pass to the log, or refuses it whole."""
    error = check_commit(group, event)
    outcome.replies.append((event.token, error))
    if error is not ErrorCode.NONE:
        return
    outcome.records.extend(event.records)
    member = group.roster.members.get(event.member_id)
    if member is not None:
        group.heard(member, outcome, now_ms)


def check_commit(group: Group, event: CommitOffsets | CommitInTransaction) -> ErrorCode:
    """Whether this member may commit. A producer that commits for it may do so in the middle of a rebalance, and where
    it does not say for whom (KIP-447 came later): the transaction keeps it from going wrong.
    """
    is_transactional = isinstance(event, CommitInTransaction)
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if event.generation < 0 and group.state is GroupState.EMPTY:
        # From outside of the group: an administrator, or a consumer that assigns itself.
        return ErrorCode.NONE
    if event.generation < 0 and not event.member_id and event.instance_id is None:
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
