"""The offset index, `.index`: from an offset to a position in the segment's log file.

    entry = offset - base offset int32 | position int32            8 bytes, big-endian, both ascending

The offset is the last one of the batch at `position`. A look-up returns the greatest entry at or below the offset, and
the read starts there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct

from ..errors import DamagedFile
from .sparse_index import SparseIndex

# Behind damage, so many entries are enough to tell where batches begin again.
_STARTS = 64


def starts_behind(data: bytes, position: int) -> frozenset[int]:
    """Return the positions of the next entries behind `position`, of an index file that holds `data`."""
    unpack_from, size = OffsetIndex.ENTRY.unpack_from, OffsetIndex.ENTRY.size
    count = len(data) // size
    first = bisect_right(range(count), position, key=lambda slot: unpack_from(data, slot * size)[1])
    return frozenset(unpack_from(data, slot * size)[1] for slot in range(first, min(first + _STARTS, count)))


class OffsetIndex(SparseIndex):
    """Sparse map from offset to position."""

    ENTRY = Struct(">ii")

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at `position` ends with `offset`. The caller appends in ascending order."""
        self._add(offset - self.base_offset, position)

    def lookup(self, offset: int, *, cached: bool = False) -> tuple[int, int]:
        """Return (offset, position) of the last entry at or below `offset`, or the segment's start.

        `cached`: raise NotCached rather than wait for the disk.
        """
        slot = self._floor(offset - self.base_offset, cached=cached)
        return self.entry(slot) if slot >= 0 else (self.base_offset, 0)

    def entry(self, slot: int, *, cached: bool = False) -> tuple[int, int]:
        """Return (offset, position) of entry number `slot`. `cached`: raise NotCached rather than wait for the disk."""
        relative, position = self._entry(slot, cached=cached)
        return self.base_offset + relative, position

    def first_entry_at(self, position: int, *, cached: bool = False) -> tuple[int, int] | None:
        """Return (offset, position) of the first entry at or behind `position`, None if there is none.

        `cached`: raise NotCached rather than wait for the disk.
        """
        slot = bisect_left(range(len(self)), position, key=lambda each: self.entry(each, cached=cached)[1])
        return self.entry(slot, cached=cached) if slot < len(self) else None

    def entry_before(self, position: int) -> tuple[int, int]:
        """Return (offset, position) of the last entry at or before `position`, or the segment's start."""
        slot = bisect_right(range(len(self)), position, key=lambda each: self.entry(each)[1])
        return self.entry(slot - 1) if slot else (self.base_offset, 0)

    def last_entry(self) -> tuple[int, int]:
        """Return (offset, position) of the last entry, or the segment's start."""
        last = self._last_entry()
        return (self.base_offset + last[0], last[1]) if last is not None else (self.base_offset, 0)

    def room_for_one_more(self) -> int:
        """Return what segment.index.bytes must be at least for another entry."""
        return (len(self) + 1) * self.ENTRY.size

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(self._floor(offset - 1 - self.base_offset) + 1)

    def _check(self, log_size: int) -> None:
        if not len(self):
            return
        first, last = self._entry(0), self._entry(len(self) - 1)
        if last[0] < 0 or last[1] < 0 or last[1] >= log_size or first[0] > last[0] or first[1] > last[1]:
            raise DamagedFile(
                self.path, (len(self) - 1) * 8, f"last entry {last} does not fit a log of {log_size} bytes"
            )
