"""Sessions of a group's members: how they start and are renewed, and how a member is taken out.

A session is a timer. Every request of the member sets it again; when it goes off, SessionExpired comes (membership.py).
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ..groups.events import CancelTimer, Joined, Outcome, SessionExpired, SetTimer, Synced
from ..groups.group import Group
from .roster import Member

# A new member cannot send heartbeats before its first join is answered. If the client is gone by then, its join does
# not hold a place for ever.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


def start_session(member: Member, outcome: Outcome) -> None:
    """Start the session of a member, or start it again."""
    delay_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
    outcome.timers.append(SetTimer(SessionExpired(member.member_id), delay_ms))


def renew_session(member: Member, outcome: Outcome, now_ms: int) -> None:
    """Note that a request of the member came, and start its session again."""
    member.heard_ms = now_ms
    start_session(member, outcome)


def remove_member(group: Group, member_id: str, outcome: Outcome) -> None:
    """Take out a member or a pending id, with its timer. Answer its parked requests with UNKNOWN_MEMBER_ID."""
    outcome.timers.append(CancelTimer(SessionExpired(member_id)))
    join, sync = group.roster.joins.get(member_id), group.roster.syncs.get(member_id)
    group.roster.remove(member_id)
    if join is not None:
        outcome.reply(join, Joined(ErrorCode.UNKNOWN_MEMBER_ID, ""))
    if sync is not None:
        outcome.reply(sync, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
    if group.leader == member_id:
        group.leader = next(iter(group.roster.members), None)


def answer_parked(group: Group, error: ErrorCode, outcome: Outcome) -> None:
    """Answer all parked requests with an error. No timer changes."""
    for member_id, join in group.roster.joins.items():
        outcome.reply(join, Joined(error, member_id))
    for sync in group.roster.syncs.values():
        outcome.reply(sync, Synced(error))
    group.roster.joins.clear()
    group.roster.syncs.clear()
