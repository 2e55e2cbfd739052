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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import NO_GENERATION, Assignor, Member, Racks
from .balancing import deal
from .claims import Claim, decode_generation, decode_sticky, encode_generation, encode_sticky, owners


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
