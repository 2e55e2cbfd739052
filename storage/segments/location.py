"""The location of an offset in the segments of a log: the segment, the file, the position.

With `cached`, a look-up uses memory and the page cache only, and raises NotCached where it would wait for the disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from ...protocol.records.batch import LOG_OVERHEAD
from ..errors import CorruptBatch
from ..files import Disk, File, FileRange
from .damage import MISPLACED
from .segment import Segment

_BASE_OFFSET = attrgetter("base_offset")


@dataclass(slots=True)  # frozen ones take twice the time to make, and each fetch makes one
class Location:
    """The start of a read: the batch at `position`, which has `first_bytes` bytes. The read ends by `end`."""

    base_offset: int  # of the segment
    file: File
    position: int
    first_bytes: int
    end: int

    def range(self, max_bytes: int, minimum_one: bool, disk: Disk) -> FileRange:
        """Return at most `max_bytes` from here on.

        `minimum_one`: at least the whole first batch. Without it, the range is empty where the first batch is larger,
        because a part of a batch is of no use to a reader.
        """
        wanted = max(max_bytes, self.first_bytes) if minimum_one else max_bytes
        if wanted < self.first_bytes:
            wanted = 0
        return FileRange(self.file, self.position, max(min(self.end - self.position, wanted), 0), disk)


def slot_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that holds `offset`, or would hold it."""
    return max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)


def locate(
    segments: Sequence[Segment], end_offset: int, offset: int, up_to: int, *, cached: bool = False
) -> Location | None:
    """Return where the batch that holds `offset` lies, or the next one; None if there is none below `up_to`.

    `end_offset` is the log end offset. `cached`: see the module's text. Raises CorruptBatch, DiskError.
    """
    newest = len(segments) - 1
    start = newest if offset >= segments[newest].base_offset else slot_of(segments, offset)
    for slot in range(start, newest + 1):
        segment = segments[slot]
        if segment.base_offset >= up_to:
            break
        found = segment.find(offset, cached=cached)
        if found is None:
            continue
        position, header = found
        first_bytes = header.batch_length + LOG_OVERHEAD
        following = segments[slot + 1].base_offset if slot < newest else end_offset
        if header.base_offset + header.last_offset_delta >= following:
            raise segment.mark(position, MISPLACED, position + first_bytes).error()
        end = segment.size if up_to >= following else _end_below(segment, up_to, cached)
        if segment.damages:
            end = min(end, segment.sound_end(position))
        return Location(segment.base_offset, segment.file, position, first_bytes, end)
    return None


def _end_below(segment: Segment, up_to: int, cached: bool) -> int:
    """Return the position of the first batch that reaches `up_to`, or the segment's end."""
    try:
        found = segment.find(up_to, cached=cached)
    except CorruptBatch as error:
        return error.position
    return segment.size if found is None else found[0]
