"""The sticky strategies: loads as even as possible, and as few partitions moved as possible (KIP-54).

Three aims, the first one first: loads as even as the subscriptions allow, then partitions read from replicas in the
member's own rack (KIP-881, where racks are known), then partitions that stay where they were. Each aim is reached as
far as the ones before it allow.

`sticky`: all members give up their partitions before a rebalance and get most of them back. Each member names its last
assignment in its user data, so a new leader of the group knows it too.

`cooperative-sticky` carries the same plan out in two rebalances, so that reading never stops. Members keep their
partitions through a rebalance (KIP-429). A partition that is to move is first assigned to no member. Its owner sees
that it lost the partition, gives it up and rejoins. The next generation assigns it to the new owner. So two members
never read it at the same time, and the other members are not interrupted. The subscription of a member names its
partitions and the generation that assigned them (KIP-792; older members name the generation in their user data). A
partition that several members claim may still be read by each of them. Therefore only the owner whose claim counts may
keep it, and no other member gets it until all of them have given it up.

A claim is what a member says it had. A member that was away still names the partitions that it had then, so two members
may name the same partition. The claim of the higher generation counts, because that assignment is newer. If both name
the same generation, neither counts (KIP-792).

A member names them in its user data. The bytes are those of Kafka's StickyAssignor and CooperativeStickyAssignor, so
members of both kinds share a group. sticky: the member's last assignment (version 0), and its generation (version 1).
cooperative-sticky: the generation only, because the subscription itself holds the partitions; newer members put the
generation there too. The data begin with no version: a reader tries the newest version first. Data that cannot be read
count as no claim, as in Kafka, because other clients put other things there.

`deal` says which member gets which partition, for both. Partitions with the same subscribers form one bundle; where
racks matter, their replicas must lie in the same racks too. From there on members and partitions are numbers (see
`filling`): `balance` says how many of a bundle each member gets. A member first keeps what it had. The rest is dealt in
turn, topic by topic, so that a busy topic is spread over the members.

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
from typing import NamedTuple

from ...protocol.codec import decoder, encode_versioned
from ...protocol.errors import DecodeError
from ...protocol.schema import Message, Struct, array, int32, string
from ..record import TopicPartition, by_topic
from .assignor import NO_GENERATION, NOWHERE, Member, RackAssignor, Racks, racks_matter, replica_racks, subscribers
from .filling import Bundle, Filling


class StickyAssignor(RackAssignor):
    """Kafka's `sticky`: shares a group with its Java namesake. Results can be better, never worse."""

    name = "sticky"

    def assign_with_racks(
        self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        claims = {member.member_id: decode_sticky(member.user_data) for member in members}
        return deal(members, partitions, racks, owners(claims))

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition] = (), generation_id: int = NO_GENERATION
    ) -> bytes | None:
        """Return the member's last assignment with its generation, None before the first one."""
        return None if generation_id == NO_GENERATION else encode_sticky(previous, generation_id)


class CooperativeStickyAssignor(RackAssignor):
    """Kafka's `cooperative-sticky`: shares a group with its Java namesake. Results can be better, never worse."""

    name = "cooperative-sticky"
    cooperative = True

    def assign_with_racks(
        self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        claims = {member.member_id: Claim(member.owned, _generation(member)) for member in members}
        owner = owners(claims)
        held = {partition for claim in claims.values() for partition in claim.partitions}
        return {
            member_id: [each for each in planned if each not in held or owner.get(each) == member_id]
            for member_id, planned in deal(members, partitions, racks, owner).items()
        }

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition] = (), generation_id: int = NO_GENERATION
    ) -> bytes | None:
        """Return the generation, for leaders that do not read it from the subscription."""
        return encode_generation(generation_id)


def _generation(member: Member) -> int:
    return decode_generation(member.user_data) if member.generation_id == NO_GENERATION else member.generation_id


# The version in front of every other versioned struct.
_VERSION_BYTES = 2


class Claim(NamedTuple):
    """The partitions that one member says it had, and the generation that assigned them."""

    partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION


def owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the member id of each partition's owner. Partitions without a valid claim are left out."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.partitions):
            generation_id, _ = best.get(partition, (NO_GENERATION - 1, None))
            if claim.generation_id > generation_id:
                best[partition] = claim.generation_id, member_id
            elif claim.generation_id == generation_id:
                best[partition] = generation_id, None
    return {partition: member_id for partition, (_, member_id) in best.items() if member_id is not None}


# -- User data


class StickyAssignorUserData(Message, versions="0-1"):
    previous_assignment: list[TopicAssignment] = array("0+")
    generation: int = int32("1+", default=NO_GENERATION, ignorable=True)


class TopicAssignment(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class CooperativeStickyUserData(Message, versions="0"):
    generation: int = int32("0+", default=NO_GENERATION)


def encode_sticky(previous: Sequence[TopicPartition], generation_id: int) -> bytes:
    topics = [TopicAssignment(*each) for each in by_topic(previous).items()]
    return _encode(StickyAssignorUserData(previous_assignment=topics, generation=generation_id), 1)


def decode_sticky(data: bytes | None) -> Claim:
    """Return the claim in `data`, an empty one if it cannot be read."""
    for version in reversed(StickyAssignorUserData.VERSIONS) if data else ():
        try:
            found, _ = decoder(StickyAssignorUserData, version)(data or b"", 0)
        except DecodeError:
            continue  # an older version, or the format of another client
        topics = found.previous_assignment
        return Claim([TopicPartition(each.topic, p) for each in topics for p in each.partitions], found.generation)
    return Claim()


def encode_generation(generation_id: int) -> bytes:
    return _encode(CooperativeStickyUserData(generation=generation_id), 0)


def decode_generation(data: bytes | None) -> int:
    """Return the generation in `data`, NO_GENERATION if it cannot be read."""
    try:
        return decoder(CooperativeStickyUserData, 0)(data or b"", 0)[0].generation
    except DecodeError:
        return NO_GENERATION


def _encode(data: Message, version: int) -> bytes:
    return encode_versioned(data, version)[_VERSION_BYTES:]


# -- Who gets which partition


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
