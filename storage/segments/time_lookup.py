"""The record with the largest timestamp, as ListOffsets -3 asks for it (KIP-734).

A segment knows the largest timestamp that its batches tell, but the record that had it may be gone: cleaned away, with
its batch left empty, or below the log start offset. Then the headers of the segment are read for the next largest.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.records.batch import iter_records
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch
from .segment import LOG_SUFFIX, Segment

NOTHING = (-1, -1)


def latest(segments: Iterable[Segment], from_offset: int, up_to: int) -> tuple[int, int]:
    """Return (timestamp, offset) of the first record with the largest timestamp in [from_offset, up_to).

    NOTHING where no record there has one. Raises CorruptBatch, DiskError.
    """
    best = NOTHING
    for segment in sorted(segments, key=lambda each: each.max_timestamp[0], reverse=True):
        if segment.max_timestamp[0] <= best[0]:
            break
        found = _latest_of(segment, from_offset, up_to)
        best = found if found[0] > best[0] else best
    return best


def _latest_of(segment: Segment, from_offset: int, up_to: int) -> tuple[int, int]:
    found = segment.find_time(segment.max_timestamp[0], from_offset, up_to)
    if found is None and (timestamp_ms := _largest_left(segment, from_offset)) >= 0:
        found = segment.find_time(timestamp_ms, from_offset, up_to)
    return NOTHING if found is None else found[:2]


def _largest_left(segment: Segment, from_offset: int) -> int:
    """The largest timestamp that a record from `from_offset` on still has, -1 if there is none."""
    largest = -1
    for position, header in segment.sound_headers(from_offset):
        if not header.record_count or header.max_timestamp <= largest:
            continue
        if header.base_offset >= from_offset:
            largest = header.max_timestamp
        else:
            largest = _largest_in_batch(segment, position, from_offset)
    return largest


def _largest_in_batch(segment: Segment, position: int, from_offset: int) -> int:
    """As above, of the batch that holds `from_offset`."""
    for _, header, batch in segment.batches(position):
        try:
            timestamps = [each.timestamp_ms for each in iter_records(batch, 0, header) if each.offset >= from_offset]
        except RecordError as error:
            raise CorruptBatch(segment.path(LOG_SUFFIX), position, str(error)) from error
        return max(timestamps, default=-1)
    return -1
