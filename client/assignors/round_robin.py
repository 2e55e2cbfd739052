"""The round-robin strategy: all partitions of all topics dealt out like cards.

Topics in alphabetical order, partitions in number order, members in rank order; a member that does not subscribe the
topic of the card is skipped, and the deal goes on behind the member that took the last card. With equal subscriptions
counts differ by one at most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import Assignor, Member
from .subscribers import subscribers


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`, to the partition."""

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
