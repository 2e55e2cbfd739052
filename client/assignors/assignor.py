"""The common type of all assignors: a pure function that gives each partition to a member.

An assignor sees the members of a group with the topics that each subscribes, and how many partitions each topic has.
It gives every partition of a subscribed topic to exactly one member that subscribes it. The leader of a group runs it
(JoinGroup names the leader), and SyncGroup carries the result. An assignor does not wait, read a clock or draw a random
number. The same input gives the same result on every machine, so Kafka's other clients can share a group with ours.

At the end stand the questions that several strategies ask: who subscribes a topic, and whether racks matter.

Custom strategies subclass `Assignor`, and are named by class in `Consumer(partition_assignment_strategy=[...])`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from ..record import TopicPartition

# The generation of a member that was in none yet, or that does not name it.
NO_GENERATION = -1
# Topic -> for each of its partitions, in order, the racks that hold a replica of it. Topics may be missing.
Racks = Mapping[str, Sequence[frozenset[str]]]
NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as the leader sees it.

    `owned` holds the partitions that the member says it has when it joins (subscription version 1 and up). It is empty
    for eager strategies. `generation_id` is the generation that assigned them (version 2 and up, KIP-792; -1: unknown).
    Only the strategy reads `user_data`. `rack_id` says where the member runs (version 3, KIP-881).
    """

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
    generation_id: int = NO_GENERATION
    rack_id: str | None = None

    @property
    def rank(self) -> tuple[int, str]:
        """Return the key of the order in which Kafka's assignors serve members.

        Static members come first, by instance id, then the others by member id.
        """
        return (1, self.member_id) if self.group_instance_id is None else (0, self.group_instance_id)


class Assignor(ABC):
    """A strategy by name. `name` is what goes over the wire: all members of a group must have one in common."""

    name: ClassVar[str]
    # Members keep their partitions through a rebalance and give up only those that they lose (KIP-429).
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member by member id. Every member appears, also with an empty list.

        `partitions` maps each topic that exists to its number of partitions. Subscribed topics that are missing from
        it are left out.
        """

    def assign_with_racks(
        self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        """Return what `assign` returns, also with regard to the racks of replicas (KIP-881). The leader calls this.

        A strategy that does not look at racks need not override it.
        """
        return self.assign(members, partitions)

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition] = (), generation_id: int = NO_GENERATION
    ) -> bytes | None:
        """Return what this member tells the leader besides its topics, in the strategy's own format.

        `previous` is its last assignment, from generation `generation_id`; NO_GENERATION: it had none yet.
        """
        return None


def subscribers(members: Sequence[Member], topics: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Return the subscribed ones of `topics`, each with the places of its subscribers in `members`, in order.

    Topics with the same subscribers share one tuple object. In many groups all members subscribe the same thousands of
    topics. So members are grouped by subscription first, and each different subscription is read once.
    """
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, member in enumerate(members):
        alike[member.topics].append(place)
    crowds = list(alike.values())
    found: defaultdict[str, list[int]] = defaultdict(list)
    for crowd, subscription in enumerate(alike):
        for topic in dict.fromkeys(subscription):
            if topic in topics:
                found[topic].append(crowd)
    places: dict[tuple[int, ...], tuple[int, ...]] = {}
    for key in map(tuple, found.values()):
        if key not in places:
            places[key] = tuple(sorted(place for crowd in key for place in crowds[crowd]))
    return {topic: places[tuple(key)] for topic, key in found.items()}


def racks_matter(member_racks: Set[str], replicas: Collection[frozenset[str]]) -> bool:
    """Return whether racks make a difference to the assignment. `replicas` holds the racks of each partition.

    Reading from a replica in the member's own rack causes no traffic between racks (KIP-881). For a member without a
    rack, all replicas are equally near. Racks make no difference if no member runs in a rack with replicas, or if all
    partitions are in all racks.
    """
    if not member_racks:
        return False
    everywhere = frozenset[str]().union(*replicas)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in replicas)


def replica_racks(topic: str, count: int, racks: Racks) -> list[frozenset[str]]:
    """Return the racks of each of a topic's `count` partitions, NOWHERE for those that are not known."""
    told = racks.get(topic, ())
    return [told[number] if number < len(told) else NOWHERE for number in range(count)]
