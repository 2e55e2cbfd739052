"""Heartbeat, LeaveGroup and sessions that expire, in the group machine."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_history import HistoricCause
from ....protocol.messages.leave_group import MemberIdentity
from ..groups.events import Heartbeat, Leave, Left, Outcome, SessionExpired
from ..groups.group import Group
from ..groups.history import UNKNOWN_MS, CauseKind
from . import rebalance
from .guards import check_member
from .roster import Member
from .sessions import remove_member, start_session
from .states import GroupState

# Looked up once (guards.py).
_NONE, _PREPARING = ErrorCode.NONE, GroupState.PREPARING_REBALANCE


def heartbeat(group: Group, event: Heartbeat, outcome: Outcome, now_ms: int) -> None:
    """Renew the session, and tell the member if a rebalance runs."""
    member = group.roster.members[event.member_id]
    member.heard_ms = now_ms
    start_session(member, outcome)
    error = _NONE if group.state is not _PREPARING else ErrorCode.REBALANCE_IN_PROGRESS
    outcome.replies.append((event.token, error))


def leave(group: Group, event: Leave, outcome: Outcome, now_ms: int) -> None:
    """Take out all members of the request, with one rebalance for all of them."""
    gone: list[HistoricCause] = []
    errors: list[ErrorCode] = []
    was_pending = False
    for leaver in event.members:
        error, member_id = _identify(group, leaver)
        errors.append(error)
        if error is ErrorCode.NONE:
            was_pending |= member_id in group.roster.pending
            if member_id in group.roster.members:
                gone.append(group.roster.members[member_id].cause(CauseKind.LEFT, leaver.reason))
            remove_member(group, member_id, outcome)
    outcome.reply(event.token, Left(errors))
    if gone:
        rebalance.trigger(group, gone, outcome, now_ms)
    elif was_pending and group.state is GroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(group, outcome, now_ms)


def _identify(group: Group, leaver: MemberIdentity) -> tuple[ErrorCode, str]:
    """Return the id of a member that leaves. An administrator names it by its instance id alone."""
    roster = group.roster
    if not leaver.member_id:
        member_id = roster.static.get(leaver.group_instance_id or "")
        return (ErrorCode.UNKNOWN_MEMBER_ID, "") if member_id is None else (ErrorCode.NONE, member_id)
    if leaver.member_id in roster.pending:
        return ErrorCode.NONE, leaver.member_id
    return check_member(roster, leaver.member_id, leaver.group_instance_id), leaver.member_id


def session_expired(group: Group, event: SessionExpired, outcome: Outcome, now_ms: int) -> None:
    """Take out a member that was silent too long, unless it waits for an answer."""
    roster = group.roster
    member_id = event.member_id
    if member_id in roster.pending:
        _pending_id_expired(group, member_id, outcome, now_ms)
        return
    member = roster.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member_id in roster.joins or member_id in roster.syncs):
        # The answer starts its session again.
        return
    remove_member(group, member_id, outcome)
    rebalance.trigger(group, [_cause_of_expiry(member, now_ms)], outcome, now_ms)


def _pending_id_expired(group: Group, member_id: str, outcome: Outcome, now_ms: int) -> None:
    """Take back an id that was not used. A rebalance that waited for it goes on."""
    remove_member(group, member_id, outcome)
    if group.state is GroupState.PREPARING_REBALANCE:
        group.rebalances[-1].lost(member_id, now_ms)
        rebalance.complete_if_all_joined(group, outcome, now_ms)


def _cause_of_expiry(member: Member, now_ms: int) -> HistoricCause:
    silent_ms = UNKNOWN_MS if member.heard_ms < 0 else max(now_ms - member.heard_ms, 0)
    if member.is_new:
        detail = "never had an answer to its first join"
    else:
        detail = f"session.timeout.ms {member.session_timeout_ms}"
    return member.cause(CauseKind.EXPIRED, detail, silent_ms)
