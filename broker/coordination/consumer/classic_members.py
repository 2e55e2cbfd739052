"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup and Heartbeat, answered from their epoch.

A join waits for nobody. It is the member's heartbeat in other words: it takes one step towards its target, and the
generation that it is told is its epoch. The response names no leader, so every client takes itself for a follower. Its
SyncGroup brings what it has now; its Heartbeat says when to join again: REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import consumer_group_records as kafka
from ..groups.events import CancelTimer, Heartbeat, Join, Joined, Outcome, SetTimer, Sync, Synced
from ..groups.group import Group
from ..groups.subscriptions import CONSUMER, read_subscription
from . import changes, departure, heartbeat, migration
from .events import REJOIN, SYNC, ConsumerHeartbeat, MemberLate
from .state import ConsumerGroup, Member, MemberState
from .target import Draft


def join(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    """Take a member in, or one step further. One that is rejected changes nothing."""
    try:
        _join(group, event, outcome, now_ms)
    except KafkaError as error:
        outcome.records.clear()
        outcome.timers.clear()
        outcome.reply(event.token, Joined(error.code, event.member_id))


def sync(group: Group, event: Sync, outcome: Outcome, now_ms: int) -> None:
    """Tell a member what it has."""
    try:
        member = _current(group, event)
        protocol = migration.protocols(member)[0][0]
        if event.protocol_type not in (None, CONSUMER) or event.protocol not in (None, protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assert group.consumer is not None
        is_behind = member.current.epoch < group.consumer.assignment_epoch
        if is_behind and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    except KafkaError as error:
        outcome.reply(event.token, Synced(error.code))
        return
    departure.start_session(group, member.member_id, member.said, outcome)
    outcome.timers.append(CancelTimer(MemberLate(member.member_id, SYNC)))
    assignment = migration.assignment_bytes(member.current.assigned, group.topics)
    outcome.reply(event.token, Synced(ErrorCode.NONE, CONSUMER, protocol, assignment))


def beat(group: Group, event: Heartbeat, outcome: Outcome, now_ms: int) -> None:
    """Take a sign of life, and tell the member if it has to join again. It must do so within its rebalance timeout."""
    body = group.consumer
    assert body is not None
    try:
        member = _current(group, event)
    except KafkaError as error:
        outcome.reply(event.token, error.code)
        return
    said = member.said
    assert said is not None
    departure.start_session(group, member.member_id, said, outcome)
    request = ConsumerHeartbeat(event.token, member.member_id, event.generation, said.client_id, said.client_host)
    draft = Draft(group, body, request, outcome, now_ms, member, said, epoch=body.epoch)
    if not _must_join_again(draft, *heartbeat.find_target(draft)):
        outcome.reply(event.token, ErrorCode.NONE)
        return
    if member.member_id not in body.rejoining:
        body.rejoining.add(member.member_id)
        outcome.timers.append(SetTimer(MemberLate(member.member_id, REJOIN), said.rebalance_timeout_ms))
    outcome.reply(event.token, ErrorCode.REBALANCE_IN_PROGRESS)


def _must_join_again(draft: Draft, own_target: frozenset[tuple[bytes, int]], target_epoch: int) -> bool:
    now = draft.member.current
    if now.epoch < target_epoch or now.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if now.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    # Not for each partition that becomes free: a member that joins again may give up all that it has.
    own = draft.member.member_id
    return all(draft.body.owners.get(place, own) == own for place in own_target)


def _current(group: Group, event: Sync | Heartbeat) -> Member:
    """Return the classic member that sends a request. KafkaError if it is none, or not at its epoch."""
    body = group.consumer
    assert body is not None
    if event.instance_id is not None:
        holder = body.static.get(event.instance_id)
        if holder is not None and holder != event.member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    member = body.members.get(event.member_id)
    if member is None or not migration.is_classic(member):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if event.generation != member.current.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


# -- A join


def _join(group: Group, event: Join, outcome: Outcome, now_ms: int) -> None:
    body = group.consumer
    assert body is not None
    _check(group, body, event)
    subscription = read_subscription(event.protocols[0][1])
    if subscription is None:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not event.member_id and event.instance_id is None and event.needs_member_id:
        outcome.reply(event.token, Joined(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id))
        return
    member_id = event.member_id or event.new_member_id
    member = _member(group, body, event, member_id, outcome)
    owned = frozenset(migration.places_of(subscription.owned_partitions, group.topics))
    if owned and member.said is None:
        # It does not know that it was removed: this error makes it give everything up.
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    request = ConsumerHeartbeat(
        event.token,
        member_id,
        member.current.epoch,
        event.client_id,
        event.client_host,
        instance_id=event.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        topics=subscription.topics,
        # A classic member has no regular expression, though the static member before it may have had one.
        regex="",
        owned=owned,
    )
    said = heartbeat.merged(member.said, request)
    said.server_assignor = None
    offered = [kafka.ClassicProtocol(*each) for each in event.protocols]
    said.classic_member_metadata = kafka.ClassicMemberMetadata(event.session_timeout_ms, offered)
    draft = Draft(group, body, request, outcome, now_ms, member, said, epoch=body.epoch)
    now = heartbeat.advance(draft)
    if _is_last_replaced(group, body, event, member_id):
        # As it is with all others, the next generation waits for this member: it hears so when it syncs.
        here = {**body.members, member_id: replace(member, said=said, current=now)}
        del here[body.static[event.instance_id or ""]]
        outcome.records.clear()
        outcome.timers.clear()
        migration.downgrade(group, body, draft.epoch, list(here.values()), outcome, now_ms)
        now = now._replace(epoch=draft.epoch)
    else:
        outcome.timers.append(SetTimer(MemberLate(member_id, SYNC), event.rebalance_timeout_ms))
    body.rejoining.discard(member_id)
    outcome.timers.append(CancelTimer(MemberLate(member_id, REJOIN)))
    answer = Joined(ErrorCode.NONE, member_id, now.epoch, CONSUMER, event.protocols[0][0])
    outcome.reply(event.token, answer)


def _is_last_replaced(group: Group, body: ConsumerGroup, event: Join, member_id: str) -> bool:
    """Return whether a static member takes the place of the last one that speaks the consumer protocol."""
    holder = body.static.get(event.instance_id or "", member_id)
    if holder == member_id or migration.is_classic(body.members[holder]):
        return False
    limits = group.limits
    is_allowed = limits.consumer.may_downgrade and len(body.members) <= limits.max_size
    others = (member for key, member in body.members.items() if key != holder)
    return is_allowed and all(map(migration.is_classic, others))


def _check(group: Group, body: ConsumerGroup, event: Join) -> None:
    limits = group.limits.consumer
    if not body.members:
        # An empty group becomes a classic one before a join, and that could not be written.
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not limits.may_upgrade and not limits.may_downgrade:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(body.members) >= limits.max_size and not body.has_place(event.member_id, event.instance_id):
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if event.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    common = {name for name, _ in event.protocols}
    for member in body.members.values():
        if migration.is_classic(member) and member.member_id != event.member_id:
            common &= {name for name, _ in migration.protocols(member)}
    if not common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _member(group: Group, body: ConsumerGroup, event: Join, member_id: str, outcome: Outcome) -> Member:
    """Return the member that joins. A static one without an id takes the place of its holder, of either protocol."""
    holder = body.static.get(event.instance_id) if event.instance_id is not None else None
    if holder is None:
        if event.instance_id is not None and event.member_id:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return body.members.get(member_id) or Member(member_id)
    if event.member_id and event.member_id != holder:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    old = body.members[holder]
    if holder == member_id:
        return old
    outcome.records += changes.member_replaced(group.group_id, old, member_id)
    return replace(old, member_id=member_id, current=old.current._replace(epoch=0, previous_epoch=0))
