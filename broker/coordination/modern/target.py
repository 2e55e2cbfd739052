"""The target of a group: which partitions each member should have, and when it is computed anew (KIP-1263)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..groups.events import Outcome
from ..groups.group import Group
from ..groups.limits import GroupLimits
from ..groups.records import PartRecord
from ..interfaces import Topics
from .draft import Draft
from .events import TargetComputed
from .state import ModernGroup, Place, Targets

BodyT = TypeVar("BodyT", bound=ModernGroup[Any])

# Members and partitions of a group whose target is computed in the turn of a heartbeat, which takes some 10 ms. A
# larger one is computed in a thread, and members go on with the last target meanwhile.
MAX_AT_ONCE = 2_000
# So many topics that members subscribe take as long as one partition.
NAMES_EACH = 40

# What a member says, and its target until now.
Told = tuple[Any, Set[Place]]


class TargetRecords(Protocol):
    """The records of a target, as the module `changes` of each kind of group makes them."""

    def target_of(self, group_id: str, member_id: str, target: Iterable[Place]) -> PartRecord: ...
    def target_computed(self, group_id: str, epoch: int, now_ms: int) -> PartRecord: ...


@dataclass(frozen=True, slots=True)
class TargetOf(Generic[BodyT]):
    """The target of one kind of group, by the functions that differ."""

    body: Callable[[Group], BodyT | None]
    changes: TargetRecords
    # The least time between two targets.
    interval_ms: Callable[[GroupLimits], int]
    # How many members and partitions there are, and the NAMES_EACH-th part of their subscriptions.
    size: Callable[[Draft[BodyT, Any, Any, Any]], int]
    # What every member says, of which one is as the draft says, with its target.
    told: Callable[[Draft[BodyT, Any, Any, Any]], Mapping[str, Told]]
    # The assignor's work, which may be done in a thread: it keeps what it needs of the group, and looks at every
    # member's subscription only then.
    assignment: Callable[[Group, BodyT, Mapping[str, Told]], Callable[[], Targets]]

    def update(self, draft: Draft[BodyT, Any, Any, Any]) -> tuple[frozenset[Place], int]:
        """Compute a new target if it is time for one. Return the member's own, and the epoch of all targets."""
        body, interval_ms = draft.body, self.interval_ms(draft.group.limits)
        # A clock that was set back must not stop a group.
        is_due = not body.assignment_ms <= draft.now_ms < body.assignment_ms + interval_ms
        if body.assignment_epoch >= draft.epoch or not is_due:
            return draft.member.target, body.assignment_epoch
        if self.size(draft) > MAX_AT_ONCE:
            # `beside` has it computed in a thread, after this turn.
            body.wants_target = True
            return draft.member.target, body.assignment_epoch
        targets = self.assignment(draft.group, body, self.told(draft))()
        draft.outcome.records += self._records(draft.group, body, targets, draft.epoch, draft.now_ms)
        return frozenset(targets[draft.event.member_id]), draft.epoch

    def beside(self, group: Group) -> TargetComputed | None:
        """Return the work of a target that is too large for one turn, or None if none is due."""
        body = self.body(group)
        # One that was never computed is due: the heartbeat that made the group had no place to note it.
        if body is None or not (body.wants_target or not body.assignment_ms) or body.assignment_epoch >= body.epoch:
            return None
        body.wants_target = False
        return TargetComputed(body, body.epoch, self.assignment(group, body, told(body)))

    def computed(self, group: Group, event: TargetComputed, outcome: Outcome, now_ms: int) -> None:
        """Take a target that was computed in a thread, also where members came or left meanwhile: the next is due then.

        A static member that came back under another id raises no epoch. The target is computed again.
        """
        body = self.body(group)
        if body is None or body is not event.body or not body.assignment_epoch < event.epoch <= body.epoch:
            return
        if event.epoch == body.epoch and event.targets.keys() != body.members.keys():
            body.wants_target = True
            return
        targets = {member_id: target for member_id, target in event.targets.items() if member_id in body.members}
        outcome.records += self._records(group, body, targets, event.epoch, now_ms)

    def _records(self, group: Group, body: BodyT, targets: Targets, epoch: int, now_ms: int) -> list[PartRecord]:
        records: list[PartRecord] = []
        for member_id, target in targets.items():
            known = body.members.get(member_id)
            if target != (set() if known is None else known.target):
                records.append(self.changes.target_of(group.group_id, member_id, target))
        return [*records, self.changes.target_computed(group.group_id, epoch, now_ms)]


def told(body: ModernGroup[Any]) -> dict[str, Told]:
    """Return what every member says, with its target."""
    return {each.member_id: (each.said, each.target) for each in body.members.values()}


def subscriptions(members: Iterable[Told]) -> int:
    """Return how many topics members subscribe by name, each member by itself."""
    return sum(len(said.subscribed_topic_names) for said, _ in members if said is not None)


def unwritten(body: ModernGroup[Any], members: Mapping[str, Told]) -> list[Any]:
    """Return what members have said in heartbeats that the log does not have yet."""
    known = body.members
    return [said for key, (said, _) in members.items() if said is not (known[key].said if key in known else None)]


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a number that is another one when a subscribed topic comes, goes or grows. 0: none exists.

    Kafka hashes the same facts otherwise. That costs one rebalance when the log moves between the two.
    """
    digest = hashlib.blake2b(digest_size=8)
    found = {name: topic for name in names if (topic := topics.get(name)) is not None}
    for _, topic in sorted(found.items()):
        digest.update(topic.id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
