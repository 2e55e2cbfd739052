"""The cooperative-sticky strategy: the plan of `sticky`, carried out in two rebalances so that reading never stops.

Members keep their partitions through a rebalance (KIP-429). One that is to move is first given to nobody: its owner
sees that it is not among its partitions, gives it up, and rejoins, and in the generation after that the new owner gets
it. So no two members ever read it at once, and all others go on undisturbed.

What a member has stands in its subscription, with the generation since which it has it (KIP-792; older members tell
that in their user data). One claim that is not believed still counts: who holds a partition wrongly holds it, so it is
given to nobody else until it was given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import NO_GENERATION, Assignor, Member, Racks
from .claims import Claim, owners
from .dealing import deal
from .user_data import decode_generation, encode_generation


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
        """The generation, for leaders that know no newer place for it."""
        return encode_generation(generation_id)


def _generation(member: Member) -> int:
    return decode_generation(member.user_data) if member.generation_id == NO_GENERATION else member.generation_id
