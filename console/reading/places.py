"""Places in partitions, and times, as people write them; where logs begin and end, without those that nobody leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from ...client import Admin, TopicPartition
from ...client.core.metadata import TopicInfo
from ...web.exchange import HttpError


def led_places(topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    """Return the partitions of topics that have a leader. To ask for another would wait until it has one."""
    return [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions if each.leader >= 0
    ]


def chosen_places(topic: TopicInfo, numbers: str) -> list[TopicPartition]:
    """Return the partitions `0,3` of a topic that have a leader; all of them for an empty text. Raises HttpError."""
    try:
        chosen = {int(each) for each in numbers.split(",")} if numbers.strip() else None
    except ValueError:
        raise HttpError(400, "partition is a number, or several with commas") from None
    if chosen is not None and not chosen <= {each.partition for each in topic.partitions}:
        raise HttpError(400, f"{topic.name} has partitions from 0 to {len(topic.partitions) - 1}")
    return [each for each in led_places([topic]) if chosen is None or each.partition in chosen]


async def offsets(
    admin: Admin, wanted: Mapping[TopicPartition, int], isolation_level: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    """Return the offset at a time, or an end (LATEST, EARLIEST), of each partition; without those that failed.

    It is -1 where no record is as late as the time.
    """
    found = await admin.list_offsets(wanted, isolation_level=isolation_level, partial=True)
    return {each: at.offset for each, at in found.items()}


def time_ms(text: str) -> int:
    """Return a time, ISO 8601 (UTC unless it names a zone) or milliseconds since 1970. Raises HttpError."""
    try:
        if text.strip().isdecimal():
            return min(int(text), (1 << 63) - 1)
        moment = datetime.fromisoformat(text.strip())
        # An earlier time would be a negative number, and those stand for the ends of a log.
        return max(round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise HttpError(400, "time is ISO 8601 such as 2026-11-21T08:00, or milliseconds since 1970") from None
