"""The heartbeat of a member of a share group: it joins, changes what it says, and hears which partitions it has.

One heartbeat is one step and one batch of records: what the member says (10), the epoch of the group where members,
topics or partitions that are ready changed (11), a new target where it is time for one (13, 12), where the member
stands (14), and the partitions that are to be made ready (15).
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.share_group_records import ShareGroupMemberMetadataValue
from ..groups.events import CancelTimer, Outcome, SetTimer
from ..groups.group import Group
from ..modern.draft import reject
from ..modern.events import LEAVE_EPOCH, Beat, MemberSilent
from ..modern.state import NEVER_COMPUTED
from ..modern.target import metadata_hash
from . import changes, initialization
from .events import ShareHeartbeat
from .state import Current, Member, ShareGroup
from .target import SHARE_TARGET, Draft


def heartbeat(group: Group, event: ShareHeartbeat, outcome: Outcome, now_ms: int) -> None:
    """Answer a heartbeat. One that is rejected changes nothing."""
    try:
        if event.epoch == LEAVE_EPOCH:
            _leave(group, event, outcome)
        else:
            _live(group, event, outcome, now_ms)
    except KafkaError as error:
        reject(event.token, outcome, error)


def silent(group: Group, event: MemberSilent, outcome: Outcome, now_ms: int) -> None:
    """Remove a member that sent no heartbeat for the session timeout."""
    body = group.share
    if body is not None and event.member_id in body.members:
        _remove(group, body, event.member_id, outcome)
        why = "it sent no heartbeat within the session timeout"
        outcome.notes.append(f"group {group.group_id}: member {event.member_id} is removed: {why}")


def start_session(group: Group, member_id: str, outcome: Outcome) -> None:
    """Start the session of a member, or start it again."""
    outcome.timers.append(SetTimer(MemberSilent(member_id), group.limits.share.session_timeout_ms))


def _live(group: Group, event: ShareHeartbeat, outcome: Outcome, now_ms: int) -> None:
    body = _body(group, event)
    member = _member(group, body, event)
    draft = Draft(group, body, event, outcome, now_ms, member, _merged(member.said, event), epoch=body.epoch)
    names = _describe(draft)
    own_target, target_epoch = SHARE_TARGET.update(draft)
    now = _advance(draft, own_target, target_epoch)
    start_session(group, event.member_id, outcome)
    is_told = event.epoch == 0 or event.topics is not None or now.assigned != member.current.assigned
    outcome.reply(event.token, Beat(event.member_id, now.epoch, tuple(sorted(now.assigned)) if is_told else None))
    initialization.want(draft, names)


# -- The group and the member


def _body(group: Group, event: ShareHeartbeat) -> ShareGroup:
    """Return the share group, a new one for a first member."""
    if group.share is not None:
        body = group.share
    elif not group.is_new():
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a share group.")
    elif event.epoch:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group.group_id} not found.")
    else:
        body = ShareGroup()
    max_size = group.limits.share.max_size
    if len(body.members) >= max_size and event.member_id not in body.members:
        why = f"The share group has reached its maximum capacity of {max_size} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, why)
    return body


def _member(group: Group, body: ShareGroup, event: ShareHeartbeat) -> Member:
    """Return the member that a heartbeat is of, a new one for a join."""
    member = body.members.get(event.member_id)
    if member is None:
        if event.epoch:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, _unknown(group, event))
        return Member(event.member_id)
    now, epoch = member.current, event.epoch
    if epoch in (0, now.epoch, now.previous_epoch):
        return member
    which = "greater" if epoch > now.epoch else "smaller"
    why = f"The share group member has a {which} member epoch ({epoch}) than the one known by the group coordinator "
    why += f"({now.epoch})"
    if epoch < now.epoch:
        why += f", and it does not match the previous member epoch ({now.previous_epoch})"
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, f"{why}. The member must abandon all its partitions and rejoin.")


def _unknown(group: Group, event: ShareHeartbeat) -> str:
    return f"Member {event.member_id} is not a member of group {group.group_id}."


# -- What the member says


def _merged(before: ShareGroupMemberMetadataValue | None, event: ShareHeartbeat) -> ShareGroupMemberMetadataValue:
    """Return what a member says of itself: what is new in a heartbeat, and the rest as before."""
    known = before or ShareGroupMemberMetadataValue(rack_id=None)
    return ShareGroupMemberMetadataValue(
        rack_id=known.rack_id if event.rack_id is None else event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=known.subscribed_topic_names if event.topics is None else sorted(set(event.topics)),
    )


def _describe(draft: Draft) -> set[str]:
    """Write what the member says where it is new, and raise the group's epoch where it is time. Return all topics."""
    before, said, body, topics = draft.member.said, draft.said, draft.body, draft.group.topics
    if before != said:
        draft.outcome.records.append(changes.said(draft.group.group_id, draft.event.member_id, said))
    old_names = [] if before is None else before.subscribed_topic_names
    draft.subscription_changed = old_names != said.subscribed_topic_names
    names = _subscribed_with(draft)
    found = body.metadata_hash
    # Read before the topics are: a large step runs in a thread, and topics may change meanwhile.
    seen_changes = topics.change_count
    if draft.subscription_changed or body.seen_changes != seen_changes:
        found = metadata_hash(names, topics)
    is_new = draft.subscription_changed or found != body.metadata_hash
    if is_new or initialization.are_unassigned(draft, names):
        draft.epoch += 1
        draft.outcome.records.append(changes.epoch_bumped(draft.group.group_id, draft.epoch, found))
    else:
        body.seen_changes = seen_changes
    return names


