"""Members that go: they leave, fall silent, or do not give their partitions up in time."""

from __future__ import annotations

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ....protocol.messages.leave_group import MemberIdentity
from ..groups.events import CancelTimer, Leave, Left, Outcome, SetTimer
from ..groups.group import Group
from ..modern.events import LEAVE_EPOCH, Beat, MemberSilent
from ..modern.state import NEVER_COMPUTED
from ..modern.target import metadata_hash
from . import changes, migration, regexes
from .events import REJOIN, REVOKE, STATIC_LEAVE_EPOCH, ConsumerHeartbeat, MemberLate, MemberTimer, member_timers
from .state import ConsumerGroup, Member, MemberState


def leave(group: Group, event: ConsumerHeartbeat, outcome: Outcome, now_ms: int) -> None:
    """Let a member go, for good (epoch -1) or until it comes back under its instance id (epoch -2)."""
    body = group.consumer
    if body is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")
    if event.instance_id is not None:
        member = static_holder(body, event)
    else:
        member = body.members.get(event.member_id)
    if member is None:
        why = f"Member {event.member_id} is not a member of group {group.group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)
    if event.epoch == LEAVE_EPOCH:
        remove(group, body, [member], outcome, now_ms)
    else:
        held = dict.fromkeys(member.current.assigned, 0)
        away = member.current._replace(epoch=STATIC_LEAVE_EPOCH, assigned=held, revoking={})
        away = away._replace(state=MemberState.STABLE)
        outcome.records.append(changes.current(group.group_id, member.member_id, away))
        outcome.timers.append(CancelTimer(MemberLate(member.member_id, REVOKE)))
    outcome.reply(event.token, Beat(event.member_id, event.epoch))


def leave_by_admin(group: Group, event: Leave, outcome: Outcome, now_ms: int) -> None:
    """Remove members by member id, or by instance id as administrators do (LeaveGroup)."""
    body = group.consumer
    assert body is not None
    going: dict[str, Member] = {}
    errors: list[ErrorCode] = []
    for leaver in event.members:
        member, error = _leaver(body, leaver)
        errors.append(error)
        if member is not None:
            going[member.member_id] = member
    if going:
        remove(group, body, list(going.values()), outcome, now_ms)
    outcome.reply(event.token, Left(errors))


def _leaver(body: ConsumerGroup, leaver: MemberIdentity) -> tuple[Member | None, ErrorCode]:
    member_id = leaver.member_id
    if leaver.group_instance_id is not None:
        holder = body.static.get(leaver.group_instance_id)
        if holder is not None and member_id and member_id != holder:
            return None, ErrorCode.FENCED_INSTANCE_ID
        member_id = holder or ""
    member = body.members.get(member_id)
    return member, ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE


def late(group: Group, event: MemberTimer, outcome: Outcome, now_ms: int) -> None:
    """Remove a member whose time is over. One of the consumer protocol neither joins nor syncs."""
    body = group.consumer
    member = None if body is None else body.members.get(event.member_id)
    if body is None or member is None:
        return
    why = "sent no heartbeat within the session timeout"
    if isinstance(event, MemberLate):
        if event.kind != REVOKE and not migration.is_classic(member):
            return
        if event.kind == REJOIN and event.member_id not in body.rejoining:
            return
        why = f"did not {event.kind} within its rebalance timeout"
    remove(group, body, [member], outcome, now_ms)
    outcome.notes.append(f"group {group.group_id}: member {event.member_id} is removed: it {why}")


def remove(group: Group, body: ConsumerGroup, members: list[Member], outcome: Outcome, now_ms: int) -> None:
    """Remove members, and raise the group's epoch. The next heartbeat of any member computes a new target.

    The target of a group without members is empty, and was never computed: the next member gets its partitions at once
    (Kafka 4.4). Where only members of the classic protocol are left, the group becomes a classic one instead.
    """
    ids = {member.member_id for member in members}
    left = [member for member in body.members.values() if member.member_id not in ids]
    if migration.is_due(group, left):
        migration.downgrade(group, body, body.epoch, left, outcome, now_ms)
        return
    for member in members:
        outcome.records += changes.member_gone(group.group_id, member.member_id)
        outcome.timers.extend(CancelTimer(each) for each in member_timers(member.member_id))
        body.rejoining.discard(member.member_id)
    unused = regexes.unused_without(body, ids)
    outcome.records += [changes.resolved(group.group_id, regex, None) for regex in unused]
    names = body.names_without(members)
    for regex in body.regexes.keys() - set(unused):
        names |= body.regexes[regex].topics
    outcome.records += changes.epoch_bumped(group.group_id, body, metadata_hash(names, group.topics))
    if not left:
        outcome.records.append(changes.target_computed(group.group_id, body.epoch + 1, NEVER_COMPUTED))


def static_holder(body: ConsumerGroup, event: ConsumerHeartbeat) -> Member | None:
    """Return the member that has the instance id; None if it is free for one that joins. Raises KafkaError."""
    holder = body.static.get(event.instance_id or "")
    if holder is None:
        if event.epoch:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {event.instance_id} is unknown.")
        return None
    if event.epoch and holder != event.member_id:
        why = f"Static member {event.member_id} with instance id {event.instance_id} was fenced by member {holder}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, why)
    return body.members[holder]


def forget_timers_of_replaced(body: ConsumerGroup, event: ConsumerHeartbeat, outcome: Outcome) -> None:
    """Cancel the timers of the id under which a static member was here before."""
    old = body.static.get(event.instance_id or "")
    if old is not None and old != event.member_id:
        outcome.timers.extend(CancelTimer(each) for each in member_timers(old))


def start_session(
    group: Group, member_id: str, said: ConsumerGroupMemberMetadataValue | None, outcome: Outcome
) -> None:
    """Start the session of a member, or start it again. A classic member chose its own timeout."""
    classic = None if said is None else said.classic_member_metadata
    timeout_ms = group.limits.consumer.session_timeout_ms if classic is None else classic.session_timeout_ms
    outcome.timers.append(SetTimer(MemberSilent(member_id), timeout_ms))
