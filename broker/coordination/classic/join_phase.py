"""JoinGroup in the group machine: a join gets a member id first, or is parked until the generation begins, or is
answered at once because the current generation will do.

A static member that returns without its member id, after a restart of the client (KIP-345), gets a new id and keeps its
place. In a stable group that takes no rebalance, if the elected protocol stays.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_history import HistoricCause
from ..groups.events import CancelTimer, Join, Joined, Outcome, Protocols, SessionExpired, SetTimer, Synced, rejection
from ..groups.group import Group, generation_record
from ..groups.history import CauseKind
from ..groups.subscriptions import CONSUMER, read_subscription
from . import rebalance
from .roster import Member, elect_protocol
from .sessions import remove_member, renew_session, start_session
from .states import GroupState

# Topics that a change of subscription names: a regular expression may match hundreds.
MAX_TOPICS_NAMED = 5

# Member ids of a group that were given out and not used yet. Each is a name and a timer for a session timeout, and
# costs a stranger one request.
MAX_PENDING_MEMBERS = 10_000


def join(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Take in a new member, or let a known one join again."""
    if event.member_id in group.roster.members:
        _join_again(group, event, outcome, now_ms)
    elif event.member_id:
        _add_member(group, event.member_id, event, outcome, now_ms)
    elif event.instance_id is not None and event.instance_id in group.roster.static:
        take_over(group, event, event.instance_id, outcome, now_ms)
    elif event.instance_id is None and event.needs_member_id:
        _give_id(group, event, outcome)
    else:
        _add_member(group, event.new_member_id, event, outcome, now_ms)


def reject(group: Group, event: Join, error: ErrorCode, outcome: Outcome, now_ms: int) -> None:
    """Answer a join with an error. A member that finds no room is out, so that the others need not wait for it."""
    if error is not ErrorCode.GROUP_MAX_SIZE_REACHED:
        outcome.replies.append(rejection(event, error))
        return
    is_known = event.member_id in group.roster.members or event.member_id in group.roster.pending
    if is_known:
        remove_member(group, event.member_id, outcome)
    outcome.reply(event.token, Joined(error, ""))
    if is_known and group.state is GroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(group, outcome, now_ms)


# -- New members


