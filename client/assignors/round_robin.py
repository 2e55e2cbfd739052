"""The round-robin strategy: all partitions of all topics go to the members in turn.

Topics go in alphabetical order, partitions in number order, members in rank order. A member that does not subscribe the
topic is skipped. The next partition goes to the member after the one that got the last partition. If all members
subscribe the same topics, their counts differ by one at most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import Assignor, Member, subscribers


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
