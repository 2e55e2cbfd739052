"""Finding records by time in the segments of a log, as ListOffsets asks for them.

A segment knows the largest timestamp that its batches tell. The record that had it may be gone: cleaned away, with its
batch left empty, or below the log start offset. Then the headers of the segment are read for the next largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...protocol.records.batch import BatchHeader, iter_records
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch, UnreadableBatch
from .location import slot_of
from .names import LOG_SUFFIX
from .segment import Segment

# (timestamp, offset, leader epoch)
Found = tuple[int, int, int]
NOTHING = (-1, -1)


def find_time(segments: Sequence[Segment], start_offset: int, timestamp_ms: int, up_to: int) -> Found | None:
    """Return the first record in [start_offset, up_to) whose timestamp is not earlier, None if there is none.

    Raises CorruptBatch, DiskError.
    """
    for segment in segments[slot_of(segments, start_offset) :]:
        if segment.base_offset >= up_to:
            return None
        if segment.max_timestamp[0] >= timestamp_ms:
            found = _find_time_in(segment, timestamp_ms, start_offset, up_to)
            if found is not None:
                return found
    return None


def find_latest(segments: Iterable[Segment], start_offset: int, up_to: int) -> tuple[int, int]:
    """Return (timestamp, offset) of the first record with the largest timestamp in [start_offset, up_to) (KIP-734).

    NOTHING where no record there has a timestamp. Raises CorruptBatch, DiskError.
    """
    latest = NOTHING
    for segment in sorted(segments, key=lambda each: each.max_timestamp[0], reverse=True):
        if segment.max_timestamp[0] <= latest[0]:
            break
        found = _find_latest_in(segment, start_offset, up_to)
        latest = found if found[0] > latest[0] else latest
    return latest


def latest_starts(segments: Sequence[Segment], start_offset: int, count: int) -> list[int]:
    """Return the first offsets of the segments, newest first, at most `count` (ListOffsets 0)."""
    return [max(each.base_offset, start_offset) for each in segments[::-1][:count]]


# -- One segment -----------------------------------------------------------------------------------


def _find_time_in(segment: Segment, timestamp_ms: int, start_offset: int, up_to: int) -> Found | None:
    from_offset = max(segment.first_offset_for(timestamp_ms), start_offset)
    for position, header in segment.sound_headers(segment.walk_start(from_offset)):
        if header.base_offset >= up_to:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        found = _first_record(segment, position, header, timestamp_ms, start_offset)
        if found is not None:
            return found if found[1] < up_to else None
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> Found | None:
    """Return the first record of a batch that is neither earlier than the timestamp nor below the offset."""
    try:
        data = segment.read_batch(position, header)
        for record in iter_records(data, 0, header):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.timestamp_ms, record.offset, header.partition_leader_epoch
    except RecordError as error:
        raise CorruptBatch(segment.file.path, position, str(error)) from error
    except UnreadableBatch as error:
        raise segment.mark(position, error.why, position + header.size_bytes).error() from error
    return None


def _find_latest_in(segment: Segment, start_offset: int, up_to: int) -> tuple[int, int]:
    found = _find_time_in(segment, segment.max_timestamp[0], start_offset, up_to)
    if found is None and (timestamp_ms := _largest_timestamp_from(segment, start_offset)) >= 0:
        found = _find_time_in(segment, timestamp_ms, start_offset, up_to)
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
