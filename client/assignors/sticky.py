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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...protocol.codec import decoder, encode_versioned
from ...protocol.errors import DecodeError
from ...protocol.schema import Message, Struct, array, int32, string
from ..record import TopicPartition, by_topic
from .assignor import NO_GENERATION, Assignor, Member, Racks
from .balancing import deal


class StickyAssignor(Assignor):
    """Kafka's `sticky`: shares a group with its Java namesake. Results can be better, never worse."""

    name = "sticky"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        return self.assign_with_racks(members, partitions, {})

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


class CooperativeStickyAssignor(Assignor):
    """Kafka's `cooperative-sticky`: shares a group with its Java namesake. Results can be better, never worse."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        return self.assign_with_racks(members, partitions, {})

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
