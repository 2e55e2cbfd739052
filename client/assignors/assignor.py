"""The common type of all assignors: a pure function that gives each partition to a member; and the simple strategies.

An assignor sees the members of a group with the topics that each subscribes, and how many partitions each topic has.
It gives every partition of a subscribed topic to exactly one member that subscribes it. The leader of a group runs it
(JoinGroup names the leader), and SyncGroup carries the result. An assignor does not wait, read a clock or draw a random
number. The same input gives the same result on every machine, so Kafka's other clients can share a group with ours.

Custom strategies subclass `Assignor`, and are named by class in `Consumer(partition_assignment_strategy=[...])`. Two
strategies do not ask what members had before, and are here:

`range`, Kafka's default: topic by topic, each member takes a run of neighbouring partitions. With 10 partitions and 3
members the runs are 4, 3, 3: the first members in rank take the remainder. Members that subscribe the same topics get
the same partition numbers of each, so topics with the same keys can be joined locally.

Where racks are known (KIP-881), a member first takes partitions that have a replica in its own rack, in number order
and no more than its share. The remaining partitions then go in runs. Topics with the same number of partitions and the
same subscribers stay together: each partition number goes to the first member in rank that has a replica of it in its
own rack for all these topics.

`roundrobin`: all partitions of all topics go to the members in turn. Topics go in alphabetical order, partitions in
number order, members in rank order. A member that does not subscribe the topic is skipped. The next partition goes to
the member after the one that got the last partition. If all members subscribe the same topics, their counts differ by
one at most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
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


class RackAssignor(Assignor):
    """A strategy that regards racks: without any it assigns as where nobody has one."""

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        return self.assign_with_racks(members, partitions, {})


class RangeAssignor(RackAssignor):
    """Kafka's `range`: it gives every partition to the same member as Kafka's."""

    name = "range"

    def assign_with_racks(
        self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        ranked = sorted(members, key=lambda member: member.rank)
        readers = subscribers(ranked, partitions)
        crowds = {id(places): _Crowd([ranked[place] for place in places]) for places in readers.values()}
        shares = [
            _Share(topic, crowds[id(places)], replica_racks(topic, partitions[topic], racks))
            for topic, places in sorted(readers.items())
        ]
        if any(share.racks_matter for share in shares):
            _take_near(shares)
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        for share in shares:
            share.take_runs()
            for place, numbers in share.taken.items():
                hand = assignment[share.crowd.members[place].member_id]
                hand += [TopicPartition(share.topic, number) for number in sorted(numbers)]
        return assignment


class _Crowd:
    """The subscribers of one topic or several, in rank order. A place in that order stands for a member."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.racks = {member.rack_id for member in members if member.rack_id}


class _Share:
    """The assignment of one topic."""

    def __init__(self, topic: str, crowd: _Crowd, racks: Sequence[frozenset[str]]) -> None:
        self.topic = topic
        self.crowd = crowd
        self.racks = racks
        self.racks_matter = racks_matter(crowd.racks, racks)
        self.taken: defaultdict[int, list[int]] = defaultdict(list)
        self._free = dict.fromkeys(range(len(racks)))
        # How many members may still take one more than the others.
        self._size, self._extras = divmod(len(racks), len(crowd.members))

    def room(self, place: int) -> int:
        """Return how many more partitions the member may take."""
        return max(0, self._size + (self._extras > 0) - len(self.taken.get(place, ())))

    def take(self, place: int, numbers: Sequence[int]) -> None:
        """Give these numbers to the member. They must be free, and the member must have room."""
        if not numbers:
            return
        self.taken[place] += numbers
        self._extras -= len(self.taken[place]) > self._size
        for number in numbers:
            del self._free[number]

    def take_runs(self) -> None:
        """Give all free partitions to the members, in runs, in rank order."""
        free, start, place = list(self._free), 0, 0
        while start < len(free):
            run = free[start : start + self.room(place)]
            self.take(place, run)
            start += len(run)
            place += 1

    def take_near(self) -> None:
        """Give the members partitions with a replica in their own rack. Members without a rack take any."""
        nearby: defaultdict[str, deque[int]] = defaultdict(deque)
        nearby[""] = deque(self._free)
        for number, racks in enumerate(self.racks):
            for rack in racks:
                nearby[rack].append(number)
        for place, member in enumerate(self.crowd.members):
            if not self._free:
                break
            self.take(place, self._free_among(nearby[member.rack_id or ""], self.room(place)))

    def _free_among(self, numbers: deque[int], limit: int) -> list[int]:
        """Return the first `limit` free numbers. Drop the others that stand before them."""
        found: list[int] = []
        while numbers and len(found) < limit:
            number = numbers.popleft()
            if number in self._free:
                found.append(number)
        return found


def _take_near(shares: Sequence[_Share]) -> None:
    together: defaultdict[tuple[int, int], list[_Share]] = defaultdict(list)
    for share in shares:
        together[id(share.crowd), len(share.racks)].append(share)
    for alike in together.values():
        if len(alike) > 1:
            _take_together(alike)
        elif alike[0].racks_matter:
            alike[0].take_near()


def _take_together(shares: Sequence[_Share]) -> None:
    """Give a member the numbers whose replicas are in its rack for all topics. The room is the same in all shares."""
    first = shares[0]
    waiting: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, member in enumerate(first.crowd.members):
        waiting[member.rack_id or ""].append(place)
    for number in range(len(first.racks)):
        common = frozenset[str].intersection(*(share.racks[number] for share in shares))
        heads = [_head(waiting[rack], first.room) for rack in ("", *common)]
        place = min((head for head in heads if head is not None), default=None)
        if place is not None:
            for share in shares:
                share.take(place, [number])


def _head(waiting: deque[int], room: Callable[[int], int]) -> int | None:
    """Return the first place with room. Drop places without room: they get none later."""
    while waiting and not room(waiting[0]):
        waiting.popleft()
    return waiting[0] if waiting else None


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`: it gives every partition to the same member as Kafka's."""

    name = "roundrobin"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        ranked = sorted(members, key=lambda member: member.rank)
        turn = 0
        for topic, places in sorted(subscribers(ranked, partitions).items()):
            for partition in range(partitions[topic]):
                # The first subscriber from the turn on, going round.
                place = places[bisect_left(places, turn) % len(places)]
                assignment[ranked[place].member_id].append(TopicPartition(topic, partition))
                turn = (place + 1) % len(ranked)
        return assignment
