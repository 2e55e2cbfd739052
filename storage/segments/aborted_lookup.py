"""The aborted transactions that reach into a read, looked up over the segments of a log.

A log in which nothing was aborted costs a look at a tuple. In any other only the segments that have an index of aborted
transactions (aborted.py) are asked, from the one where the read begins up to the first whose entries say that nothing
that follows can matter.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from ..files import FileRange
from .segment import LOG_SUFFIX, Segment
from .transaction_index import AbortedTransaction

_BASE_OFFSET = attrgetter("base_offset")
_FIRST_OFFSET = attrgetter("first_offset")


class AbortedLookup:
    """See the module's text. The log hands in its segments, which it replaces as a whole."""

    __slots__ = ("_of", "_with_entries")

    def __init__(self) -> None:
        # The segments that have aborted transactions, and the tuple of all that they were picked from.
        self._of: tuple[Segment, ...] | None = None
        self._with_entries: tuple[Segment, ...] = ()

    def forget(self) -> None:
        """A segment may have got its first entry."""
        self._of = None

    def reaching_into(
        self,
        segments: tuple[Segment, ...],
        end_offset: int,
        offset: int,
        fetched: FileRange,
        up_to: int,
        *,
        cached: bool = False,
    ) -> list[AbortedTransaction]:
        """Return those of `fetched`, which was read for `offset` and does not reach `up_to`, by first offset.

        There may be some that begin a little behind it. `end_offset` is the log's. `cached`: NotCached rather than a
        wait for the disk. Raises DamagedFile, DiskError.
        """
        if self._of is not segments:
            self._of = segments
            self._with_entries = tuple(segment for segment in segments if len(segment.aborted))
        found: list[AbortedTransaction] = []
        if not self._with_entries or not fetched.size:
            return found
        end = _end_of(segments, end_offset, offset, fetched, up_to, cached)
        for segment in self._with_entries[_slot(self._with_entries, offset) :]:
            entries, is_all = segment.aborted.collect(offset, end, cached=cached)
            found += entries
            if is_all:
                break
        found.sort(key=_FIRST_OFFSET)
        return found


def _end_of(
    segments: tuple[Segment, ...], end_offset: int, offset: int, fetched: FileRange, up_to: int, cached: bool
) -> int:
    """Return an offset at or behind the last one in `fetched`; at most `up_to`."""
    for slot in range(_slot(segments, offset), len(segments)):
        if segments[slot].path(LOG_SUFFIX) == fetched.file.path:
            following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
            position = fetched.position + fetched.size
            return min(up_to, segments[slot].upper_bound(position, following, cached=cached))
    return up_to


def _slot(segments: tuple[Segment, ...], offset: int) -> int:
    return max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)
