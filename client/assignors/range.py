"""The range strategy: topic by topic, each member takes a run of neighbouring partitions.

With 10 partitions and 3 members the runs are 4, 3, 3: the first members in rank take the remainder. Members that
subscribe the same topics get the same partition numbers of each, so topics keyed alike can be joined locally. Kafka's
default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..record import TopicPartition
from .assignor import Assignor, Member


class RangeAssignor(Assignor):
    """Kafka's `range`, to the partition."""

    name = "range"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        ranked = sorted(members, key=lambda member: member.rank)
        for topic in sorted(partitions):
            subscribers = [member.member_id for member in ranked if topic in member.topics]
            for member_id, run in _runs(subscribers, partitions[topic]):
                assignment[member_id].extend(TopicPartition(topic, partition) for partition in run)
        return assignment


def _runs(subscribers: Sequence[str], count: int) -> list[tuple[str, range]]:
    if not subscribers:
        return []
    share, remainder = divmod(count, len(subscribers))
    starts = [share * rank + min(rank, remainder) for rank in range(len(subscribers) + 1)]
    return [(member_id, range(starts[rank], starts[rank + 1])) for rank, member_id in enumerate(subscribers)]
