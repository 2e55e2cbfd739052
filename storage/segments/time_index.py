"""The time index, `.timeindex`: from a timestamp to an offset of the segment.

    entry = timestamp int64 (ms) | offset - base offset int32       12 bytes, big-endian, timestamps strictly ascending

An entry (t, o) says: up to the batch that ends with offset o, no record is later than t. A roll or close appends the
largest timestamp of the segment. So the last entry of a closed segment tells whether a search must read the segment.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct

from ..errors import DamagedFile
from .sparse_index import SparseIndex

# The timestamp of a segment in which no record has one (converted from magic 0), or of an empty segment.
NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    """Sparse map from timestamp to offset."""

    ENTRY = Struct(">qi")

    __slots__ = ()

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Note the largest timestamp so far and the last offset of its batch, unless the last entry has it."""
        if timestamp_ms > self.last_entry()[0]:
            self._add(timestamp_ms, offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """Return (timestamp, offset) of the last entry at or below `timestamp_ms`, or (-1, base offset)."""
        slot = self._floor(timestamp_ms)
        return self.entry(slot) if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        """Return (timestamp, offset) of entry number `slot`."""
        timestamp_ms, relative = self._entry(slot)
        return timestamp_ms, self.base_offset + relative

    def last_entry(self) -> tuple[int, int]:
        """Return (timestamp, offset) of the last entry, or (-1, base offset)."""
        last = self._last_entry()
        return (last[0], self.base_offset + last[1]) if last is not None else (NO_TIMESTAMP, self.base_offset)

    def room_for_one_more(self) -> int:
        """Return what segment.index.bytes must be at least for another entry and the one that a roll appends."""
        return (len(self) + 2) * self.ENTRY.size

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or above `offset`; offsets ascend with the timestamps."""
        self._keep(bisect_left(range(len(self)), offset, key=lambda slot: self.entry(slot)[1]))

    def _check(self, log_size: int) -> None:
        if not len(self):
            if log_size:
                raise DamagedFile(self.path, 0, f"empty, beside a log of {log_size} bytes")
            return
        first, last = self._entry(0), self._entry(len(self) - 1)
        if last[1] < 0 or last[0] < 0 or first[0] > last[0] or first[1] > last[1] or log_size == 0:
            raise DamagedFile(self.path, (len(self) - 1) * 12, f"last entry {last} does not follow the first, {first}")
