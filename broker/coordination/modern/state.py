"""The state of a consumer group or a share group: plain data, and how each record changes it.

A group has an epoch, which grows when its members or their topics change, and a target: which partitions each member
should have, computed for an epoch (the assignment epoch). Each member has a current assignment on its way to the
target, with an epoch of its own.

Everything here comes from records alone. Their order does not matter as long as the last one of each key comes last,
because a replay keeps no other order (replay.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from ....protocol.messages import consumer_group_records as consumer
from ....protocol.messages import share_group_records as share

# Topic id, partition index.
Place = tuple[bytes, int]
# The partitions of each member, by member id.
Targets = dict[str, set[Place]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member, as an assignor sees it."""

    member_id: str
    # None in a share group.
    instance_id: str | None
    # The ids of the topics that it subscribes and that exist.
    topics: Set[bytes]
    # Its target until now.
    target: Set[Place]


class Said(Protocol):
    """What a member says of itself, as its record has it."""

    subscribed_topic_names: list[str]


SaidT = TypeVar("SaidT", bound=Said)
CurrentT = TypeVar("CurrentT")


@dataclass(slots=True)
class Member(Generic[SaidT, CurrentT]):
    """A member: where it stands, what it said of itself and where it should be."""

    member_id: str
    current: CurrentT
    # None only while a replay has not brought it yet.
    said: SaidT | None = None
    target: frozenset[Place] = frozenset()


# The time of a target that was not computed.
NEVER_COMPUTED = 0

MemberT = TypeVar("MemberT", bound=Member[Any, Any])


class ModernGroup(ABC, Generic[MemberT]):
    """The members, epochs and target of one group."""

    def __init__(self, new_member: Callable[[str], MemberT]) -> None:
        self._new_member = new_member
        # A group that the log knows nothing of begins at 1, as in Kafka.
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        # When the target was computed.
        self.assignment_ms = NEVER_COMPUTED
        self.members: dict[str, MemberT] = {}
        # Whether the log has a record of the group itself.
        self.recorded = False
        # -- Derived from the above
        self.topic_subscribers: Counter[str] = Counter()
        # -- Not kept: the number of changes of topics that the metadata hash has seen.
        self.seen_changes = -1
        # Not kept: whether a target is due that is too large for one turn (target.py).
        self.wants_target = False

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state that descriptions show."""

    def _apply_group(self, value: consumer.ConsumerGroupMetadataValue | share.ShareGroupMetadataValue | None) -> None:
        self.recorded = value is not None
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_target_epoch(
        self,
        value: consumer.ConsumerGroupTargetAssignmentMetadataValue
        | share.ShareGroupTargetAssignmentMetadataValue
        | None,
    ) -> None:
        if value is not None:
            self.assignment_epoch, self.assignment_ms = value.assignment_epoch, value.assignment_timestamp

    def _apply_target(
        self,
        member_id: str,
        value: consumer.ConsumerGroupTargetAssignmentMemberValue | share.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            self._member(member_id).target = frozenset(places_in(value.topic_partitions))
        elif member_id in self.members:
            self.members[member_id].target = frozenset()

    def _apply_member(self, member_id: str, value: Any) -> None:
        member = self.members.get(member_id)
        if member is not None and member.said is not None:
            self._count(member, -1)
        if value is not None:
            member = self._member(member_id)
            member.said = value
            self._count(member, 1)
        elif member is not None:
            self._remove(member)

    def _count(self, member: MemberT, by: int) -> None:
        """Let what a member said count (1), or count no more (-1)."""
        assert member.said is not None
        count(self.topic_subscribers, member.said.subscribed_topic_names, by)

    def _remove(self, member: MemberT) -> None:
        del self.members[member.member_id]

    def _member(self, member_id: str) -> MemberT:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = self._new_member(member_id)
        return member

    def names_without(self, gone: Iterable[MemberT]) -> set[str]:
        """Return the topics that are subscribed by name, were these members gone."""
        told = [each.said for each in gone if each.said is not None]
        leaving = Counter(name for said in told for name in set(said.subscribed_topic_names))
        subscribers = self.topic_subscribers
        return subscribers.keys() - {name for name, members in leaving.items() if subscribers[name] <= members}

    def drop_halves(self) -> None:
        """Forget members of which a log that lost records has no description."""
        for member in [each for each in self.members.values() if each.said is None]:
            self._remove(member)


def count(counter: Counter[str], names: Iterable[str], by: int) -> None:
    """Add a number to each name, and drop the names that are left with none."""
    for name in set(names):
        counter[name] += by
        if not counter[name]:
            del counter[name]


def places_in(
    topics: Iterable[consumer.TopicPartition | share.TopicPartition | share.TopicPartitions],
) -> Iterable[Place]:
    """Yield the partitions that a record lists."""
    return ((each.topic_id, index) for each in topics for index in each.partitions)


def by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    """Return partitions by topic, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return topics
