"""JoinGroup in the group machine: who is let in, who is given an id first, whose join is parked or answered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import DecodeError, ErrorCode
from ....protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_versioned
from . import rebalance
from .events import CancelTimer, Join, Joined, Outcome, Protocols, SessionExpired, SetTimer, Synced
from .expiry import CONSUMER
from .history import Cause, CauseKind
from .roster import Member, elect_protocol
from .states import GroupState

if TYPE_CHECKING:
    from .machine import Group

MAX_TOPICS_TOLD = 5
"""Topics named a change of subscription: a regular expression may match hundreds."""

MAX_PENDING_MEMBERS = 10_000
"""Ids handed out and not used yet, a group: each is a name and a timer, held for a session timeout, and costs a
stranger one request."""


def join(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    """A member, or one that would be, asks to take part in the next generation."""
    if group.state is GroupState.DEAD:
        _refuse(event, ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome)
    elif not _has_room(group, event.member_id):
        _turn_away(group, event, outcome, now_ms)
    elif not _is_compatible(group, event):
        _refuse(event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, outcome)
    elif event.member_id:
        _join_with_id(group, event, outcome, now_ms)
    elif event.instance_id is not None and event.instance_id in group.roster.static:
        _come_back(group, event, event.instance_id, outcome, now_ms)
    elif event.instance_id is None and event.needs_member_id:
        _give_id(group, event, outcome)
    else:
        _admit(group, event.new_member_id, event, outcome, now_ms)


# Whether it may.


def _has_room(group: Group, member_id: str) -> bool:
    """`group.max.size`. In a rebalance those that have joined count: a group too large sheds its last comers."""
    roster = group.roster
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in roster.joins or len(roster.joins) < group.limits.max_size
    return member_id in roster.members or len(roster.members) < group.limits.max_size


def _is_compatible(group: Group, event: Join) -> bool:
    """The group's protocol type and a protocol that all members speak; without members, anything that has a name."""
    if not group.roster.members:
        return bool(event.protocol_type and event.protocols)
    return event.protocol_type == group.protocol_type and group.roster.speaks(event.protocols)


def _refuse(event: Join, error: ErrorCode, outcome: Outcome) -> None:
    outcome.replies.append((event.token, Joined(error, event.member_id)))


def _turn_away(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    """No room: whoever it was is not a member any more, and those that wait need not wait for it."""
    known = event.member_id in group.roster.members or event.member_id in group.roster.pending
    if known:
        group.drop(event.member_id, outcome)
    outcome.replies.append((event.token, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, "")))
    if known and group.state is GroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(group, outcome, now_ms)


# Newcomers.


def _give_id(group: Group, event: Join, outcome: Outcome) -> None:
    """KIP-394: the id first, so that a client that asks again and again does not leave a member behind each time."""
    if len(group.roster.pending) >= MAX_PENDING_MEMBERS:
        _refuse(event, ErrorCode.GROUP_MAX_SIZE_REACHED, outcome)
        return
    group.roster.pending[event.new_member_id] = None
    outcome.timers.append(SetTimer(SessionExpired(event.new_member_id), event.session_timeout_ms))
    outcome.replies.append((event.token, Joined(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)))


def _admit(group: Group, member_id: str, event: Join, outcome: Outcome, now_ms: int) -> None:
    """A new member: its join is parked until the generation begins."""
    member = Member.joining(member_id, event)
    if not group.roster.members:
        group.protocol_type = event.protocol_type
        group.leader = member_id
    group.roster.add(member)
    group.roster.joins[member_id] = event.token
    group.grew = True
    group.heard(member, outcome, now_ms)
    # "need to re-join with the given member-id: ..." is what Java says here, and says nothing.
    reason = None if event.reason and member_id in event.reason else event.reason
    rebalance.trigger(group, [member.cause(CauseKind.JOINED, reason)], outcome, now_ms)


# Members that join again.