def _give_id(group: Group, event: Join, outcome: Outcome) -> None:
    """Give the client its id first (KIP-394): a client that sends its join again leaves no second member behind."""
    if len(group.roster.pending) >= MAX_PENDING_MEMBERS:
        outcome.replies.append(rejection(event, ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    group.roster.pending[event.new_member_id] = None
    outcome.timers.append(SetTimer(SessionExpired(event.new_member_id), event.session_timeout_ms))
    outcome.reply(event.token, Joined(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id))


def _add_member(group: Group, member_id: str, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Add a new member, and park its join until the generation begins."""
    member = Member.joining(member_id, event)
    if not group.roster.members:
        group.protocol_type = event.protocol_type
        group.leader = member_id
    group.roster.add(member)
    group.roster.joins[member_id] = event.token
    group.grew = True
    renew_session(member, outcome, now_ms)
    # Java's reason here is "need to re-join with the given member-id: ...", which explains nothing.
    reason = None if event.reason and member_id in event.reason else event.reason
    rebalance.trigger(group, [member.cause(CauseKind.JOINED, reason)], outcome, now_ms)


# -- Members that join again


def _join_again(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Park the join for the next generation, or answer it with the current one if nothing has changed."""
    member = group.roster.members[event.member_id]
    member.heard_ms = now_ms
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    cause = None if is_rebalancing else _cause_to_rebalance(group, member, event)
    if cause is None and not is_rebalancing:
        start_session(member, outcome)
        outcome.reply(event.token, rebalance.joined(group, member.member_id))
        return
    group.roster.update(member, event)
    # The session starts again, with the timeout that the member names now.
    start_session(member, outcome)
    _park(group, member.member_id, event, outcome, now_ms)
    rebalance.trigger(group, [] if cause is None else [cause], outcome, now_ms)


def _cause_to_rebalance(group: Group, member: Member, event: Join) -> HistoricCause | None:
    """Return why a join needs a new generation, or None if the current one will do (its answer was lost, say)."""
    if member.protocols != event.protocols:
        return _describe_change(group, member, event)
    if group.state is GroupState.STABLE and group.leader == member.member_id:
        # The leader asks for a rebalance this way, because what it assigns has changed: the number of partitions, say.
        return member.cause(CauseKind.LEADER_REJOINED, event.reason)
    return None


def _describe_change(group: Group, member: Member, event: Join) -> HistoricCause:
    """Return what is new in a member's metadata: the topics, if they can be read."""
    old, new = _topics(group, member.protocols), _topics(group, event.protocols)
    if old is None or new is None or old == new:
        return member.cause(CauseKind.CHANGED_METADATA, event.reason)
    changes = [f"+{topic}" for topic in sorted(new - old)] + [f"-{topic}" for topic in sorted(old - new)]
    more = len(changes) - MAX_TOPICS_NAMED
    named = [*changes[:MAX_TOPICS_NAMED], f"{more} more"] if more > 0 else changes
    return member.cause(CauseKind.CHANGED_SUBSCRIPTION, " ".join(named))


def _topics(group: Group, protocols: Protocols) -> set[str] | None:
    is_readable = protocols and group.protocol_type == CONSUMER
    subscription = read_subscription(protocols[0][1]) if is_readable else None
    return None if subscription is None else set(subscription.topics)


def _park(group: Group, member_id: str, event: Join, outcome: Outcome, now_ms: int) -> None:
    earlier = group.roster.joins.get(member_id)
    if earlier is not None:
        # The connection of the earlier join is probably gone, but every request gets an answer.
        outcome.reply(earlier, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    elif group.state is GroupState.PREPARING_REBALANCE:
        group.rebalances[-1].arrived(member_id, now_ms)
    group.roster.joins[member_id] = event.token


def take_over(group: Group, event: Join, instance_id: str, outcome: Outcome, now_ms: int) -> None:
    """Put the member under its new id into the place of the old one."""
    old = group.roster.members[group.roster.static[instance_id]]
    member = Member.joining(event.new_member_id, event)
    member.is_new = False
    member.assignment = old.assignment
    member.heard_ms = now_ms
    members = [member if known is old else known for known in group.roster.members.values()]
    if group.state is GroupState.STABLE and elect_protocol(members) == group.protocol:
        _write_new_id(group, old, member, event, outcome, now_ms)
        return
    _swap(group, old, member, event, outcome)
    if group.state is GroupState.PREPARING_REBALANCE:
        group.rebalances[-1].arrived(member.member_id, now_ms)
        rebalance.complete_if_all_joined(group, outcome, now_ms)
    else:
        # In CompletingRebalance the leader may be about to assign to the old id.
        rebalance.prepare(group, [member.cause(CauseKind.CAME_BACK, event.reason)], outcome, now_ms)


def _swap(group: Group, old: Member, member: Member, event: Join, outcome: Outcome) -> None:
    """Change the roster at once, and fence the requests that the old id has parked."""
    join, sync = group.roster.joins.get(old.member_id), group.roster.syncs.get(old.member_id)
    group.roster.swap(old.member_id, member)
    if join is not None:
        outcome.reply(join, Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    if sync is not None:
        outcome.reply(sync, Synced(ErrorCode.FENCED_INSTANCE_ID))
    if group.leader == old.member_id:
        group.leader = member.member_id
    outcome.timers.append(CancelTimer(SessionExpired(old.member_id)))
    start_session(member, outcome)
    group.roster.joins[member.member_id] = event.token


def _write_new_id(group: Group, old: Member, member: Member, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Change the id by a record alone. The member joins the roster when the record is committed."""
    members = [member if known is old else known for known in group.roster.members.values()]
    leader = member.member_id if group.leader == old.member_id else group.leader
    group.incoming = member
    seats = [(known, known.assignment) for known in members]
    outcome.records.append(generation_record(group, group.generation, seats, leader, now_ms))
    outcome.reply(event.token, _joined(group, old, member, members, event.can_skip_assignment))
    outcome.timers.append(CancelTimer(SessionExpired(old.member_id)))
    start_session(member, outcome)
    outcome.notes.append(
        f"group {group.group_id}: {_name(member)} took the place of {old.member_id} without a rebalance"
    )


def _joined(group: Group, old: Member, member: Member, members: list[Member], can_skip_assignment: bool) -> Joined:
    """Return the answer to a join that changes the id alone: the leader must not assign again."""
    answer = Joined(
        ErrorCode.NONE, member.member_id, group.generation, group.protocol_type, group.protocol, group.leader or ""
    )
    if group.leader == old.member_id and can_skip_assignment:
        answer.leader = member.member_id
        answer.skip_assignment = True
        answer.members = rebalance.joined_members(group, members)
    # An older client hears that the old id leads, and so does not assign.
    return answer


def _name(member: Member) -> str:
    return member.member_id if member.instance_id is None else f"{member.member_id} ({member.instance_id})"
