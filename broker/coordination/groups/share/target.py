"""The target of a share group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from .....protocol.messages.share_group_records import ShareGroupMemberMetadataValue
from ..consumer.events import TargetComputed
from ..consumer.state import Place
from ..consumer.target import MAX_AT_ONCE
from ..events import Outcome
from ..group import Group
from ..records import ShareRecord
from . import changes
from .assignor import Sharer, Targets, assign_simple
from .draft import Draft
from .state import ShareGroup

# What a member says, and its target until now.
Told = tuple[ShareGroupMemberMetadataValue | None, Set[Place]]


def update(draft: Draft) -> tuple[frozenset[Place], int]:
    """Compute a new target if it is time for one. Return the member's own, and the epoch of all targets."""
    body, interval_ms = draft.body, draft.group.limits.share.assignment_interval_ms
    # A clock that was set back must not stop a group.
    is_due = not body.assignment_ms <= draft.now_ms < body.assignment_ms + interval_ms
    if body.assignment_epoch >= draft.epoch or not is_due:
        return draft.member.target, body.assignment_epoch
    told: dict[str, Told] = {each.member_id: (each.said, each.target) for each in body.members.values()}
    told[draft.event.member_id] = (draft.said, draft.member.target)
    if len(told) + sum(len(each.partitions) for each in body.initialized.values()) > MAX_AT_ONCE:
        body.wants_target = True
        return draft.member.target, body.assignment_epoch
    targets = assignment_of(draft.group, body, told)()
    draft.outcome.records += _records(draft.group, body, targets, draft.epoch, draft.now_ms)
    return frozenset(targets[draft.event.member_id]), draft.epoch


def beside(group: Group) -> TargetComputed | None:
    """Return the work of a target that is too large for one turn, or None if none is due."""
    body = group.share
    if body is None or not body.wants_target or body.assignment_epoch >= body.epoch:
        return None
    body.wants_target = False
    told: dict[str, Told] = {each.member_id: (each.said, each.target) for each in body.members.values()}
    return TargetComputed(body.epoch, assignment_of(group, body, told))


def computed(group: Group, event: TargetComputed, outcome: Outcome, now_ms: int) -> None:
    """Take a target that was computed in a thread, also where members left meanwhile: the next one is due then."""
    body = group.share
    if body is None or not body.assignment_epoch < event.epoch <= body.epoch:
        return
    targets = {member_id: target for member_id, target in event.targets.items() if member_id in body.members}
    outcome.records += _records(group, body, targets, event.epoch, now_ms)


def _records(group: Group, body: ShareGroup, targets: Targets, epoch: int, now_ms: int) -> list[ShareRecord]:
    records: list[ShareRecord] = []
    for member_id, target in targets.items():
        known = body.members.get(member_id)
        if known is None or frozenset(target) != known.target:
            records.append(changes.target_of(group.group_id, member_id, target))
    return [*records, changes.target_computed(group.group_id, epoch, now_ms)]


def assignment_of(group: Group, body: ShareGroup, told: Mapping[str, Told]) -> Callable[[], Targets]:
    """Return the assignor's work, with all that it needs: it may be done in a thread."""
    ids: dict[str, bytes] = {}
    ready: dict[bytes, frozenset[int]] = {}
    sharers: list[Sharer] = []
    for member_id, (said, target) in told.items():
        if said is None:
            continue
        names = set(said.subscribed_topic_names)
        for name in names - ids.keys():
            topic = group.topics.get(name)
            states = None if topic is None else body.initialized.get(topic.id)
            if topic is not None and states is not None:
                ids[name] = topic.id
                ready[topic.id] = states.partitions
        own = frozenset(ids[name] for name in names if name in ids)
        sharers.append(Sharer(member_id, own, target))
    return lambda: assign_simple(sharers, ready)
