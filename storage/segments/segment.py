"""One segment of a log: appends, durability, the end after a start, copies for other threads, and removal.

Look-ups are in indexed_segment.py.

Promise: after an append that raises, the file ends with the last whole batch, or the segment says that it is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ...protocol.records.batch import LOG_OVERHEAD, BatchHeader
from ..config import LogConfig
from ..errors import CorruptBatch, StorageError, TornWrite
from ..files import DISK, Buffer, Disk
from . import walk
from .damage import CHANGED
from .indexed_segment import UNKNOWN, IndexedSegment
from .names import (
    DELETED_FILE_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from .segment_file import NAMES_LOCK, UNSYNCED
from .staged_batch import StagedBatch
from .transaction_index import TransactionIndex
from .walk import MAX_INT32

# The numbers in the names of files of retired segments. Those of an earlier process are gone: a start removes them.
_RETIREMENTS = count(1)


class SoundEnd(NamedTuple):
    """A position in a segment's log file, and the offset there."""

    position: int
    offset: int


class Segment(IndexedSegment):
    """The files of one segment. Only the newest segment of a log is appended to."""

    __slots__ = ()

    @classmethod
    def create(cls, directory: Path, base_offset: int, now_ms: int, disk: Disk = DISK, extension: str = "") -> Segment:
        """Make an empty segment in the place of any files of its name that a crash has left."""
        segment = cls(directory, base_offset, 0, now_ms, disk, extension)
        try:
            segment._file = disk.open(segment.path(LOG_SUFFIX), create=True)
            disk.truncate(segment._file, 0)
            segment._synced = UNSYNCED
            segment.reset()
            segment.aborted.clear()
        except StorageError:
            segment.unlink()
            raise
        return segment

    # -- Appending ---------------------------------------------------------------------------------

    def append(
        self, batch: Buffer, header: BatchHeader, index_interval_bytes: int, staged: StagedBatch | None = None
    ) -> None:
        """Write one batch at the end, or take a staged one. On failure cut the file back to the last whole batch."""
        indexes = self._indexes
        assert indexes is not None
        if indexes.is_write_due:
            # Before the batch, so that a failure leaves nothing half done.
            indexes.write()
        self.is_sealed = False  # a roll that failed had sealed it
        position = self.size
        file = self._file or self.file  # without a descriptor for it nothing is written, and nothing to be cut off
        try:
            if staged is None:
                self._disk.write(file, batch, position)
            else:
                self.take(staged, batch)
        except StorageError as error:
            self._synced = UNSYNCED
            try:
                self._disk.truncate(self.file, position)
            except StorageError as second:
                raise TornWrite(self.path(LOG_SUFFIX), position, second) from error
            raise
        self.size = position + len(batch)
        self.note(header, position, index_interval_bytes)

    def takes(self, header: BatchHeader, now_ms: int, config: LogConfig, closing_age_ms: int) -> bool:
        """Return whether the batch fits by size, offset and indexes, and the segment has not reached its closing age.

        The age is the time from the first batch's timestamp to this one's; without timestamps, the time since the
        segment was opened.
        """
        indexes, size, first_ms = self._indexes, self.size, self._first_timestamp
        assert indexes is not None
        if size and first_ms is None:
            first_ms = self._read_first_timestamp()
        age_ms = now_ms - self.created_ms
        if first_ms is not None and first_ms >= 0:
            age_ms = header.max_timestamp - first_ms
        return (
            size + header.batch_length + LOG_OVERHEAD <= config.segment_bytes
            and header.base_offset + header.last_offset_delta - self.base_offset <= MAX_INT32
            and indexes.needed_bytes <= config.segment_index_bytes
            and (age_ms <= closing_age_ms or not size)
        )

    # -- Durability --------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether sync() has something to do."""
        # Indexes that were never opened were not written to.
        has_dirty_index = (self._indexes is not None and self._indexes.is_dirty) or self.aborted.is_dirty
        return self._synced < self.size or (self.is_sealed and has_dirty_index)

    def sync(self) -> None:
        """Force the log file to disk and, where the segment is sealed, the indexes.

        The indexes of an active segment need no fsync: a start after a crash builds them again.
        """
        size = self.size
        if self.is_retired:
            # Nobody needs the file to last, and it may be gone already.
            self._synced = size
            return
        self._disk.fsync(self.file)
        self._synced = size
        if self.is_sealed:
            self.open_indexes().sync()
            self.aborted.sync()

    # -- The end after a start ----------------------------------------------------------------------

    def rest(self, next_offset: int, max_timestamp: tuple[int, int]) -> None:
        """Take the end of the segment as a clean stop knows it, without opening a file. Look-ups open what they need.

        `max_timestamp` is what the property returned then.
        """
        self.next_offset = next_offset
        self._max_timestamp, self._max_offset = max_timestamp
        self.is_resting = self.is_sealed = True

    def resume(self, index_interval_bytes: int) -> None:
        """Prepare a resting segment for appends, as `scan_tail` does. Where this raises, the segment rests on.

        Raises CorruptBatch where the end is not as the stop knew it.
        """
        known = self.next_offset, (self._max_timestamp, self._max_offset)
        try:
            self.scan_tail(index_interval_bytes)
            if (self.next_offset, self.max_timestamp) != known or not self.is_last_batch_sound:
                raise CorruptBatch(self.path(LOG_SUFFIX), self._last[0] if self._last else 0, CHANGED)
        except StorageError:
            self._last = None
            self.rest(*known)
            raise

    def scan_tail(self, index_interval_bytes: int) -> None:
        """Find the end by a walk from the last index entry, so that appends can follow. Raises CorruptBatch."""
        indexes = self.open_indexes()
        if not self._is_time_of(indexes.times.last_entry()):
            indexes = self._rebuild_indexes()
        self._max_timestamp, self._max_offset = indexes.times.last_entry()
        self._last = None
        self.is_sealed = self.is_resting = False
        self.next_offset = self.base_offset
        indexes.resume()
        for position, header in self.headers(indexes.entry_position):
            walk.check_offsets(self.path(LOG_SUFFIX), position, header, self.next_offset, self.base_offset)
            self.note(header, position, index_interval_bytes)

    def read_cut(self, offset: int) -> None:
        """Read what `truncate_to` and `scan_tail` read for this offset. For a copy, in a thread. Raises DiskError."""
        cut = self._find_cut(offset)
        end = SoundEnd(self.size, self.next_offset) if cut is None else cut
        indexes = self.open_indexes()
        self._is_time_of(indexes.times.last_entry() if cut is None else indexes.times.entry_below(end.offset))
        start = indexes.offsets.last_entry() if cut is None else indexes.offsets.lookup(end.offset - 1)
        for position, _ in self.sound_headers(self._start_of(start)):
            if position >= end.position:
                break
        self.aborted.first_ending_at(offset)

    def truncate_to(self, offset: int, index_interval_bytes: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        cut = self._find_cut(offset)
        if cut is not None:
            self.open_indexes().truncate_to(cut.offset)
            self.truncate(cut.position)
        if self.size == 0:
            self._first_timestamp = None
        self.aborted.truncate_to(offset)
        self.scan_tail(index_interval_bytes)

    def _find_cut(self, offset: int) -> SoundEnd | None:
        """Return where the batches begin that hold `offset` or later ones; None where there are none.

        Damage that may hold `offset` goes with them.
        """
        try:
            found = self.find(offset)
        except CorruptBatch:
            return self._end_before(lambda _, header: header.last_offset >= offset)
        return None if found is None else SoundEnd(found[0], found[1].base_offset)

    def offset_at(self, position: int) -> int:
        """Return the offset behind the last sound batch before `position`. It reads every header up to there."""
        return self._end_before(lambda start, _: start >= position).offset

    def _end_before(self, is_behind: Callable[[int, BatchHeader], bool]) -> SoundEnd:
        end = SoundEnd(0, self.base_offset)
        for position, header in self.sound_headers():
            if is_behind(position, header):
                break
            end = SoundEnd(position + header.size_bytes, header.next_offset)
        return end

    # -- Copies for other threads ------------------------------------------------------------------

    def twin(self) -> Segment:
        """Return a copy for look-ups in another thread. It does not see later appends."""
        twin = Segment(self.directory, self.base_offset, self.size, self.created_ms, self._disk)
        # Of a segment that has retired the copy knows its own names: they are nobody else's.
        twin._origin, twin._affixes = self, self._affixes
        twin.cuts = self.cuts
        twin.next_offset, twin._last, twin.is_sealed = self.next_offset, self._last, self.is_sealed
        twin.is_resting = self.is_resting
        twin._max_timestamp, twin._max_offset = self._max_timestamp, self._max_offset
        twin._first_timestamp, twin._file, twin.damages = self._first_timestamp, self._file, self.damages
        twin.aborted = TransactionIndex(twin.path(TRANSACTION_INDEX_SUFFIX), self.aborted.size_bytes, self._disk)
        twin.aborted.check_name = partial(self.check_names, twin._affixes)
        indexes = self._indexes
        if indexes is not None:
            twin._indexes = indexes.twin()
            twin._note_names(twin._indexes)
        return twin

    def learn(self, twin: Segment) -> bool:
        """Take over what a copy has found out. Return whether that opened files which were closed.

        A copy from before a cut has found what may not be there any more.
        """
        if self.is_retired or self.cuts != twin.cuts:
            return False
        for damage in twin.damages:
            self.mark(damage.position, damage.why, damage.end)
        if self._max_timestamp == UNKNOWN:
            self._max_timestamp, self._max_offset = twin._max_timestamp, twin._max_offset
        if twin.aborted.damage is not None and not twin.aborted.is_held:
            self.aborted = twin.aborted
            self.aborted.check_name = None
        has_opened = self._file is None and twin._file is not None
        self._file = self._file or twin._file
        if self._indexes is None or twin.has_new_indexes:
            self._indexes = twin._indexes
            if self._indexes is not None:
                self._note_names(self._indexes)
        elif twin._indexes is not None:
            self._indexes.learn(twin._indexes)
        return has_opened

    # -- Removal -----------------------------------------------------------------------------------

    def release(self) -> None:
        """Close the files; the next use opens them again. Ranges that were handed out keep the log file open."""
        self._file = None
        if self._indexes is not None:
            self._indexes.release()

    def retire(self) -> None:
        """Take the segment out of the log: rename its files to `.deleted`, with a number that nobody else has.

        Readers that hold it read on: the next segment of this base offset takes only the names that it had. The caller
        removes it later with `unlink`; after a crash the next start does.
        """
        retired = f".{next(_RETIREMENTS)}", DELETED_FILE_SUFFIX
        with NAMES_LOCK:
            self._rename(retired)

    def restore(self) -> None:
        """Undo retire(), also one that has stopped half-way. Nothing else may have the names of the files by now.

        Raises DiskError.
        """
        if self.is_retired:
            with NAMES_LOCK:
                self._rename(("", ""))

    def _rename(self, affixes: tuple[str, str]) -> None:
        """Give the files other names, the log first. An index may be missing; one that has its name already stays."""
        before = [(suffix, self.path(suffix)) for suffix in SEGMENT_SUFFIXES]
        for suffix, path in before:
            if suffix == LOG_SUFFIX or self._disk.exists(path):
                self._disk.rename(path, segment_path(self.directory, self.base_offset, suffix.join(affixes)))
            # From the first on, so that another try knows where the files are.
            self._affixes = affixes
        self.aborted.path = self.path(TRANSACTION_INDEX_SUFFIX)
        if self._indexes is not None:
            self._note_names(self._indexes)

    def unlink(self) -> None:
        """Remove the files, the log first: a crash can leave only an index without a log, which a start removes."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._disk.unlink(self.path(suffix))
