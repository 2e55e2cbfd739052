"""The offset index and the time index of one segment, which get their entries together.

Kafka's rule: the batch that begins more than index.interval.bytes after the batch of the last entry gets an entry in
the offset index. The time index then gets one for the largest timestamp so far.
"""

from __future__ import annotations

from pathlib import Path

from ..files import DISK, Disk
from .offset_index import OffsetIndex
from .time_index import TimeIndex


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
        return cls(
            OffsetIndex.create(offset_path, base_offset, disk),
            TimeIndex.create(time_path, base_offset, disk),
        )

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

    def rename(self, offset_path: Path, time_path: Path) -> None:
        """Note the names that the files have now."""
        self.offsets.path, self.times.path = offset_path, time_path

    def twin(self) -> SegmentIndexes:
        """Return copies for the look-ups of another thread."""
        return SegmentIndexes(self.offsets.twin(), self.times.twin())

    def learn(self, twin: SegmentIndexes) -> None:
        """Take over what copies have opened and read."""
        self.offsets.learn(twin.offsets)
        self.times.learn(twin.times)
