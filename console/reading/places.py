"""Places in partitions: where logs begin and end, without those that nobody leads now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...client import Admin, KafkaError, TopicPartition
from ...client.core.metadata import TopicInfo
from ...client.errors import ItemsFailed


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
    if not wanted:
        return {}
    try:
        found = await admin.list_offsets(wanted, isolation_level=isolation_level)
    except ItemsFailed as error:
        found = {each: result for each, result in error.results.items() if not isinstance(result, KafkaError)}
    return {each: at.offset for each, at in found.items()}
