"""The part that both sticky strategies share: members and topics become numbers for `balancing`, and partitions again.

Partitions with the same subscribers form one bundle; where racks matter, their replicas must lie in the same racks too.
`balancing` says how many of a bundle each member gets. A member first keeps what it had. The rest is dealt in turn,
topic by topic, so that a busy topic is spread over the members.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..record import TopicPartition
from .assignor import Member, Racks
from .balancing import balance
from .filling import Bundle
from .racks import NOWHERE, racks_matter, replica_racks
from .subscribers import subscribers


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
