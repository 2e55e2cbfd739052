"""Finding the aborted transactions that reach into a read, over the segments of a log.

Only segments with a transaction index are searched, from the segment where the read begins up to the first whose
entries say that no later one can matter. In a log without aborts the look-up costs one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from ..files import FileRange
from .location import slot_of
from .names import LOG_SUFFIX
from .segment import Segment
from .transaction_index import AbortedTransaction

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
