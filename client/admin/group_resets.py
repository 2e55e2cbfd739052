"""Where a group of any kind is, and where a reset would put it: for the command line and the console.

A share group commits no offsets. What stands for them is where it begins in each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..record import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from .admin import Admin

SHARE = "share"


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


async def resets(
    admin: Admin, partitions: Iterable[TopicPartition], now: Mapping[TopicPartition, int], target: str, value: int
) -> dict[TopicPartition, tuple[int, int, int]]:
    """Return where each log begins and ends, and the offset between these that the group would get, whose are `now`.

    Targets: "earliest", "latest", "offset", "time" (in ms) and "shift by". Partitions are left out whose leader does
    not answer: nobody knows.
    """
    asked = list(partitions)
    starts = await admin.list_offsets(dict.fromkeys(asked, EARLIEST), partial=True)
    ends = await admin.list_offsets(dict.fromkeys(asked, LATEST), partial=True)
    known = [each for each in asked if each in starts and each in ends]
    times = await admin.list_offsets(dict.fromkeys(known, value), partial=True) if target == "time" else ends
    found: dict[TopicPartition, tuple[int, int, int]] = {}
    for each in known:
        if each in times:
            start, end, at_time = starts[each].offset, ends[each].offset, times[each].offset
            wanted = {
                "earliest": start,
                "latest": end,
                "offset": value,
                # No record is as late as that time: the group begins at the end.
                "time": at_time if at_time >= 0 else end,
                "shift by": now.get(each, 0) + value,
            }[target]
            found[each] = start, end, min(max(wanted, start), end)
    return found
