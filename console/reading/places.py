"""Places in partitions: where logs begin and end, without those that nobody leads now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...client import Admin, TopicPartition
from ...client.core.metadata import TopicInfo


def led_places(topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    """Return the partitions of topics that have a leader. To ask for another would wait until it has one."""
    return [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions if each.leader >= 0
    ]


async def offsets(
    admin: Admin, wanted: Mapping[TopicPartition, int], isolation_level: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    """Return the offset at a time, or an end (LATEST, EARLIEST), of each partition; without those that failed.

    It is -1 where no record is as late as the time.
    """
    found = await admin.list_offsets(wanted, isolation_level=isolation_level, partial=True)
    return {each: at.offset for each, at in found.items()}
