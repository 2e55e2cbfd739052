"""Look-ups over the segments of a log: the location of an offset, aborted transactions, and records by time.

With `cached`, a look-up uses memory and the page cache only, and raises NotCached where it would wait for the disk.

For aborted transactions that reach into a read only segments with a transaction index are searched, from the segment
where the read begins up to the first whose entries say that no later one can matter. In a log without aborts the
look-up costs one comparison.

ListOffsets asks for records by time. A segment knows the largest timestamp that its batches tell. The record that had
it may be gone: cleaned away, with its batch left empty, or below the log start offset. Then the headers of the segment
are read for the next largest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from ...protocol.records.batch import LOG_OVERHEAD, BatchHeader, iter_records
from ...protocol.records.errors import RecordError, RecordTooLarge
from ..errors import CorruptBatch, UnreadableBatch
from ..files import Disk, File, FileRange
from .damage import MISPLACED
from .names import LOG_SUFFIX
from .segment import Segment
from .transaction_index import AbortedTransaction

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


_FIRST_OFFSET = attrgetter("first_offset")


class AbortedLookup:
    """Remembers which of a log's segments have aborted transactions. The log replaces its segments as a whole."""

    __slots__ = ("_segments", "_with_entries")

    def __init__(self) -> None:
        # The segments that have aborted transactions, and all segments that they were picked from.
        self._segments: Sequence[Segment] | None = None
        self._with_entries: tuple[Segment, ...] = ()

    def forget(self) -> None:
        """Pick again at the next look-up: a segment may have got its first entry."""
        self._segments = None

    def reaching_into(
        self,
        segments: Sequence[Segment],
        end_offset: int,
        offset: int,
        fetched: FileRange,
        up_to: int,
        *,
        cached: bool = False,
    ) -> list[AbortedTransaction]:
        """Return the transactions in `fetched`, which was read for `offset` and ends below `up_to`, by first offset.

        The list may hold some that begin a little behind `fetched`. `end_offset` is the log end offset. `cached`: raise
        NotCached rather than wait for the disk. Raises DamagedFile, DiskError.
        """
        if self._segments is not segments:
            self._segments = segments
            self._with_entries = tuple(segment for segment in segments if len(segment.aborted))
        found: list[AbortedTransaction] = []
        if not self._with_entries or not fetched.size:
            return found
        end = _end_of(segments, end_offset, offset, fetched, up_to, cached)
        for segment in self._with_entries[slot_of(self._with_entries, offset) :]:
            entries, is_all = segment.aborted.collect(offset, end, cached=cached)
            found += entries
            if is_all:
                break
        found.sort(key=_FIRST_OFFSET)
        return found


def _end_of(
    segments: Sequence[Segment], end_offset: int, offset: int, fetched: FileRange, up_to: int, cached: bool
) -> int:
    """Return an offset at or behind the last one in `fetched`, at most `up_to`."""
    for slot in range(slot_of(segments, offset), len(segments)):
        if segments[slot].path(LOG_SUFFIX) == fetched.file.path:
            following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
            position = fetched.position + fetched.size
            return min(up_to, segments[slot].upper_bound(position, following, cached=cached))
    return up_to


# (timestamp, offset, leader epoch)
Found = tuple[int, int, int]
NOTHING = (-1, -1)


def find_time(
    segments: Sequence[Segment], start_offset: int, timestamp_ms: int, up_to: int, most_bytes: int
) -> Found | None:
    """Return the first record in [start_offset, up_to) whose timestamp is not earlier, None if there is none.

    Raises CorruptBatch, DiskError, RecordTooLarge for a compressed record of more than `most_bytes`.
    """
    for segment in segments[slot_of(segments, start_offset) :]:
        if segment.base_offset >= up_to:
            return None
        if segment.max_timestamp[0] >= timestamp_ms:
            found = _find_time_in(segment, timestamp_ms, start_offset, up_to, most_bytes)
            if found is not None:
                return found
    return None


def find_latest(segments: Iterable[Segment], start_offset: int, up_to: int, most_bytes: int) -> tuple[int, int]:
    """Return (timestamp, offset) of the first record with the largest timestamp in [start_offset, up_to) (KIP-734).

    NOTHING where no record there has a timestamp. Raises as `find_time`.
    """
    latest = NOTHING
    for segment in sorted(segments, key=lambda each: each.max_timestamp[0], reverse=True):
        if segment.max_timestamp[0] <= latest[0]:
            break
        found = _find_latest_in(segment, start_offset, up_to, most_bytes)
        latest = found if found[0] > latest[0] else latest
    return latest


def latest_starts(segments: Sequence[Segment], start_offset: int, count: int) -> list[int]:
    """Return the first offsets of the segments, newest first, at most `count` (ListOffsets 0)."""
    return [max(each.base_offset, start_offset) for each in segments[::-1][:count]]


# -- One segment -----------------------------------------------------------------------------------


def _find_time_in(segment: Segment, timestamp_ms: int, start_offset: int, up_to: int, most_bytes: int) -> Found | None:
    from_offset = max(segment.first_offset_for(timestamp_ms), start_offset)
    for position, header in segment.sound_headers(segment.walk_start(from_offset)):
        if header.base_offset >= up_to:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        found = _first_record(segment, position, header, timestamp_ms, start_offset, most_bytes)
        if found is not None:
            return found if found[1] < up_to else None
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int, most_bytes: int
) -> Found | None:
    """Return the first record of a batch that is neither earlier than the timestamp nor below the offset."""
    try:
        data = segment.read_batch(position, header)
        for record in iter_records(data, 0, header, most_record_bytes=most_bytes):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.timestamp_ms, record.offset, header.partition_leader_epoch
    except RecordTooLarge:
        raise
    except RecordError as error:
        raise CorruptBatch(segment.file.path, position, str(error)) from error
    except UnreadableBatch as error:
        raise segment.mark(position, error.why, position + header.size_bytes).error() from error
    return None


def _find_latest_in(segment: Segment, start_offset: int, up_to: int, most_bytes: int) -> tuple[int, int]:
    found = _find_time_in(segment, segment.max_timestamp[0], start_offset, up_to, most_bytes)
    if found is None and (timestamp_ms := _largest_timestamp_from(segment, start_offset)) >= 0:
        found = _find_time_in(segment, timestamp_ms, start_offset, up_to, most_bytes)
    return NOTHING if found is None else found[:2]


def _largest_timestamp_from(segment: Segment, start_offset: int) -> int:
    """Return the largest timestamp of the records from `start_offset` on, -1 if none has one."""
    largest = -1
    for position, header in segment.sound_headers_from(start_offset):
        if not header.record_count or header.max_timestamp <= largest:
            continue
        if header.base_offset >= start_offset:
            largest = header.max_timestamp
        else:
            largest = _largest_timestamp_in_batch(segment, position, start_offset)
    return largest


def _largest_timestamp_in_batch(segment: Segment, position: int, start_offset: int) -> int:
    """Return the same of the batch at `position`, which holds `start_offset`."""
    for _, header, batch in segment.batches(position):
        try:
            timestamps = [each.timestamp_ms for each in iter_records(batch, 0, header) if each.offset >= start_offset]
        except RecordError as error:
            raise CorruptBatch(segment.path(LOG_SUFFIX), position, str(error)) from error
        return max(timestamps, default=-1)
    return -1