def _subscribed_with(draft: Draft) -> set[str]:
    """Return the topics that the group subscribes once the member is what it says."""
    if not draft.subscription_changed:
        return set(draft.body.topic_subscribers)
    return draft.body.names_without([draft.member]) | set(draft.said.subscribed_topic_names)


def _advance(draft: Draft, own_target: frozenset[tuple[bytes, int]], target_epoch: int) -> Current:
    """Move the member to its target. Return where it stands then."""
    before = draft.member.current
    if before.epoch == target_epoch and not draft.subscription_changed:
        return before
    found = (draft.group.topics.get(name) for name in draft.said.subscribed_topic_names)
    subscribed = {topic.id for topic in found if topic is not None}
    assigned = frozenset(place for place in own_target if place[0] in subscribed)
    if (before.epoch, before.assigned) == (target_epoch, assigned):
        return before
    now = Current(target_epoch, before.epoch, assigned)
    draft.outcome.records.append(changes.current(draft.group.group_id, draft.event.member_id, now))
    return now


# -- Members that go


def _leave(group: Group, event: ShareHeartbeat, outcome: Outcome) -> None:
    body = group.share
    if body is None:
        is_new = group.is_new()
        why = f"Group {group.group_id} not found." if is_new else f"Group {group.group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
    if event.member_id not in body.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, _unknown(group, event))
    _remove(group, body, event.member_id, outcome)
    outcome.reply(event.token, Beat(event.member_id, LEAVE_EPOCH))


def _remove(group: Group, body: ShareGroup, member_id: str, outcome: Outcome) -> None:
    """Remove a member, and raise the group's epoch. The next heartbeat of any member computes a new target."""
    names = body.names_without([body.members[member_id]])
    outcome.records += changes.member_gone(group.group_id, member_id)
    outcome.records.append(changes.epoch_bumped(group.group_id, body.epoch + 1, metadata_hash(names, group.topics)))
    if len(body.members) == 1:
        # As for consumer groups: the next member gets its partitions at once.
        outcome.records.append(changes.target_computed(group.group_id, body.epoch + 1, NEVER_COMPUTED))
    outcome.timers.append(CancelTimer(MemberSilent(member_id)))
