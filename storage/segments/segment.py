"""One segment of a log: `BASE.log` with `BASE.index`, `BASE.timeindex` and, where transactions were aborted,
`BASE.txnindex` (aborted.py); BASE is its base offset in 20 digits.

The log file is whole v2 batches, end to end, nothing else. `note` is the one place that turns a batch into index
entries, for appends and for rebuilding alike, by Kafka's rule: an entry for the batch that begins more than
index.interval.bytes after the last entry's batch, and with it one for the largest timestamp so far.

Promise: after an append that raises, the file ends with the last whole batch, or the segment says that it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import TypeVar

from ...protocol.records.batch import BatchHeader, check_crc, iter_records
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch, StorageError, TornWrite
from ..files import DISK, Buffer, Disk, File, NotCached
from . import walk
from .damage import WRONG_CRC, Damage, next_sound
from .offset_index import OffsetIndex
from .time_index import NO_TIMESTAMP, TimeIndex
from .transaction_index import ABORTED_SUFFIX, TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
# Every file of a segment, the log first.
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_SUFFIX)

# What a log file is called from its retirement to its removal: Kafka's name, and no opening takes it for data.
DELETED_FILE_SUFFIX = ".deleted"

MAX_INT32 = 2**31 - 1
# What the files of a segment are called while a cleaning writes them: they are nobody's yet.
CLEANED_SUFFIX = ".cleaned"
# Held while files get other names and while they are opened by name: a reader in a thread never falls in between.
_NAMES = RLock()
# How dense an index is built again when a look-up finds it damaged: Kafka's default, whatever it was before.
REBUILD_INTERVAL_BYTES = 4096
# A largest timestamp that was not looked up yet; none is below -1.
UNKNOWN = -2
# As the size that an fsync has covered: the file was cut, and until the next fsync a power cut may undo that.
UNSYNCED = -1
# Each makes every look-up a little slower. In a segment that has more, what lies behind the last one counts as damaged.
MAX_DAMAGES = 1000

Step = TypeVar("Step", tuple[int, BatchHeader], tuple[int, BatchHeader, memoryview])
_POSITION = attrgetter("position")


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    """The files of one segment. Only the newest of a log is appended to."""

    __slots__ = (
        "_disk",
        "_entry_position",
        "_extension",
        "_file",
        "_first_timestamp",
        "_index_need_bytes",
        "_index_write_due",
        "_last",
        "_max_offset",
        "_max_timestamp",
        "_offsets",
        "_sealed",
        "_synced",
        "_times",
        "aborted",
        "base_offset",
        "created_ms",
        "damages",
        "directory",
        "next_offset",
        "size",
    )  # fmt: skip

    def __init__(
        self, directory: Path, base_offset: int, size: int, now_ms: int, disk: Disk = DISK, extension: str = ""
    ) -> None:
        self.directory = directory
        self._extension = extension  # behind each file's name: .cleaned before its life, .deleted after
        self.base_offset = base_offset
        self.size = size  # Invariant: where the last whole batch ends
        self.created_ms = now_ms
        # Known for the active segment only, which is opened with `scan_tail`.
        self.next_offset = base_offset
        self._last: tuple[int, BatchHeader] | None = None  # position and header of the last batch noted
        self._synced = size  # what an fsync has covered; a file that was there is taken to be, recovery says otherwise
        self._sealed = False
        self._disk = disk
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._entry_position = 0  # where the batch of the last index entry begins
        self._index_need_bytes = 0  # how large segment.index.bytes must be for one more entry
        self._index_write_due = False
        self._max_timestamp = UNKNOWN
        self._max_offset = base_offset  # last offset of the batch with the largest timestamp
        self._first_timestamp: int | None = None
        self.aborted = TransactionIndex(self.path(ABORTED_SUFFIX), 0, disk)
        # What is known to be damaged, in order of position, none inside another. Replaced as a whole.
        self.damages: tuple[Damage, ...] = ()

    @classmethod
    def create(cls, directory: Path, base_offset: int, now_ms: int, disk: Disk = DISK, extension: str = "") -> Segment:
        """Start an empty segment, over whatever a crash may have left of one."""
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

    def path(self, suffix: str) -> Path:
        return self.directory / (segment_name(self.base_offset) + suffix + self._extension)

    @property
    def file(self) -> File:
        """The log file, opened when it is first needed."""
        file = self._file
        if file is None:
            with _NAMES:
                file = self._file = self._disk.open(self.path(LOG_SUFFIX))
        return file

    # -- writing -----------------------------------------------------------------------------------

    def append(self, batch: Buffer, header: BatchHeader, index_interval_bytes: int) -> None:
        """Write one batch at the end. On failure the file is cut back to the last whole batch, and the error raised."""
        if self._index_write_due:
            # Before the batch, so that a failure leaves nothing half done.
            self._write_indexes()
        self._sealed = False  # a roll that failed had sealed it
        position = self.size
        try:
            self._disk.write(self.file, batch, position)
        except StorageError as error:
            self._synced = UNSYNCED
            try:
                self._disk.truncate(self.file, position)
            except StorageError as second:
                raise TornWrite(self.path(LOG_SUFFIX), position, second) from error
            raise
        self.size = position + len(batch)
        self.note(header, position, index_interval_bytes)

    def note(self, header: BatchHeader, position: int, index_interval_bytes: int) -> None:
        """Account for a batch that lies at `position`: the batches of a segment are noted once each, in order."""
        last_offset = header.base_offset + header.last_offset_delta
        self.next_offset = last_offset + 1
        self._last = position, header
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_offset = last_offset
        if position - self._entry_position > index_interval_bytes:
            self._add_entries(last_offset, position)

    def _add_entries(self, last_offset: int, position: int) -> None:
        self._entry_position = position
        self.offsets.append(last_offset, position)
        self.times.maybe_append(self._max_timestamp, self._max_offset)
        self._index_write_due = self.offsets.wants_write or self.times.wants_write
        self._index_need_bytes = max(self.offsets.room_for_one_more(), self.times.room_for_one_more())

    def _write_indexes(self) -> None:
        self.times.write()
        self.offsets.write()
        self._index_write_due = False

    def has_room(self, header: BatchHeader, segment_bytes: int, segment_index_bytes: int) -> bool:
        """Whether the batch fits by size, offset and indexes."""
        return (
            self.size + header.batch_length + 12 <= segment_bytes
            and header.base_offset + header.last_offset_delta - self.base_offset <= MAX_INT32
            and self._index_need_bytes <= segment_index_bytes
        )

    def age_ms(self, batch_timestamp_ms: int, now_ms: int) -> int:
        """How old segment.ms finds it: from the first batch's timestamp to this one's; without one, by the clock."""
        if self._first_timestamp is None and self.size:
            for _, header in self.sound_headers():
                self._first_timestamp = header.max_timestamp
                break
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return batch_timestamp_ms - self._first_timestamp
        return now_ms - self.created_ms

    def seal(self) -> None:
        """Complete both indexes on disk, as a roll and a close do."""
        if self.size:
            timestamp_ms, offset = self.max_timestamp
            self.times.maybe_append(timestamp_ms, offset)
        self._write_indexes()
        self.aborted.trim()
        self._sealed = True

    @property
    def is_retired(self) -> bool:
        """Whether it is none of the log's any more."""
        return self._extension == DELETED_FILE_SUFFIX

    @property
    def is_sealed(self) -> bool:
        """Whether its indexes are complete on disk, as those of all but the newest are."""
        return self._sealed

    @property
    def is_dirty(self) -> bool:
        """Whether sync() has something to do."""
        return self._synced < self.size or (
            self._sealed and (self.offsets.is_dirty or self.times.is_dirty or self.aborted.is_dirty)
        )

    @property
    def unsynced_bytes(self) -> int:
        """How much of the log file no fsync has covered."""
        return self.size - max(self._synced, 0)

    def sync(self) -> None:
        """fsync the log and, once sealed, the indexes: those of an active segment are built again after a crash."""
        size = self.size
        if self._extension == DELETED_FILE_SUFFIX:
            # Nobody needs it to last, and it may be gone already.
            self._synced = size
            return
        self._disk.fsync(self.file)
        self._synced = size
        if self._sealed:
            self.offsets.sync()
            self.times.sync()
            self.aborted.sync()

    def upper_bound(self, position: int, following: int, *, cached: bool = False) -> int:
        """Return an offset that no batch before `position` reaches: close to it, `following` if the index has none.

        `cached`: NotCached rather than a wait for the disk.
        """
        if cached and self._offsets is None:
            raise NotCached
        offsets = self.offsets
        low, high = 0, len(offsets)
        while low < high:
            middle = (low + high) >> 1
            if offsets.entry(middle, cached=cached)[1] < position:
                low = middle + 1
            else:
                high = middle
        return offsets.entry(low, cached=cached)[0] if low < len(offsets) else following

    # -- looking up --------------------------------------------------------------------------------

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._load_indexes()
        assert self._offsets is not None
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._load_indexes()
        assert self._times is not None
        return self._times

    @property
    def newest_ms(self) -> int:
        """The time that retention goes by: the largest timestamp; where there is none, when the file was written."""
        timestamp_ms = self.max_timestamp[0]
        return timestamp_ms if timestamp_ms >= 0 else self._disk.modified_ms(self.path(LOG_SUFFIX))

    @property
    def knows_times(self) -> bool:
        """Whether `max_timestamp` is in memory."""
        return self._max_timestamp != UNKNOWN

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, last offset of its batch); (-1, base offset) if there is none.

        That of a closed segment comes from its time index.
        """
        if self._max_timestamp == UNKNOWN:
            self._max_timestamp, self._max_offset = self.times.last_entry()
        return self._max_timestamp, self._max_offset

    def find(self, offset: int, *, cached: bool = False) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that reaches `offset`, None if there is none.

        `cached`: NotCached rather than a wait for the disk. Raises CorruptBatch where `offset` may lie in what is
        damaged.
        """
        last = self._last
        if last is not None and offset >= last[1].base_offset:
            return last if offset < self.next_offset else self._nothing_more()
        if cached:
            return self._find_cached(offset)
        start = self.offsets.lookup(offset)[1]
        if self.damages:
            return self._find_around(offset, start)
        try:
            for position, header in walk.headers(self._disk, self.file, start, self.size, walk.LOOKUP_WINDOW_BYTES):
                if header.base_offset + header.last_offset_delta >= offset:
                    return position, header
        except CorruptBatch as error:
            self.mark(error.position, error.why)
            return self._find_around(offset, start)
        return None

    def _find_cached(self, offset: int) -> tuple[int, BatchHeader] | None:
        """As `find`, of what is open and in the page cache; what is damaged is for those who may wait."""
        if self._file is None or self._offsets is None or self.damages:
            raise NotCached
        start = self._offsets.lookup(offset, cached=True)[1]
        try:
            for position, header in walk.cached_headers(self._disk, self._file, start, self.size):
                if header.base_offset + header.last_offset_delta >= offset:
                    return position, header
        except CorruptBatch:
            raise NotCached from None
        return None

    def _find_around(self, offset: int, start: int) -> tuple[int, BatchHeader] | None:
        for position, header in self._around(start, walk.headers):
            if header.last_offset >= offset:
                before = next((each for each in self.damages if each.end == position), None)
                if before is not None and header.base_offset > offset:
                    raise before.error()
                return position, header
        return self._nothing_more()

    def _nothing_more(self) -> None:
        """No batch reaches what is looked for: CorruptBatch if the segment's end is damaged."""
        if self.is_damaged_at_end:
            raise self.damages[-1].error()

    def headers(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the headers from `start`, the position of a batch."""
        return walk.headers(self._disk, self.file, start, self.size)

    def batches(self, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Walk whole batches from `start`, the position of a batch. The bytes are valid until the next step."""
        return walk.batches(self._disk, self.file, start, self.size)

    def sound_headers(
        self, from_offset: int | None = None, passed: Callable[[Damage], object] | None = None, start: int = 0
    ) -> Iterator[tuple[int, BatchHeader]]:
        """As `headers`, from the batch that holds `from_offset` on, over what is damaged: `passed` is told of it."""
        start = start if from_offset is None else self.offsets.lookup(from_offset)[1]
        for position, header in self._around(start, walk.headers, passed):
            if from_offset is None or header.last_offset >= from_offset:
                yield position, header

    def sound_batches(
        self, start: int, passed: Callable[[Damage], object]
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """As `batches`, over what is damaged: `passed` is told of it."""
        return self._around(start, walk.batches, passed)

    def _around(
        self,
        start: int,
        walker: Callable[[Disk, File, int, int], Iterator[Step]],
        passed: Callable[[Damage], object] | None = None,
    ) -> Iterator[Step]:
        """Walk over what is damaged; what was not known to be is found out on the way."""
        position = start
        while position < self.size:
            damage = next((each for each in self.damages if each.end > position), None)
            if damage is not None and damage.position <= position:
                if passed is not None:
                    passed(damage)
                position = damage.end
                continue
            before: Step | None = None
            try:
                end = damage.position if damage is not None else self.size
                for step in walker(self._disk, self.file, position, end):
                    before = step
                    yield step
                    position = step[0] + step[1].size_bytes
            except CorruptBatch as error:
                if before is not None and self.has_wrong_crc(before[0], before[1]):
                    # Its length may be what is wrong: the next batch is elsewhere, and may be sound.
                    position = self.mark(before[0], WRONG_CRC).position
                else:
                    self.mark(error.position, error.why)

    def has_wrong_crc(self, position: int, header: BatchHeader) -> bool:
        """Whether the batch at `position` is damaged, by its CRC."""
        try:
            check_crc(self._disk.read(self.file, header.size_bytes, position), 0, header)
        except RecordError:
            return True
        return False

    def is_damaged(self, position: int) -> bool:
        """Whether `position` is known to lie in what cannot be read."""
        return any(each.position <= position < each.end for each in self.damages)

    def mark(self, position: int, why: str, end: int | None = None) -> Damage:
        """Take note that no batch can be read at `position`, up to `end`, or else to the next sound one."""
        known = next((each for each in self.damages if each.position <= position < each.end), None)
        if known is not None:
            return known
        if len(self.damages) >= MAX_DAMAGES:
            end = self.size
        elif end is None:
            end = next_sound(self._disk, self.file, position + 1, self.size, self.base_offset)
        damage = Damage(self.path(LOG_SUFFIX), position, end, why)
        others = (each for each in self.damages if not position <= each.position < end)
        self.damages = tuple(sorted((*others, damage), key=_POSITION))
        if self._last is not None and position <= self._last[0] < end:
            self._last = None
        return damage

    @property
    def is_damaged_at_end(self) -> bool:
        return bool(self.damages) and self.damages[-1].end >= self.size

    def sound_end(self, position: int) -> int:
        """Return where what is known to be damaged begins behind `position`, or the segment's end."""
        return next((each.position for each in self.damages if each.position >= position), self.size)

    def find_time(self, timestamp_ms: int, from_offset: int, up_to: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record not earlier, in [from_offset, up_to)."""
        start = self.offsets.lookup(max(self.times.lookup(timestamp_ms)[1], from_offset))[1]
        for position, header in self._around(start, walk.headers):
            if header.base_offset >= up_to:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < from_offset:
                continue
            data = self._disk.read(self.file, header.size_bytes, position)
            try:
                for record in iter_records(data, 0, header):
                    if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                        epoch = header.partition_leader_epoch
                        return None if record.offset >= up_to else (record.timestamp_ms, record.offset, epoch)
            except RecordError as error:
                raise CorruptBatch(self.file.path, position, str(error)) from error
        return None

    # -- (re)building ------------------------------------------------------------------------------

    def load_indexes(self) -> None:
        """Open the indexes now if they were not yet."""
        if self._offsets is None or self._times is None:
            self._load_indexes()

    def _load_indexes(self) -> None:
        """Take the index files over; where one is missing or does not fit, both are built again from the log."""
        with _NAMES:
            try:
                self._offsets = OffsetIndex.load(self.path(INDEX_SUFFIX), self.base_offset, self.size, self._disk)
                self._times = TimeIndex.load(self.path(TIME_INDEX_SUFFIX), self.base_offset, self.size, self._disk)
            except StorageError:
                self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        self.reset()
        # What cannot be read is passed over; the read that gets there says so.
        for position, header in self._around(0, walk.headers):
            self.note(header, position, REBUILD_INTERVAL_BYTES)
        self.seal()
        self.offsets.sync()
        self.times.sync()

    def reset(self) -> None:
        """Empty both indexes and forget what was noted: every batch is about to be noted, maybe again."""
        self._offsets = OffsetIndex.create(self.path(INDEX_SUFFIX), self.base_offset, self._disk)
        self._times = TimeIndex.create(self.path(TIME_INDEX_SUFFIX), self.base_offset, self._disk)
        self._max_timestamp, self._max_offset = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self._entry_position = 0
        self.next_offset = self.base_offset
        self._last = None
        self._sealed = self._index_write_due = False
        self._index_need_bytes = max(self._offsets.room_for_one_more(), self._times.room_for_one_more())

    def scan_tail(self, index_interval_bytes: int) -> None:
        """Find the end by walking from the last index entry: makes a closed segment one to append to.

        Raises CorruptBatch.
        """
        self._max_timestamp, self._max_offset = self.times.last_entry()
        self._index_need_bytes = max(self.offsets.room_for_one_more(), self.times.room_for_one_more())
        self._last = None
        self._sealed = False
        self.next_offset = self.base_offset
        self._entry_position = self.offsets.last_entry()[1]
        for position, header in self.headers(self._entry_position):
            self.note(header, position, index_interval_bytes)

    def cut(self, position: int) -> None:
        """Make `position`, where a batch begins, the end of the file. The indexes must hold nothing from there on."""
        self._disk.truncate(self.file, position)
        self.size = position
        self._synced = UNSYNCED
        self.damages = tuple(each for each in self.damages if each.position < position)

    def truncate_to(self, offset: int, index_interval_bytes: int) -> None:
        """Drop every batch that holds `offset` or later ones."""
        found = self.find(offset)
        if found is not None:
            self.offsets.truncate_to(found[1].base_offset)
            self.times.truncate_to(found[1].base_offset)
            self.cut(found[0])
        if self.size == 0:
            self._first_timestamp = None
        self.aborted.truncate_to(offset)
        self.scan_tail(index_interval_bytes)

    # -- copies ------------------------------------------------------------------------------------

    def twin(self) -> Segment:
        """Return a copy for look-ups in another thread, which sees nothing of what is appended from now on."""
        twin = Segment(self.directory, self.base_offset, self.size, self.created_ms, self._disk, self._extension)
        twin.next_offset, twin._last, twin._sealed = self.next_offset, self._last, self._sealed
        twin._max_timestamp, twin._max_offset = self._max_timestamp, self._max_offset
        twin._first_timestamp, twin._file, twin.damages = self._first_timestamp, self._file, self.damages
        twin.aborted = TransactionIndex(twin.path(ABORTED_SUFFIX), self.aborted.size_bytes, self._disk)
        offsets, times = self._offsets, self._times
        if offsets is not None and times is not None:
            twin._offsets, twin._times = offsets.twin(), times.twin()
        return twin

    def learn(self, twin: Segment) -> bool:
        """Take over what a copy found out; True if there are files open now that were not."""
        if self.is_retired:
            return False
        for damage in twin.damages:
            self.mark(damage.position, damage.why, damage.end)
        if self._max_timestamp == UNKNOWN:
            self._max_timestamp, self._max_offset = twin._max_timestamp, twin._max_offset
        has_opened = self._file is None and twin._file is not None
        self._file = self._file or twin._file
        if self._offsets is None or self._times is None:
            self._offsets, self._times = twin._offsets, twin._times
        elif twin._offsets is not None and twin._times is not None:
            self._offsets.learn(twin._offsets)
            self._times.learn(twin._times)
        return has_opened

    # -- letting go --------------------------------------------------------------------------------

    def mark_unsynced(self, position: int) -> None:
        """After a crash nothing past `position` is known to be on disk for good."""
        self._synced = min(self._synced, position)

    def release(self) -> None:
        """Give file and maps back; they come again when needed. Ranges that were handed out keep the file open."""
        self._file = None
        if self._offsets is not None and self._times is not None:
            self._offsets.release()
            self._times.release()

    def retire(self) -> None:
        """Take the segment out of what the next opening finds: its files are called .deleted from now on.

        Who holds it reads on. The caller removes it, when nobody can any more; after a crash the next opening does.
        """
        with _NAMES:
            before = {suffix: self.path(suffix) for suffix in SEGMENT_SUFFIXES}
            log, *indexes = SEGMENT_SUFFIXES
            self._disk.rename(before[log], before[log].with_name(before[log].name + DELETED_FILE_SUFFIX))
            self._extension = DELETED_FILE_SUFFIX
            for suffix in indexes:
                if self._disk.exists(before[suffix]):
                    self._disk.rename(before[suffix], self.path(suffix))
            self.aborted.path = self.path(ABORTED_SUFFIX)
            if self._offsets is not None and self._times is not None:
                self._offsets.path, self._times.path = self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX)

    def unlink(self) -> None:
        """Remove the files, the log first.

        What a crash leaves behind is an index without a log, which opening removes.
        """
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._disk.unlink(self.path(suffix))
