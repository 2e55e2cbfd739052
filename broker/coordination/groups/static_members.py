"""Static members that return without their member id, after a restart of the client (KIP-345).

The member gets a new id and keeps its place. In a stable group that takes no rebalance, if the elected protocol stays.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from . import rebalance
from .events import CancelTimer, Join, Joined, Outcome, SessionExpired, Synced
from .group import Group, generation_record
from .history import CauseKind
from .roster import Member, elect_protocol
from .sessions import start_session
from .states import GroupState


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