def _join_with_id(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    if event.member_id in group.roster.pending and event.instance_id is None:
        _admit(group, event.member_id, event, outcome, now_ms)
        return
    error = group.roster.check(event.member_id, event.instance_id)
    if error is not ErrorCode.NONE:
        _refuse(event, error, outcome)
        return
    member = group.roster.members[event.member_id]
    member.heard_ms = now_ms
    rebalances = group.state is GroupState.PREPARING_REBALANCE
    cause = None if rebalances else _cause_to_rebalance(group, member, event)
    if cause is None and not rebalances:
        group.keep_session(member, outcome)
        outcome.replies.append((event.token, rebalance.joined(group, member.member_id)))
        return
    group.roster.update(member, event)
    # The session begins anew with what the member says now.
    group.keep_session(member, outcome)
    _park(group, member.member_id, event, outcome, now_ms)
    rebalance.trigger(group, [] if cause is None else [cause], outcome, now_ms)


def _cause_to_rebalance(group: Group, member: Member, event: Join) -> Cause | None:
    """Why this join needs a new generation; None where the current one will do (its answer was lost, say)."""
    if member.protocols != event.protocols:
        return _change(group, member, event)
    if group.state is GroupState.STABLE and group.leader == member.member_id:
        # The leader asks for a rebalance this way when what it assigns has changed, such as the number of partitions.
        return member.cause(CauseKind.LEADER_REJOINED, event.reason)
    return None


def _change(group: Group, member: Member, event: Join) -> Cause:
    """What is new in the metadata: other topics, if that can be read."""
    old, new = _topics(group, member.protocols), _topics(group, event.protocols)
    if old is None or new is None or old == new:
        return member.cause(CauseKind.CHANGED_METADATA, event.reason)
    changes = [f"+{topic}" for topic in sorted(new - old)] + [f"-{topic}" for topic in sorted(old - new)]
    shown = changes[:MAX_TOPICS_TOLD] + ([f"{len(changes) - MAX_TOPICS_TOLD} more"] * (len(changes) > MAX_TOPICS_TOLD))
    return member.cause(CauseKind.CHANGED_SUBSCRIPTION, " ".join(shown))


def _topics(group: Group, protocols: Protocols) -> set[str] | None:
    if group.protocol_type != CONSUMER:
        return None
    try:
        return set(decode_versioned(ConsumerProtocolSubscription, protocols[0][1]).topics) if protocols else None
    except DecodeError:
        return None


def _park(group: Group, member_id: str, event: Join, outcome: Outcome, now_ms: int) -> None:
    earlier = group.roster.joins.get(member_id)
    if earlier is not None:
        # Its connection is most likely gone; a request is answered once all the same.
        outcome.replies.append((earlier, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member_id)))
    elif group.state is GroupState.PREPARING_REBALANCE:
        group.rebalances[-1].arrived(member_id, now_ms)
    group.roster.joins[member_id] = event.token


# Static members that come back without their id (KIP-345).


def _come_back(group: Group, event: Join, instance_id: str, outcome: Outcome, now_ms: int) -> None:
    """Gets a new id in its old place; in a stable group without a rebalance, if the elected protocol stays."""
    old = group.roster.members[group.roster.static[instance_id]]
    member = Member.joining(event.new_member_id, event)
    member.is_new = False
    member.assignment = old.assignment
    members = [member if known is old else known for known in group.roster.members.values()]
    if group.state is GroupState.STABLE and elect_protocol(members) == group.protocol:
        _take_over_quietly(group, old, member, event, outcome, now_ms)
        return
    member.heard_ms = now_ms
    _take_over(group, old, member, event, outcome)
    if group.state is GroupState.PREPARING_REBALANCE:
        group.rebalances[-1].arrived(member.member_id, now_ms)
        rebalance.complete_if_all_joined(group, outcome, now_ms)
    else:
        # In CompletingRebalance the leader may be assigning to the old id just now.
        rebalance.prepare(group, [member.cause(CauseKind.CAME_BACK, event.reason)], outcome, now_ms)


def _take_over(group: Group, old: Member, member: Member, event: Join, outcome: Outcome) -> None:
    joins, syncs = group.roster.joins.get(old.member_id), group.roster.syncs.get(old.member_id)
    group.roster.swap(old.member_id, member)
    if joins is not None:
        outcome.replies.append((joins, Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id)))
    if syncs is not None:
        outcome.replies.append((syncs, Synced(ErrorCode.FENCED_INSTANCE_ID)))
    if group.leader == old.member_id:
        group.leader = member.member_id
    outcome.timers.append(CancelTimer(SessionExpired(old.member_id)))
    group.keep_session(member, outcome)
    group.roster.joins[member.member_id] = event.token


def _take_over_quietly(group: Group, old: Member, member: Member, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Only the id changes, by a record. The member becomes real when that is committed."""
    members = [member if known is old else known for known in group.roster.members.values()]
    leads = group.leader == old.member_id
    leader = member.member_id if leads else group.leader
    answer = Joined(
        ErrorCode.NONE, member.member_id, group.generation, group.protocol_type, group.protocol, leader or ""
    )
    if event.can_skip_assignment and leads:
        answer.skip_assignment = True
        answer.members = rebalance.joined_members(group, members)
    elif leads:
        # Told that another leads, an older client does not assign anew what nobody would fetch.
        answer.leader = old.member_id
    member.heard_ms = now_ms
    group.incoming = member
    seats = [(known, known.assignment) for known in members]
    outcome.records.append(group.generation_record(group.generation, seats, leader, now_ms))
    outcome.replies.append((event.token, answer))
    outcome.timers.append(CancelTimer(SessionExpired(old.member_id)))
    group.keep_session(member, outcome)
    outcome.notes.append(
        f"group {group.group_id}: {_name(member)} took the place of {old.member_id} without a rebalance"
    )


def _name(member: Member) -> str:
    return member.member_id if member.instance_id is None else f"{member.member_id} ({member.instance_id})"
