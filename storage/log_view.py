"""Finding things in the segments of a log: where an offset lies, the first record of a time, the latest of all.

Nothing here changes a log. The broker's event loop asks `locate` with `cached`: it answers from memory and from the
page cache, and raises NotCached where it would have to wait for the disk. Then, and for all that goes by time, a thread
asks a `LogView`: copies of the segments that are nobody else's, with files and indexes of their own. What it finds out
on the way (files opened, damage, largest timestamps) goes back to the log with Log.learn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from .errors import CorruptBatch, OffsetOutOfRange
from .files import Disk, File, FileRange
from .segments.aborted_lookup import AbortedLookup
from .segments.segment import LOG_SUFFIX, Segment
from .segments.time_lookup import latest
from .segments.transaction_index import AbortedTransaction

_BASE_OFFSET = attrgetter("base_offset")

# (timestamp, offset, leader epoch)
Found = tuple[int, int, int]


@dataclass(slots=True)  # frozen ones take twice the time to make, and one is made a fetch
class Location:
    """Where a read begins: at a batch of `first_bytes` at `position`. What may be read with it ends at `end`."""

    base_offset: int  # of its segment
    file: File
    position: int
    first_bytes: int
    end: int

    def range(self, max_bytes: int, minimum_one: bool, disk: Disk) -> FileRange:
        """Return at most `max_bytes` of it, but the whole first batch with `minimum_one`; without, nothing where that
        batch is larger: half of it is of no use to a reader.
        """
        wanted = max(max_bytes, self.first_bytes) if minimum_one else max_bytes
        if wanted < self.first_bytes:
            wanted = 0
        return FileRange(self.file, self.position, max(min(self.end - self.position, wanted), 0), disk)


def slot_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the number of the segment that holds `offset`, or would."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)


def locate(
    segments: Sequence[Segment], end_offset: int, offset: int, up_to: int, *, cached: bool = False
) -> Location | None:
    """Return where the batch lies that holds `offset`, or the next one; None if there is none below `up_to`.

    `end_offset` is the log's. `cached`: NotCached rather than a wait. Raises CorruptBatch, DiskError.
    """
    for slot in range(slot_of(segments, offset), len(segments)):
        segment = segments[slot]
        if segment.base_offset >= up_to:
            break
        found = segment.find(offset, cached=cached)
        if found is None:
            continue
        position, header = found
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        end = segment.size if up_to >= following else _reaching(segment, up_to, cached)
        if segment.damages:
            end = min(end, segment.sound_end(position))
        return Location(segment.base_offset, segment.file, position, header.size_bytes, end)
    return None


def _reaching(segment: Segment, up_to: int, cached: bool) -> int:
    """Return where the first batch begins that reaches `up_to`, or the segment's end."""
    try:
        found = segment.find(up_to, cached=cached)
    except CorruptBatch as error:
        return error.position
    return segment.size if found is None else found[0]


def find_time(segments: Sequence[Segment], start_offset: int, timestamp_ms: int, up_to: int) -> Found | None:
    """Return the first record in [start_offset, up_to) that is not earlier, None if there is none."""
    for segment in segments[slot_of(segments, start_offset) :]:
        if segment.base_offset >= up_to:
            return None
        if segment.max_timestamp[0] >= timestamp_ms:
            found = segment.find_time(timestamp_ms, start_offset, up_to)
            if found is not None:
                return found
    return None


def latest_starts(segments: Sequence[Segment], start_offset: int, count: int) -> list[int]:
    """Return where segments begin, newest first, at most `count`."""
    return [max(each.base_offset, start_offset) for each in segments[::-1][:count]]


class LogView:
    """A log as it was when this was made, for one thread. Its methods wait for the disk.

    A segment that retires meanwhile takes its files' names along: then a DiskError may be raised, and the log, whose
    segments are others by now, is to be asked again.
    """

    def __init__(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, disk: Disk) -> None:
        self.originals = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._disk = disk
        # The others change no more: they are copied when they are needed.
        self._active = segments[-1].twin()
        self._twins: tuple[Segment, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The copies, one each."""
        if not self._twins:
            self._twins = (*(each.twin() for each in self.originals[:-1]), self._active)
        return self._twins

    def locate(self, offset: int, up_to: int) -> Location | None:
        """As the function. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        return locate(self.segments, self.end_offset, offset, up_to)

    def aborted_transactions(self, offset: int, fetched: FileRange, up_to: int) -> list[AbortedTransaction]:
        """As Log's."""
        return AbortedLookup().reaching_into(self.segments, self.end_offset, offset, fetched, up_to)

    def find_time(self, timestamp_ms: int, up_to: int) -> Found | None:
        """As the function."""
        return find_time(self.segments, self.start_offset, timestamp_ms, up_to)

    def load_times(self, count: int) -> None:
        """See that the largest timestamps of the first `count` segments are in memory."""
        for segment in self.segments[:count]:
            _ = segment.max_timestamp

    def max_timestamp(self) -> tuple[int, int]:
        """Return (timestamp, offset) of the first record with the largest timestamp, (-1, -1) if there is none."""
        return latest(self.segments, self.start_offset, self.end_offset)

    def starts_before(self, timestamp_ms: int, count: int) -> list[int]:
        """Return where segments begin that were last written to by then, newest first, at most `count`.

        That is all that clients before Kafka 0.10.1 can ask of time (ListOffsets 0).
        """
        segments = self.segments
        while segments and self._disk.modified_ms(segments[-1].path(LOG_SUFFIX)) > timestamp_ms:
            segments = segments[:-1]
        return latest_starts(segments, self.start_offset, count)
