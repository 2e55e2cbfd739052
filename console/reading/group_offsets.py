"""Where a group is in its partitions: committed offsets, or where a share group begins."""

from __future__ import annotations

from dataclasses import dataclass

from ...client import EARLIEST, LATEST, Admin, TopicPartition
from ...client.admin.group_resets import offsets_of
from .places import led_places, offsets


@dataclass(frozen=True, slots=True)
class Progress:
    """A group in a partition: its offset, and where the log begins and ends; None for a log that nobody leads now."""

    partition: TopicPartition
    offset: int
    begin: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(self.end - self.offset, 0)


async def progress_of(admin: Admin, group: str, kind: str) -> list[Progress]:
    """Return where a group is in each of its partitions, in order. Raises KafkaError."""
    at = await offsets_of(admin, group, kind)
    topics = await admin.describe_topics()
    led = [
        each for each in led_places(topics[name] for name in {each.topic for each in at} & topics.keys()) if each in at
    ]
    begins = await offsets(admin, dict.fromkeys(led, EARLIEST))
    ends = await offsets(admin, dict.fromkeys(led, LATEST))
    return [Progress(each, at[each], begins.get(each), ends.get(each)) for each in sorted(at)]
