"""The round-robin strategy: all partitions of all topics dealt out like cards.

Topics in alphabetical order, partitions in number order, members in rank order; a member that does not subscribe the
topic of the card is passed over, and the deal goes on behind whoever took the last card. With equal subscriptions
counts differ by one at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import Assignor, Member


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`, to the partition."""

    name = "roundrobin"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        ranked = sorted(members, key=lambda member: member.rank)
        subscriptions = [frozenset(member.topics) for member in ranked]
        wanted = frozenset[str]().union(*subscriptions)
        turn = 0
        for topic in sorted(wanted.intersection(partitions)):
            for partition in range(partitions[topic]):
                turn = _next_subscriber(subscriptions, topic, turn)
                assignment[ranked[turn].member_id].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ranked)
        return assignment


def _next_subscriber(subscriptions: Sequence[frozenset[str]], topic: str, turn: int) -> int:
    """The first member from `turn` on, going round, that subscribes `topic`. The caller knows that there is one."""
    while topic not in subscriptions[turn]:
        turn = (turn + 1) % len(subscriptions)
    return turn
