"""The sticky strategy: loads as even as possible, and as few partitions moved as possible (KIP-54).

All members give up their partitions before a rebalance and get most of them back. Each member names its last assignment
in its user data, so a new leader of the group knows it too.

Three aims, the first one first: loads as even as the subscriptions allow, then partitions read from replicas in the
member's own rack (KIP-881, where racks are known), then partitions that stay where they were. Each aim is reached as
far as the ones before it allow.
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
        """Return the member's last assignment with its generation, None before the first one."""
        return None if generation_id == NO_GENERATION else encode_sticky(previous, generation_id)
