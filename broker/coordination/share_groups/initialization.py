"""The states of a share group's partitions: when the share coordinator is asked for them, and what came of it.

A partition is assigned to members once it is initialized. What is being initialized is in the log, so that another
coordinator goes on with it.
"""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ..groups.events import Outcome
from ..groups.group import Group
from ..modern.events import Rejection
from . import changes
from .events import AlterStates, DeleteStates, ForgetTopic, StatesDeleted, StatesInitialized, StatesWanted
from .state import ShareGroup, States, TopicStates, places_of, united, without
from .target import Draft

NON_EMPTY = Rejection(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def not_share(group_id: str, group: Group | None) -> Rejection | None:
    """Return why a group is no share group, None if it is one."""
    if group is not None and group.share is not None:
        return None
    is_other = group is not None and not group.is_new()
    why = f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."
    return Rejection(ErrorCode.GROUP_ID_NOT_FOUND, why)


def are_unassigned(draft: Draft, names: set[str]) -> bool:
    """Return whether a subscribed partition is ready, and no member has it though no target is due."""
    body, topics = draft.body, draft.group.topics
    if body.complete_changes == topics.change_count or body.assignment_epoch < body.epoch or not body.initialized:
        return False
    assigned = {place for member in body.members.values() for place in member.target}
    found = [topic.id for name in names if (topic := topics.get(name)) is not None]
    ready = {topic_id: body.initialized[topic_id] for topic_id in found if topic_id in body.initialized}
    return any(place not in assigned for place in places_of(ready))


def want(draft: Draft, names: set[str]) -> None:
    """Ask for the states of subscribed partitions that have none; again, where earlier tries have brought nothing."""
    body, topics = draft.body, draft.group.topics
    if body.complete_changes == topics.change_count and not draft.subscription_changed:
        return
    missing: States = {}
    for name in sorted(names):
        topic = topics.get(name)
        if topic is None:
            continue
        known = [each[topic.id].partitions for each in (body.initialized, body.initializing) if topic.id in each]
        lacking = frozenset(range(topic.partition_count)).difference(*known)
        if lacking:
            missing[topic.id] = TopicStates(name, lacking)
    wanted = united(body.initializing, missing)
    if missing:
        deleting = {topic_id: name for topic_id, name in body.deleting.items() if topic_id not in missing}
        draft.outcome.records.append(changes.states(draft.group.group_id, wanted, body.initialized, deleting))
    if wanted:
        places = frozenset(places_of(wanted))
        draft.outcome.reply(draft.event.starter, StatesWanted(draft.epoch, places))
    elif not draft.outcome.records and body.assignment_epoch == body.epoch:
        body.complete_changes = topics.change_count


def initialized(group: Group, event: StatesInitialized, outcome: Outcome, now_ms: int) -> None:
    """Note which partitions are ready. The others are wanted again by the next heartbeat."""
    body = group.share
    if body is None:
        return
    began = {place for place in places_of(body.initializing) if place in event.done}
    done: dict[bytes, set[int]] = {}
    for topic_id, index in began:
        if group.topics.by_id(topic_id) is not None:
            done.setdefault(topic_id, set()).add(index)
    ready: States = {
        topic_id: TopicStates(body.initializing[topic_id].name, frozenset(indexes))
        for topic_id, indexes in done.items()
    }
    left = without(body.initializing, event.done | event.failed)
    _write(group, body, left, united(body.initialized, ready), body.deleting, outcome)


def alter(group: Group, event: AlterStates, outcome: Outcome, now_ms: int) -> None:
    """Begin the states of some partitions anew. This makes the group if there is none.

    States that are begun again have a new epoch: leaders that have read them before cannot write over them.
    """
    if not group.is_new() and (why := not_share(group.group_id, group)) is not None:
        outcome.reply(event.token, why)
        return
    body = group.share or ShareGroup()
    if body.members:
        outcome.reply(event.token, NON_EMPTY)
        return
    wanted: States = {topic_id: TopicStates(*each) for topic_id, each in event.topics.items()}
    deleting = {topic_id: name for topic_id, name in body.deleting.items() if topic_id not in wanted}
    places, epoch = frozenset(places_of(wanted)), body.epoch
    if not body.places().isdisjoint(places):
        epoch += 1
        outcome.records.append(changes.epoch_bumped(group.group_id, epoch, body.metadata_hash))
    if wanted:
        _write(group, body, united(body.initializing, wanted), body.initialized, deleting, outcome)
    outcome.reply(event.token, StatesWanted(epoch, places))


def delete(group: Group, event: DeleteStates, outcome: Outcome, now_ms: int) -> None:
    """Take topics from the group, and ask for the deletion of their states, also of those that are being deleted."""
    body = group.share
    if body is None or body.members:
        outcome.reply(event.token, not_share(group.group_id, group) or NON_EMPTY)
        return
    topics = known_topics(body) if event.topics is None else known_topics(body) & event.topics
    names = {topic_id: each.name for topic_id, each in united(body.initializing, body.initialized).items()}
    gone = {place for place in body.places() if place[0] in topics}
    for topic_id in topics & body.deleting.keys():
        topic = group.topics.by_id(topic_id)
        gone |= {(topic_id, index) for index in range(0 if topic is None else topic.partition_count)}
    deleting = {**body.deleting, **{topic_id: names[topic_id] for topic_id in topics if topic_id in names}}
    _write(group, body, without(body.initializing, gone), without(body.initialized, gone), deleting, outcome)
    outcome.reply(event.token, StatesWanted(body.epoch, frozenset(gone), topics))


def deleted(group: Group, event: StatesDeleted, outcome: Outcome, now_ms: int) -> None:
    """Forget topics whose states are deleted."""
    body = group.share
    if body is not None:
        deleting = {topic_id: name for topic_id, name in body.deleting.items() if topic_id not in event.topics}
        _write(group, body, body.initializing, body.initialized, deleting, outcome)


def forget_topic(group: Group, event: ForgetTopic, outcome: Outcome, now_ms: int) -> None:
    """Forget a topic that was deleted."""
    body = group.share
    if body is None or event.topic_id not in known_topics(body):
        return
    gone = {place for place in body.places() if place[0] == event.topic_id}
    deleting = {topic_id: name for topic_id, name in body.deleting.items() if topic_id != event.topic_id}
    _write(group, body, without(body.initializing, gone), without(body.initialized, gone), deleting, outcome)


def known_topics(body: ShareGroup) -> frozenset[bytes]:
    """Return the ids of the topics of which there are states, or may be."""
    return frozenset(body.initializing) | frozenset(body.initialized) | frozenset(body.deleting)


def _write(
    group: Group, body: ShareGroup, initializing: States, ready: States, deleting: dict[bytes, str], outcome: Outcome
) -> None:
    """Write the states where they change."""
    if (initializing, ready, deleting) != (body.initializing, body.initialized, body.deleting):
        outcome.records.append(changes.states(group.group_id, initializing, ready, deleting))
