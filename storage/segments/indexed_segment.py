"""A segment with its offset index, its time index and, after an abort, its transaction index, and the look-ups in it.

`note` turns a batch into index entries, for appends and for rebuilding alike (segment_indexes.py has the rule). A
look-up checks what an index says against the batches. Where an index is damaged the look-up does without it, and notes
that in `damaged_index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ...protocol.records.batch import BatchHeader, check_crc
from ...protocol.records.errors import RecordError
from ..errors import UNREADABLE, CorruptBatch, DamagedFile, StaleView, StorageError, UnreadableBatch
from ..files import DISK, FOLIO_BYTES, Disk, NotCached
from . import walk
from .damage import MISPLACED, Damage
from .names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from .segment_file import NAMES_LOCK, OnDamage, SegmentFile
from .segment_indexes import NO_TIMESTAMP, SegmentIndexes
from .transaction_index import TransactionIndex

# The index interval of indexes that a look-up finds damaged and builds again: Kafka's default, whatever it was before.
REBUILD_INTERVAL_BYTES = 4096
# The CRC of a batch of up to this size is checked on the event loop, in some microseconds.
MAX_CHECKED_BYTES = 64 * 1024
# A largest timestamp that was not looked up yet. No timestamp is below -1.
UNKNOWN = -2


class IndexedSegment(SegmentFile):
    """A segment's batches, found by offset and by time."""

    __slots__ = (
        "_first_timestamp",
        "_indexes",
        "_last",
        "_max_offset",
        "_max_timestamp",
        "aborted",
        "created_ms",
        "damaged_index",
        "has_new_indexes",
        "is_resting",
        "is_sealed",
        "next_offset",
    )

    def __init__(
        self, directory: Path, base_offset: int, size: int, now_ms: int, disk: Disk = DISK, extension: str = ""
    ) -> None:
        super().__init__(directory, base_offset, size, disk, extension)
        self.created_ms = now_ms
        # Known where batches are noted: in the active segment, which `scan_tail` opens.
        self.next_offset = base_offset
        # Whether a start has taken the end of the active segment as known: the first append resumes it.
        self.is_resting = False
        # Position and header of the last batch that was noted.
        self._last: tuple[int, BatchHeader] | None = None
        # Whether the indexes are complete on disk, as those of all segments but the newest are.
        self.is_sealed = False
        # None: not open. Invariant: open where batches are noted.
        self._indexes: SegmentIndexes | None = None
        self._max_timestamp = UNKNOWN
        # The last offset of the batch with the largest timestamp.
        self._max_offset = base_offset
        # The timestamp of the first batch; None: not read yet.
        self._first_timestamp: int | None = None
        self.aborted = TransactionIndex(self.path(TRANSACTION_INDEX_SUFFIX), 0, disk)
        # Damage of an index that a look-up has met. The look-up then does without the index.
        self.damaged_index: DamagedFile | None = None
        self.has_new_indexes = False

    # -- Looking up --------------------------------------------------------------------------------

    @property
    def newest_ms(self) -> int:
        """The time that retention compares: the largest timestamp; without one, when the file was last written."""
        timestamp_ms = self.max_timestamp[0]
        return timestamp_ms if timestamp_ms >= 0 else self._disk.modified_ms(self.path(LOG_SUFFIX))

    @property
    def knows_times(self) -> bool:
        """Whether `max_timestamp` is in memory."""
        return self._max_timestamp != UNKNOWN

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch); (-1, base offset) where no record has a timestamp.

        A closed segment reads it from its time index.
        """
        if self._max_timestamp == UNKNOWN:
            try:
                self._max_timestamp, self._max_offset = self._checked_time(self.open_indexes().times.last_entry())
            except DamagedFile as error:
                self.damaged_index = error
                return self.read_largest_timestamp()
        return self._max_timestamp, self._max_offset

    def find(self, offset: int, *, cached: bool = False) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that reaches `offset`, None if there is none.

        `cached`: raise NotCached rather than wait for the disk. Raises CorruptBatch where damage may have held
        `offset`.
        """
        last = self._last
        if last is not None and offset >= last[1].base_offset:
            return last if offset < self.next_offset else self.find_nothing()
        if cached:
            return self._find_cached(offset)
        entry = self.index_entry(offset)
        if self.damages:
            return self._find_around_damage(offset, self._start_of(entry))
        found = walk.headers(self._disk, self.file, entry[1], self.size, walk.LOOKUP_WINDOW_BYTES)
        try:
            return self._first_reaching(offset, entry, found, self._require_sound)
        except CorruptBatch:
            # The index may be wrong as well.
            return self._find_around_damage(offset, 0)

    def _first_reaching(
        self,
        offset: int,
        entry: tuple[int, int],
        headers: Iterator[tuple[int, BatchHeader]],
        require_sound: Callable[[int, BatchHeader], None],
    ) -> tuple[int, BatchHeader] | None:
        """Return the first batch that reaches `offset`, of `headers` from an index entry on; None if there is none.

        Raises CorruptBatch where the offsets of neighbours, or of the index, contradict each other. Where no batch
        holds `offset`, `require_sound` checks the one before: if its last offset is wrong, it may hold it.
        """
        entry_offset, start = entry
        # An entry names the last offset of the append that begins at its position: one batch, or several where Kafka's
        # cleaner or a follower wrote them together. So a batch must end there. -1: one did, or nothing is known.
        end_offset = entry_offset if start else -1
        due = -1 if start else self.base_offset
        before: tuple[int, BatchHeader] | None = None
        for position, header in headers:
            base_offset = header.base_offset
            last_offset = base_offset + header.last_offset_delta
            if base_offset < due or 0 <= end_offset < last_offset:
                raise CorruptBatch(self.path(LOG_SUFFIX), position, MISPLACED)
            if last_offset == end_offset:
                end_offset = -1
            if last_offset < offset:
                due, before = last_offset + 1, (position, header)
                continue
            if base_offset != due and due >= 0:
                # Offsets are missing before it: they were cleaned away, or its own is wrong.
                following = next(headers, None)
                if following is not None and following[1].base_offset <= last_offset:
                    raise CorruptBatch(self.path(LOG_SUFFIX), position, MISPLACED)
            if before is not None and base_offset > offset:
                require_sound(*before)
            return position, header
        if before is not None:
            require_sound(*before)
        return None

    def _require_sound(self, position: int, header: BatchHeader) -> None:
        """Raise CorruptBatch where the CRC of a batch is wrong; the batch is marked then."""
        fault = self.find_fault(position, header)
        if fault is not None:
            raise self.mark(position, fault).error()

    def _require_sound_cached(self, position: int, header: BatchHeader) -> None:
        """Do so from the page cache. Raises NotCached where a thread must look."""
        assert self._file is not None
        if header.size_bytes > MAX_CHECKED_BYTES:
            raise NotCached
        try:
            check_crc(self._disk.read_cached(self._file, header.size_bytes, position), 0, header)
        except RecordError:
            raise NotCached from None

    def _find_cached(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Find with open files and the page cache alone. Damage is left to callers that may wait."""
        if self._file is None or self._indexes is None or self.damages:
            raise NotCached
        try:
            entry = self._checked(self._indexes.offsets.lookup(offset, cached=True))
            due = -1 if entry[1] else self.base_offset
            found = walk.find_adjoining(self._disk, self._file, entry, self.size, due, offset)
            if found is not None:
                return found
            headers = walk.cached_headers(self._disk, self._file, entry[1], self.size)
            return self._first_reaching(offset, entry, headers, self._require_sound_cached)
        except (CorruptBatch, DamagedFile):
            raise NotCached from None

    def _find_around_damage(self, offset: int, start: int) -> tuple[int, BatchHeader] | None:
        before: tuple[int, BatchHeader] | None = None
        for position, header in self.sound_headers(start):
            if header.last_offset >= offset:
                damage = next((each for each in self.damages if each.end == position), None)
                if header.base_offset > offset:
                    if damage is not None:
                        raise damage.error()
                    if before is not None:
                        self._require_sound(*before)
                return position, header
            before = position, header
        if before is not None and not self.is_damaged_at_end:
            self._require_sound(*before)
        return self.find_nothing()

    def walk_start(self, offset: int) -> int:
        """Return the position where a walk to `offset` begins: the segment's start where the index is damaged."""
        return self._start_of(self.index_entry(offset))

    def _start_of(self, entry: tuple[int, int]) -> int:
        """Return the position of an entry of the offset index, 0 where the batch that it names is not there.

        Otherwise a walk from there would take the middle of a batch for damage.
        """
        if not entry[1] or self.is_batch_of(entry):
            return entry[1]
        why = f"no batch of its entry (offset, position) {entry}"
        self.damaged_index = DamagedFile(self.path(INDEX_SUFFIX), 0, why)
        return 0

    def index_entry(self, offset: int) -> tuple[int, int]:
        """Return what the offset index tells of `offset`: the segment's start where the index is damaged."""
        try:
            return self._checked(self.open_indexes().offsets.lookup(offset))
        except DamagedFile as error:
            self.damaged_index = error
            return self.base_offset, 0

    def _checked(self, entry: tuple[int, int]) -> tuple[int, int]:
        """Return an entry of the offset index. Raises DamagedFile where no batch can be what it says."""
        if entry[0] < self.base_offset or not 0 <= entry[1] < max(self.size, 1):
            raise DamagedFile(self.path(INDEX_SUFFIX), 0, f"an entry (offset, position) {entry} in {self.size} bytes")
        return entry

    def first_offset_for(self, timestamp_ms: int) -> int:
        """Return an offset below which no record has this timestamp or a later one."""
        try:
            return self._checked_time(self.open_indexes().times.lookup(timestamp_ms))[1]
        except DamagedFile as error:
            self.damaged_index = error
            return self.base_offset

    def _checked_time(self, entry: tuple[int, int]) -> tuple[int, int]:
        """Return an entry of the time index. Raises DamagedFile where the batch of its offset has another timestamp.

        One that is wrong would hide records from a look-up by time, or from retention how young they are.
        """
        if not self._is_time_of(entry):
            why = f"no batch of its entry (timestamp, offset) {entry}"
            raise DamagedFile(self.path(TIME_INDEX_SUFFIX), 0, why)
        return entry

    def _is_time_of(self, entry: tuple[int, int]) -> bool:
        """Return whether the batch that an entry of the time index names has its timestamp, as far as can be read."""
        timestamp_ms, offset = entry
        if timestamp_ms == NO_TIMESTAMP:
            return True
        for _, header in self.sound_headers(self.walk_start(offset)):
            if header.last_offset >= offset:
                is_it = header.base_offset <= offset and header.max_timestamp == timestamp_ms
                return is_it or bool(self.damages)
        return bool(self.damages)

    def upper_bound(self, position: int, following: int, *, cached: bool = False) -> int:
        """Return an offset, close by, that no batch before `position` reaches; `following` if the index has none.

        `cached`: raise NotCached rather than wait for the disk.
        """
        if cached and self._indexes is None:
            raise NotCached
        try:
            entry = self.open_indexes().offsets.first_entry_at(position, cached=cached)
            if entry is not None and not self.is_batch_of(entry, cached=cached):
                # With an offset that is too low, readers would not learn of transactions that were aborted.
                raise DamagedFile(self.path(INDEX_SUFFIX), 0, f"no batch of its entry (offset, position) {entry}")
        except DamagedFile as error:
            if cached:
                # A view builds the index again.
                raise NotCached from None
            self.damaged_index = error
            return following
        return following if entry is None else entry[0]

    def sound_headers_from(self, offset: int, on_damage: OnDamage | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the headers as `sound_headers` does, from the batch that holds `offset`."""
        for position, header in self.sound_headers(self.walk_start(offset), on_damage):
            if header.last_offset >= offset:
                yield position, header

    def mark_unreadable(self, position: int, why: str) -> Damage | None:
        """Read each batch alone that the folio may hold of which a read has failed at `position`.

        Those that the disk cannot read count as damaged. Return the first of them; None where there is none.
        """
        try:
            walk_start = self._start_of(self.open_indexes().offsets.entry_below(position + 1))
        except DamagedFile as error:
            self.damaged_index, walk_start = error, 0
        before = self.damages
        for start, header in self.sound_headers(walk_start):
            if start >= position + FOLIO_BYTES:
                break
            end = start + header.size_bytes
            if end > position and not self._is_readable(start, header):
                self.mark(start, f"{UNREADABLE} ({why})", end)
        return next((each for each in self.damages if each not in before and each.end > position), None)

    def _is_readable(self, position: int, header: BatchHeader) -> bool:
        try:
            self.read_batch(position, header)
        except UnreadableBatch:
            return False
        return True

    def mark(self, position: int, why: str, end: int | None = None) -> Damage:
        """Note that no batch can be read from `position` up to `end`, by default the next sound batch."""
        damage = super().mark(position, why, end)
        if self._last is not None and damage.position <= self._last[0] < damage.end:
            self._last = None
        return damage

    # -- Indexes -----------------------------------------------------------------------------------

    def note(self, header: BatchHeader, position: int, index_interval_bytes: int) -> None:
        """Account for the batch at `position`. Each batch of a segment is noted once, in order."""
        last_offset = header.base_offset + header.last_offset_delta
        self.next_offset = last_offset + 1
        self._last = position, header
        if not position:
            # Otherwise the next append would read it back, and wait for the disk.
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_offset = last_offset
        indexes = self._indexes
        assert indexes is not None
        if position - indexes.entry_position > index_interval_bytes:
            indexes.add(position, last_offset, self._max_timestamp, self._max_offset)

    def seal(self) -> None:
        """Complete the indexes on disk, as a roll and a close do."""
        indexes = self.open_indexes()
        if self.size:
            timestamp_ms, offset = self.max_timestamp
            indexes.times.maybe_append(timestamp_ms, offset)
        indexes.write()
        self.aborted.trim()
        self.is_sealed = True

    @property
    def last_base_offset(self) -> int:
        """The base offset of the last batch that was noted; the segment's own where none was."""
        return self.base_offset if self._last is None else self._last[1].base_offset

    def open_indexes(self) -> SegmentIndexes:
        """Return the indexes. If a file is missing or does not fit, both are built again from the log."""
        if self._indexes is None:
            try:
                self._indexes = self._load_indexes()
            except StaleView:
                raise
            except StorageError:
                with NAMES_LOCK:
                    # A thread may have been here before, or have found the files between two names.
                    self._check_name()
                    self._load_or_rebuild()
        assert self._indexes is not None
        return self._indexes

    def _load_or_rebuild(self) -> None:
        try:
            self._indexes = self._load_indexes()
        except StorageError:
            # Where the log has gone, no index of it comes back.
            _ = self.file
            self._rebuild_indexes()

    def _load_indexes(self) -> SegmentIndexes:
        """Open the indexes. Raises StaleView where they may be another segment's, DamagedFile, DiskError."""
        paths = self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX)
        try:
            indexes = SegmentIndexes.load(*paths, self.base_offset, self.size, self._disk)
        finally:
            self._check_name()
        self._note_names(indexes)
        return indexes

    def _note_names(self, indexes: SegmentIndexes) -> None:
        """Have the indexes know their names, and whether a copy's are still those of the segment."""
        origin = self._origin
        check = None if origin is None else partial(origin.check_names, self._affixes)
        indexes.rename(self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX), check)

    def mend_indexes(self) -> None:
        """Build the indexes again where a look-up found them damaged. For a closed segment only. Raises StaleView."""
        if self.damaged_index is not None and not self.is_retired:
            with NAMES_LOCK:
                self._check_name()
                self._rebuild_indexes()
            self.has_new_indexes = True

    def rewrite_aborted(self) -> None:
        """Write the transaction index again where the log has told its entries. For a closed segment only."""
        with NAMES_LOCK:
            self._check_name()
            self.aborted.rewrite()

    def _rebuild_indexes(self) -> SegmentIndexes:
        indexes = self.reset()
        # Damage is passed over here. A read that reaches it raises.
        for position, header in self.sound_headers():
            self.note(header, position, REBUILD_INTERVAL_BYTES)
        self.seal()
        indexes.sync()
        return indexes

    def reset(self) -> SegmentIndexes:
        """Empty both indexes and forget what was noted, so that every batch can be noted again."""
        self._indexes = indexes = SegmentIndexes.create(
            self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX), self.base_offset, self._disk
        )
        self._note_names(indexes)
        self._max_timestamp, self._max_offset = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self.next_offset = self.base_offset
        self._last = None
        self.is_sealed = False
        return indexes

    def _read_first_timestamp(self) -> int | None:
        """Return the timestamp of the first batch; None where no batch is sound."""
        first = next(self.sound_headers(), None)
        if first is not None:
            self._first_timestamp = first[1].max_timestamp
        return self._first_timestamp

    @property
    def is_last_batch_sound(self) -> bool:
        """Whether the CRC of the last batch that was noted is right."""
        return self._last is None or self.find_fault(*self._last) is None
