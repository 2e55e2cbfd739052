"""The heartbeat of a member of a consumer group: it joins, changes what it says, and hears what to give up or take.

One heartbeat is one step and one batch of records: what the member says (5), the epoch of the group where members,
topics or the assignor changed (3), a new target where it is time for one (7, 6), and the member's next step towards it
(8).
"""

from __future__ import annotations

from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ..classic.sessions import answer_parked
from ..groups.events import CancelTimer, Outcome, SetTimer
from ..groups.group import Group
from ..groups.records import ClassicEnded
from ..modern.draft import reject
from ..modern.events import Beat
from ..modern.state import Place
from ..modern.target import metadata_hash
from . import changes, departure, migration, reconciliation, regexes
from .events import REVOKE, STATIC_LEAVE_EPOCH, ConsumerHeartbeat, MemberLate
from .state import ConsumerGroup, Current, Member, MemberState
from .target import CONSUMER_TARGET, Draft, elects_another


def heartbeat(group: Group, event: ConsumerHeartbeat, outcome: Outcome, now_ms: int) -> None:
    """Answer a heartbeat. One that is rejected changes nothing."""
    try:
        (departure.leave if event.epoch < 0 else _live)(group, event, outcome, now_ms)
    except KafkaError as error:
        reject(event.token, outcome, error)


def _live(group: Group, event: ConsumerHeartbeat, outcome: Outcome, now_ms: int) -> None:
    is_upgrade = group.consumer is None and bool(group.roster.members)
    body = _body(group, event, outcome)
    member = _member(group, body, event, outcome)
    draft = Draft(group, body, event, outcome, now_ms, member, merged(member.said, event), epoch=body.epoch)
    now = advance(draft)
    if is_upgrade:
        # The members whose joins and syncs wait in the classic group join again.
        answer_parked(group, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
    is_told = event.is_full or now.assigned.keys() != member.current.assigned.keys()
    assignment = tuple(sorted(now.assigned)) if is_told else None
    outcome.reply(event.token, Beat(event.member_id, now.epoch, assignment))


def advance(draft: Draft) -> Current:
    """Take what the member says, and take it one step towards its target. Return where it stands then."""
    now = _reconcile(draft, *find_target(draft))
    _set_timers(draft, now)
    return now


def find_target(draft: Draft) -> tuple[frozenset[Place], int]:
    """Take what the member says. Return its target, and the epoch of all targets."""
    _describe(draft)
    return CONSUMER_TARGET.update(draft)


# -- The group and the member


def _body(group: Group, event: ConsumerHeartbeat, outcome: Outcome) -> ConsumerGroup:
    """Return the consumer group, a new one for a first member."""
    if group.consumer is not None:
        body = group.consumer
    elif event.epoch:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group.group_id} not found.")
    elif group.roster.members:
        body = migration.upgrade(group, outcome)
    else:
        body = ConsumerGroup()
        if group.recorded:
            outcome.records.append(ClassicEnded(group.group_id))
    max_size = group.limits.consumer.max_size
    if len(body.members) >= max_size and not body.has_place(event.member_id, event.instance_id):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )
    return body


def _member(group: Group, body: ConsumerGroup, event: ConsumerHeartbeat, outcome: Outcome) -> Member:
    """Return the member that a heartbeat is of, a new one for a join."""
    if event.instance_id is not None:
        holder = departure.static_holder(body, event)
        if holder is None:
            # As in Kafka, a member that is here without an instance id, or under another one, gets this one.
            return body.members.get(event.member_id) or Member(event.member_id)
        if event.epoch:
            _check_epoch(holder, event)
            return holder
        if holder.current.epoch != STATIC_LEAVE_EPOCH and not migration.is_classic(holder):
            why = f"Static member {event.member_id} with instance id {event.instance_id} cannot join the group because "
            why += f"the instance id is owned by {holder.member_id} member."
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, why)
        if holder.member_id != event.member_id:
            outcome.records += changes.member_replaced(group.group_id, holder, event.member_id)
            outcome.records += regexes.left_by(group.group_id, body, event.member_id)
        copy = holder.current._replace(epoch=0, previous_epoch=0)
        return replace(holder, member_id=event.member_id, current=copy)
    member = body.members.get(event.member_id)
    if member is None:
        if event.epoch:
            why = f"Member {event.member_id} is not a member of group {group.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)
        return Member(event.member_id)
    _check_epoch(member, event)
    return member


