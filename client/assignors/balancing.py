"""What both sticky strategies share: `deal` says which member gets which partition.

Partitions with the same subscribers form one bundle; where racks matter, their replicas must lie in the same racks too.
From there on members and partitions are numbers (see `filling`): `balance` says how many of a bundle each member gets.
A member first keeps what it had. The rest is dealt in turn, topic by topic, so that a busy topic is spread over the
members.

The balance is loads as even as possible, then as few moves as possible. If all members subscribe the same topics, even
means that loads differ by one at most. Otherwise an assignment is even if no partition, and no chain of partitions
handed on, can move from a member to another that has at least two fewer. Such an assignment has the least sum of
squared loads, the least maximum and the greatest minimum.

Members fall into levels. Members of a lower level subscribe nothing that a level reads, so the loads of a level are
fixed at `low` or one more, and the other levels cannot change them. `balance` finds the levels by filling up to the
average. The members that the remaining partitions can reach lie at or above the average, the others below it. All
assignments within the bounds of a level are equally even. The cheapest is chosen: first the fewest partitions read from
another rack, then the fewest moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..record import TopicPartition
from .assignor import NOWHERE, Member, Racks, racks_matter, replica_racks, subscribers
from .filling import Bundle, Filling


def deal(
    members: Sequence[Member], partitions: Mapping[str, int], racks: Racks, owners: Mapping[TopicPartition, str]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member by member id, in order.

    Loads are as even as possible, then replicas as near as possible, then as few partitions as possible leave `owners`.
    """
    ranked = sorted(members, key=lambda member: member.rank)
    numbers = {member.member_id: number for number, member in enumerate(ranked)}
    had = {partition: numbers[member_id] for partition, member_id in owners.items()}
    groups = _groups(ranked, partitions, racks)
    bundles = [group.bundle(had) for group in groups]
    hands: list[list[TopicPartition]] = [[] for _ in ranked]
    for group, counts in zip(groups, balance(range(len(ranked)), bundles), strict=True):
        for member, partition in _deal_group(group.partitions, counts, had):
            hands[member].append(partition)
    return {member.member_id: sorted(hand) for member, hand in zip(ranked, hands, strict=True)}


@dataclass(frozen=True, slots=True)
class _Group:
    """The partitions of a bundle, in order, and the members that may get them."""

    near: tuple[int, ...]
    far: tuple[int, ...] = ()
    partitions: list[TopicPartition] = field(default_factory=list[TopicPartition])

    def bundle(self, had: Mapping[TopicPartition, int]) -> Bundle:
        subscribers = {*self.near, *self.far}
        previous: dict[int, int] = {}
        for partition in self.partitions:
            member = had.get(partition)
            if member in subscribers:
                previous[member] = previous.get(member, 0) + 1
        return Bundle(len(self.partitions), self.near, self.far, previous)


def _groups(ranked: Sequence[Member], partitions: Mapping[str, int], racks: Racks) -> list[_Group]:
    """Return all partitions of subscribed topics, grouped by the members that may get them."""
    readers = subscribers(ranked, partitions)
    replicas = {topic: replica_racks(topic, partitions[topic], racks) for topic in sorted(readers)}
    at = [member.rack_id for member in ranked]
    by_rack = racks_matter({rack for rack in at if rack}, [each for topic in replicas.values() for each in topic])
    groups: dict[tuple[int, frozenset[str]], _Group] = {}
    for topic, wheres in replicas.items():
        for number, where in enumerate(wheres):
            key = id(readers[topic]), where if by_rack else NOWHERE
            group = groups.get(key)
            if group is None:
                # For a member without a rack, all replicas are equally near.
                far = tuple([place for place in readers[topic] if at[place] and at[place] not in where])
                near = tuple([place for place in readers[topic] if not at[place] or at[place] in where])
                group = groups[key] = _Group(near, far) if by_rack else _Group(readers[topic])
            group.partitions.append(TopicPartition(topic, number))
    return list(groups.values())


def _deal_group(
    partitions: Sequence[TopicPartition], counts: Mapping[int, int], had: Mapping[TopicPartition, int]
) -> Iterator[tuple[int, TopicPartition]]:
    """Yield each partition with the member that gets it. The sum of `counts` is the number of partitions."""
    left = dict(counts)
    rest: list[TopicPartition] = []
    for partition in partitions:
        member = had.get(partition, -1)
        if left.get(member, 0):
            left[member] -= 1
            yield member, partition
        else:
            rest.append(partition)
    turns = deque(sorted(member for member, count in left.items() if count))
    for partition in rest:
        member = turns.popleft()
        left[member] -= 1
        if left[member]:
            turns.append(member)
        yield member, partition


# -- Balance


def balance(members: Sequence[int], bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """Return how many of each bundle every member gets, without the members that get none.

    Each bundle must have a subscriber.
    """
    result: list[dict[int, int]] = [{} for _ in bundles]
    for level in _levels(frozenset(members), bundles):
        for bundle, given in zip(level.bundles, _cheapest(level, bundles), strict=True):
            result[bundle] = given
    return result


@dataclass(frozen=True, slots=True)
class _Level:
    """Members whose loads are `low` or one more, and the bundles that are theirs alone."""

    members: frozenset[int]
    bundles: list[int]
    low: int
    # One even assignment, by bundle.
    given: list[dict[int, int]]


def _levels(members: frozenset[int], bundles: Sequence[Bundle]) -> Iterator[_Level]:
    """Yield the levels. Each round yields one or leaves smaller sets of members to look at."""
    to_do = [(members, list(range(len(bundles))))]
    while to_do:
        members, numbers = to_do.pop()
        if not members:
            continue
        filling = Filling(sorted(members), [bundles[number].plain().among(members) for number in numbers])
        low = sum(filling.left) // len(members)
        filling.fill(low)
        above = filling.stuck
        if not above[0]:
            # Nothing is left over, so the load of every member is the average.
            yield _Level(members, numbers, low, filling.given)
            continue
        below = members - above[0], [number for at, number in enumerate(numbers) if at not in above[1]]
        filling.fill(low + 1)
        beyond = filling.stuck
        here = sorted(above[1] - beyond[1])
        yield _Level(above[0] - beyond[0], [numbers[at] for at in here], low, [filling.given[at] for at in here])
        to_do += [below, (beyond[0], [numbers[at] for at in sorted(beyond[1])])]


def _cheapest(level: _Level, bundles: Sequence[Bundle]) -> list[dict[int, int]]:
    """Return the cheapest assignment within a level."""
    own = [bundles[number].among(level.members) for number in level.bundles]
    if all(bundle.indifferent for bundle in own):
        return level.given
    filling = Filling(sorted(level.members), own)
    filling.fill(level.low)
    filling.fill(level.low + 1)
    return filling.given
