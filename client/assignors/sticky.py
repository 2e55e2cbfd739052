"""The sticky strategy: as even as can be, and as little moved as can be (KIP-54).

All members give up their partitions before a rebalance and get most of them back. What a member had is what it was
given last, told by itself in its user data, so it is remembered also where the group's leader has changed.

The order of what counts: loads as even as the subscriptions allow, then partitions read from replicas in the member's
own rack (KIP-881, where racks are told), then partitions left where they were. Each is the best that is possible under
the ones before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import NO_GENERATION, Assignor, Member, Racks
from .claims import owners
from .dealing import deal
from .user_data import decode_sticky, encode_sticky


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
        """What it was given last, with the generation; nothing before it was given anything."""
        return None if generation_id == NO_GENERATION else encode_sticky(previous, generation_id)