def _check_epoch(member: Member, event: ConsumerHeartbeat) -> None:
    """Check the epoch of a heartbeat: 0 always counts, the one before only of a member whose last answer was lost."""
    now, epoch = member.current, event.epoch
    is_last = epoch == now.previous_epoch < now.epoch
    answer_was_lost = is_last and event.owned is not None and event.owned <= now.assigned.keys()
    if epoch in (0, now.epoch) or answer_was_lost:
        return
    which = "greater" if epoch > now.epoch else "smaller"
    why = f"The consumer group member has a {which} member epoch ({epoch}) than the one known by the group coordinator "
    why += f"({now.epoch}). The member must abandon all its partitions and rejoin."
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, why)


# -- What the member says


def merged(
    before: ConsumerGroupMemberMetadataValue | None, event: ConsumerHeartbeat
) -> ConsumerGroupMemberMetadataValue:
    """Return what a member says of itself: what is new in a heartbeat, and the rest as before."""
    known = before or ConsumerGroupMemberMetadataValue(
        instance_id=None, rack_id=None, subscribed_topic_regex=None, server_assignor=None
    )
    regex = known.subscribed_topic_regex if event.regex is None else event.regex or None
    timeout_ms = event.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=known.instance_id if event.instance_id is None else event.instance_id,
        rack_id=known.rack_id if event.rack_id is None else event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=known.subscribed_topic_names if event.topics is None else sorted(set(event.topics)),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        server_assignor=known.server_assignor if event.assignor is None else event.assignor,
    )


def _describe(draft: Draft) -> None:
    """Write what the member says where it is new, and raise the group's epoch where its topics or assignor change."""
    before, said = draft.member.said, draft.said
    if before != said or draft.event.member_id not in draft.body.members:
        draft.outcome.records.append(changes.said(draft.group.group_id, draft.event.member_id, said))
    old_names = [] if before is None else before.subscribed_topic_names
    draft.subscription_changed = old_names != said.subscribed_topic_names or _has_left(draft)
    draft.subscription_changed |= regexes.changed(draft, None if before is None else before.subscribed_topic_regex)
    needs_target = draft.subscription_changed or elects_another(draft)
    topics = draft.group.topics
    # Read before the topics are: a large step runs in a thread, and topics may change meanwhile.
    seen_changes = topics.change_count
    if not needs_target and draft.body.seen_changes == seen_changes:
        return
    names = _subscribed_with(draft)
    found = metadata_hash(names, topics)
    if needs_target or found != draft.body.metadata_hash:
        draft.outcome.records += changes.epoch_bumped(draft.group.group_id, draft.body, found)
        draft.epoch += 1
    else:
        draft.body.seen_changes = seen_changes


def _has_left(draft: Draft) -> bool:
    """Return whether the member has another one's place, and so leaves the place that it had itself."""
    known = draft.body.members.get(draft.event.member_id)
    return (
        known is not None and draft.body.static.get(draft.event.instance_id or "", known.member_id) != known.member_id
    )


def _subscribed_with(draft: Draft) -> set[str]:
    """Return the topics that the group subscribes once the member is what it says."""
    body, event = draft.body, draft.event
    ids = (event.member_id, body.static.get(event.instance_id or "", ""))
    names = body.names_without(body.members[each] for each in dict.fromkeys(ids) if each in body.members)
    return names | body.topics_of_regexes() | body.topics_of(draft.said)


# -- The next step


def _reconcile(draft: Draft, own_target: frozenset[Place], target_epoch: int) -> Current:
    member_id, now = draft.event.member_id, reconciliation.step(draft, own_target, target_epoch)
    if now != draft.member.current or member_id not in draft.body.members:
        draft.outcome.records.append(changes.current(draft.group.group_id, member_id, now))
    return now


def _set_timers(draft: Draft, now: Current) -> None:
    member_id, timers = draft.event.member_id, draft.outcome.timers
    if draft.member.member_id in draft.body.members or draft.event.instance_id is not None:
        departure.forget_timers_of_replaced(draft.body, draft.event, draft.outcome)
    departure.start_session(draft.group, member_id, draft.said, draft.outcome)
    known = draft.body.members.get(member_id)
    was = MemberState.STABLE if known is None else known.current.state
    if now.state is MemberState.UNREVOKED_PARTITIONS and was is not MemberState.UNREVOKED_PARTITIONS:
        timers.append(SetTimer(MemberLate(member_id, REVOKE), draft.said.rebalance_timeout_ms))
    elif now.state is not MemberState.UNREVOKED_PARTITIONS and was is MemberState.UNREVOKED_PARTITIONS:
        timers.append(CancelTimer(MemberLate(member_id, REVOKE)))
