"""The offset index and the time index of one segment, which get their entries together.

Kafka's rule: the batch that begins more than index.interval.bytes after the batch of the last entry gets an entry in
the offset index. The time index then gets one for the largest timestamp so far.

The offset index, `.index`, leads from an offset to a position in the segment's log file.

    entry = offset - base offset int32 | position int32            8 bytes, big-endian, both ascending

The offset is the last one of the batch at `position`. A look-up returns the greatest entry at or below the offset, and
the read starts there.

The time index, `.timeindex`, leads from a timestamp to an offset of the segment.

    entry = timestamp int64 (ms) | offset - base offset int32       12 bytes, big-endian, timestamps strictly ascending

An entry (t, o) says: up to the batch that ends with offset o, no record is later than t. A roll or close appends the
largest timestamp of the segment. So the last entry of a closed segment tells whether a search must read the segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from struct import Struct

from ..errors import DamagedFile
from ..files import DISK, Disk
from .sparse_index import SparseIndex


class SegmentIndexes:
    """Both indexes of one segment. `offset_path` and `time_path` name their files."""

    __slots__ = ("entry_position", "is_write_due", "needed_bytes", "offsets", "times")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets = offsets
        self.times = times
        # Where the batch of the last entry begins. Known while the segment is appended to.
        self.entry_position = 0
        # How large segment.index.bytes must be for one more entry.
        self.needed_bytes = max(offsets.room_for_one_more(), times.room_for_one_more())
        # Whether enough entries wait in memory to be written.
        self.is_write_due = False

    @classmethod
    def create(cls, offset_path: Path, time_path: Path, base_offset: int, disk: Disk = DISK) -> SegmentIndexes:
        """Make both files, empty."""
        return cls(OffsetIndex.create(offset_path, base_offset, disk), TimeIndex.create(time_path, base_offset, disk))

    @classmethod
    def load(
        cls, offset_path: Path, time_path: Path, base_offset: int, log_size: int, disk: Disk = DISK
    ) -> SegmentIndexes:
        """Open both files. Raises DamagedFile where one does not fit a log of `log_size` bytes, DiskError."""
        return cls(
            OffsetIndex.load(offset_path, base_offset, log_size, disk),
            TimeIndex.load(time_path, base_offset, log_size, disk),
        )

    @property
    def is_dirty(self) -> bool:
        """Whether sync() has something to do."""
        return self.offsets.is_dirty or self.times.is_dirty

    def resume(self) -> None:
        """Prepare for more entries behind those that are there."""
        self.needed_bytes = max(self.offsets.room_for_one_more(), self.times.room_for_one_more())
        self.entry_position = self.offsets.last_entry()[1]

    def add(self, position: int, last_offset: int, max_timestamp_ms: int, max_offset: int) -> None:
        """Add an entry for the batch at `position`, which ends with `last_offset`."""
        self.entry_position = position
        self.offsets.append(last_offset, position)
        self.times.maybe_append(max_timestamp_ms, max_offset)
        self.is_write_due = self.offsets.wants_write or self.times.wants_write
        self.needed_bytes = max(self.offsets.room_for_one_more(), self.times.room_for_one_more())

    def write(self) -> None:
        """Bring both files up to date."""
        self.times.write()
        self.offsets.write()
        self.is_write_due = False

    def sync(self) -> None:
        """Make durable what was written."""
        self.offsets.sync()
        self.times.sync()

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)

    def release(self) -> None:
        """Close the files; the next look-up opens them again."""
        self.offsets.release()
        self.times.release()

    def rename(self, offset_path: Path, time_path: Path, check_name: Callable[[], None] | None = None) -> None:
        """Note the names that the files have now. `check_name`: as in SparseIndex."""
        self.offsets.path, self.times.path = offset_path, time_path
        self.offsets.check_name = self.times.check_name = check_name

    def twin(self) -> SegmentIndexes:
        """Return copies for the look-ups of another thread."""
        return SegmentIndexes(self.offsets.twin(), self.times.twin())

    def learn(self, twin: SegmentIndexes) -> None:
        """Take over what copies have opened and read."""
        self.offsets.learn(twin.offsets)
        self.times.learn(twin.times)


# Behind damage, so many entries are enough to tell where batches begin again.
_STARTS = 64


def starts_behind(data: bytes, position: int) -> frozenset[int]:
    """Return the positions of the next entries behind `position`, of an index file that holds `data`."""
    unpack_from, size = OffsetIndex.ENTRY.unpack_from, OffsetIndex.ENTRY.size
    count = len(data) // size
    first = bisect_right(range(count), position, key=lambda slot: unpack_from(data, slot * size)[1])
    return frozenset(unpack_from(data, slot * size)[1] for slot in range(first, min(first + _STARTS, count)))


class OffsetIndex(SparseIndex):
    """Sparse map from offset to position. A look-up that finds no entry returns (base offset, 0)."""

    ENTRY = Struct(">ii")

    __slots__ = ()

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(self._floor(offset - 1 - self._key_base) + 1)

    def _check(self, log_size: int) -> None:
        if not len(self):
            return
        first, last = self._entry(0), self._entry(len(self) - 1)
        if last[0] < 0 or last[1] < 0 or last[1] >= log_size or first[0] > last[0] or first[1] > last[1]:
            raise DamagedFile(
                self.path, (len(self) - 1) * 8, f"last entry {last} does not fit a log of {log_size} bytes"
            )


# The timestamp of a segment in which no record has one (converted from magic 0), or of an empty segment.
NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    """Sparse map from timestamp to offset. A look-up that finds no entry returns (-1, base offset)."""

    ENTRY = Struct(">qi")
    LOWEST_KEY = NO_TIMESTAMP
    # A roll appends one, too.
    ENTRIES_TO_COME = 2

    __slots__ = ()

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Note the largest timestamp so far and the last offset of its batch, unless the last entry has it."""
        if timestamp_ms > self.last_entry()[0]:
            self.append(timestamp_ms, offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or above `offset`; offsets ascend with the timestamps."""
        self._keep(self._first_from(offset))

    def _check(self, log_size: int) -> None:
        if not len(self):
            if log_size:
                raise DamagedFile(self.path, 0, f"empty, beside a log of {log_size} bytes")
            return
        first, last = self._entry(0), self._entry(len(self) - 1)
        if last[1] < 0 or last[0] < 0 or first[0] > last[0] or first[1] > last[1] or log_size == 0:
            raise DamagedFile(self.path, (len(self) - 1) * 12, f"last entry {last} does not follow the first, {first}")
