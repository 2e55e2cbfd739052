"""The target of a consumer group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Set

from ...interfaces import Topics
from . import changes
from .assignors import ASSIGNORS, Subscriber, Targets
from .draft import Draft
from .state import ConsumerGroup, Place


def update(draft: Draft) -> tuple[frozenset[Place], int]:
    """Compute a new target if it is time for one. Return the member's own, and the epoch of all targets."""
    body, interval_ms = draft.body, draft.group.limits.consumer.assignment_interval_ms
    # A clock that was set back must not stop a group.
    is_due = not body.assignment_ms <= draft.now_ms < body.assignment_ms + interval_ms
    if body.assignment_epoch >= draft.epoch or not is_due:
        return draft.member.target, body.assignment_epoch
    targets = _compute(draft)
    group_id, records = draft.group.group_id, draft.outcome.records
    for member_id, target in targets.items():
        known = body.members.get(member_id)
        before: Set[Place] = set() if known is None else known.target
        if target != before:
            records.append(changes.target_of(group_id, member_id, target))
    records.append(changes.target_computed(group_id, draft.epoch, draft.now_ms))
    return frozenset(targets[draft.event.member_id]), draft.epoch


def _compute(draft: Draft) -> Targets:
    """Return the target of every member, of which one is as the draft says."""
    body, topics = draft.body, draft.group.topics
    told = {each.member_id: (each.said, each.target) for each in body.members.values()}
    if draft.member.member_id != draft.event.member_id or draft.event.member_id not in told:
        replaced = body.static.get(draft.event.instance_id or "")
        if replaced is not None:
            told.pop(replaced, None)
    told[draft.event.member_id] = (draft.said, draft.member.target)
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
    return ASSIGNORS[_elected(votes, draft.group.limits.consumer.assignors)](subscribers, counts)


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
