"""Where a group is in its partitions: committed offsets, or where a share group begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...client import EARLIEST, LATEST, Admin, OffsetAndMetadata, TopicPartition
from .places import led_places, offsets

SHARE = "share"


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


async def offsets_of(admin: Admin, group: str, kind: str) -> dict[TopicPartition, int]:
    """Return the offsets of a group of a kind. Raises KafkaError."""
    if kind == SHARE:
        return {each: at.start_offset for each, at in (await admin.list_share_group_offsets(group)).items()}
    return {each: at.offset for each, at in (await admin.list_group_offsets(group)).items()}


async def set_offsets(admin: Admin, group: str, kind: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Set the offsets of a group without members. Raises KafkaError."""
    if kind == SHARE:
        await admin.alter_share_group_offsets(group, wanted)
    else:
        await admin.alter_group_offsets(group, {each: OffsetAndMetadata(at) for each, at in wanted.items()})


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
