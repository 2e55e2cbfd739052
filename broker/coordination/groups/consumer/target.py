"""The target of a consumer group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set

from .....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ...interfaces import Topics
from ..events import Outcome
from ..group import Group
from ..records import ConsumerRecord
from . import changes
from .assignors import ASSIGNORS, Subscriber, Targets
from .draft import Draft
from .events import TargetComputed
from .state import ConsumerGroup, Place

# Members and partitions of a group whose target is computed in the turn of a heartbeat, which takes some 10 ms. A
# larger one is computed in a thread, and members go on with the last target meanwhile.
MAX_AT_ONCE = 2_000

# What a member says, and its target until now.
Told = tuple[ConsumerGroupMemberMetadataValue | None, Set[Place]]


def update(draft: Draft) -> tuple[frozenset[Place], int]:
    """Compute a new target if it is time for one. Return the member's own, and the epoch of all targets."""
    body, interval_ms = draft.body, draft.group.limits.consumer.assignment_interval_ms
    # A clock that was set back must not stop a group.
    is_due = not body.assignment_ms <= draft.now_ms < body.assignment_ms + interval_ms
    if body.assignment_epoch >= draft.epoch or not is_due:
        return draft.member.target, body.assignment_epoch
    if _size(draft) > MAX_AT_ONCE:
        body.wants_target = True
        return draft.member.target, body.assignment_epoch
    targets = assignment_of(draft.group, body, _told(draft))()
    draft.outcome.records += _records(draft.group, body, targets, draft.epoch, draft.now_ms)
    return frozenset(targets[draft.event.member_id]), draft.epoch


def beside(group: Group) -> TargetComputed | None:
    """Return the work of a target that is too large for one turn, or None if none is due."""
    body = group.consumer
    if body is None or not body.wants_target or body.assignment_epoch >= body.epoch:
        return None
    body.wants_target = False
    told: dict[str, Told] = {each.member_id: (each.said, each.target) for each in body.members.values()}
    return TargetComputed(body.epoch, assignment_of(group, body, told))


def computed(group: Group, event: TargetComputed, outcome: Outcome, now_ms: int) -> None:
    """Take a target that was computed in a thread, also where members came or left meanwhile: the next one is due then.

    A static member that came back under another id raises no epoch. The target is computed again.
    """
    body = group.consumer
    if body is None or not body.assignment_epoch < event.epoch <= body.epoch:
        return
    if event.epoch == body.epoch and event.targets.keys() != body.members.keys():
        body.wants_target = True
        return
    targets = {member_id: target for member_id, target in event.targets.items() if member_id in body.members}
    outcome.records += _records(group, body, targets, event.epoch, now_ms)


def _size(draft: Draft) -> int:
    topics = (
        draft.group.topics.get(name) for name in draft.body.subscribed_topics() | draft.body.topics_of(draft.said)
    )
    return len(draft.body.members) + sum(topic.partition_count for topic in topics if topic is not None)


def _records(group: Group, body: ConsumerGroup, targets: Targets, epoch: int, now_ms: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    for member_id, target in targets.items():
        known = body.members.get(member_id)
        before: Set[Place] = set() if known is None else known.target
        if target != before:
            records.append(changes.target_of(group.group_id, member_id, target))
    return [*records, changes.target_computed(group.group_id, epoch, now_ms)]


def _told(draft: Draft) -> dict[str, Told]:
    """Return what every member says, of which one is as the draft says, with its target."""
    body = draft.body
    told: dict[str, Told] = {each.member_id: (each.said, each.target) for each in body.members.values()}
    if draft.member.member_id != draft.event.member_id or draft.event.member_id not in told:
        replaced = body.static.get(draft.event.instance_id or "")
        if replaced is not None:
            told.pop(replaced, None)
    told[draft.event.member_id] = (draft.said, draft.member.target)
    return told


def assignment_of(group: Group, body: ConsumerGroup, told: Mapping[str, Told]) -> Callable[[], Targets]:
    """Return the assignor's work, with all that it needs: it may be done in a thread."""
    topics = group.topics
    counts: dict[bytes, int] = {}
    ids: dict[str, bytes] = {}
    subscribers: list[Subscriber] = []
    for member_id, (said, target) in told.items():
        if said is None:
            continue
        names = body.topics_of(said)
        for name in names - ids.keys():
            topic = topics.get(name)
            if topic is not None:
                ids[name] = topic.id
                counts[topic.id] = topic.partition_count
        own = frozenset(ids[name] for name in names if name in ids)
        subscribers.append(Subscriber(member_id, said.instance_id, own, target))
    votes = Counter(said.server_assignor for said, _ in told.values() if said is not None and said.server_assignor)
    assignor = ASSIGNORS[_elected(votes, group.limits.consumer.assignors)]
    return lambda: assignor(subscribers, counts)


def assignor_of(body: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """Return the assignor that most members ask for."""
    said = (member.said for member in body.members.values())
    return _elected(
        Counter(each.server_assignor for each in said if each is not None and each.server_assignor), assignors
    )


def _elected(votes: Counter[str], assignors: tuple[str, ...]) -> str:
    """Return the assignor with the most votes. A member may have voted before the config took its assignor away."""
    allowed = [name for name, _ in votes.most_common() if name in assignors]
    return allowed[0] if allowed else assignors[0]


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a number that is another one when a subscribed topic comes, goes or grows. 0: none exists.

    Kafka hashes the same facts otherwise. That costs one rebalance when the log moves between the two.
    """
    digest = hashlib.blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            is_empty = False
            digest.update(topic.id + topic.partition_count.to_bytes(4, "big"))
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
