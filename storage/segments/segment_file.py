"""The log file of a segment: whole v2 batches end to end, and the damage that is known in it.

Walks pass over damage: `sound_headers` and `sound_batches` go on behind it, and note any damage that they find.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import TypeVar

from ...protocol.records.batch import HEADER_SIZE, BatchHeader, check_crc
from ...protocol.records.errors import RecordError
from ..errors import CorruptBatch, DiskError, StaleView, StorageError, UnreadableBatch
from ..files import DISK, Buffer, Disk, File, NotCached, read_surely
from . import walk
from .damage import MISPLACED, WRONG_CRC, Damage
from .damage_end import next_sound
from .names import DELETED_FILE_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from .segment_indexes import NO_TIMESTAMP, starts_behind
from .staged_batch import StagedBatch
from .walk import MAX_INT32

# Enough for the last batches, which the first append after a start reads.
END_BYTES = 1024 * 1024
# Held while files are renamed, and while an index is written that a look-up has found damaged: never into the file of
# another segment.
NAMES_LOCK = RLock()
# The value of `_synced` after the file was cut: until the next fsync, a power cut may undo the cut.
UNSYNCED = -1
# Each damage makes every look-up a little slower. Where there are more than so many in a segment, what lies between two
# of them counts as damaged, too.
MAX_DAMAGES = 1000

Step = TypeVar("Step", tuple[int, BatchHeader], tuple[int, BatchHeader, memoryview])
OnDamage = Callable[[Damage], object]

_POSITION, _END = attrgetter("position"), attrgetter("end")


class SegmentFile:
    """The log file of one segment. Positions and sizes in bytes."""

    __slots__ = (
        "_affixes",
        "_disk",
        "_file",
        "_old_index",
        "_origin",
        "_synced",
        "base_offset",
        "cuts",
        "damages",
        "directory",
        "size",
    )

    def __init__(self, directory: Path, base_offset: int, size: int, disk: Disk = DISK, extension: str = "") -> None:
        self.directory = directory
        self.base_offset = base_offset
        # Invariant: where the last whole batch ends.
        self.size = size
        # In order of position, none inside another. Replaced as a whole.
        self.damages: tuple[Damage, ...] = ()
        # How often the file was cut. What a copy found before a cut may not be there any more.
        self.cuts = 0
        self._disk = disk
        # What stands before and behind the suffix of each file's name: .cleaned behind it before the segment is part of
        # the log, a number before it and .deleted behind it after. Replaced as a whole, while a thread makes a copy.
        self._affixes = ("", extension)
        # None: not open; it is opened when it is needed.
        self._file: File | None = None
        # The segment that this is a copy of; None where it is no copy.
        self._origin: SegmentFile | None = None
        # The offset index as a start has found it, while it is built again.
        self._old_index: bytes | None = None
        # Up to here an fsync has covered the file. An existing file is taken to be covered; recovery corrects that.
        self._synced = size

    @property
    def is_open(self) -> bool:
        """Whether the log file has a descriptor."""
        return self._file is not None

    def path(self, suffix: str) -> Path:
        """Return the path of one of the segment's files."""
        return segment_path(self.directory, self.base_offset, suffix.join(self._affixes))

    @property
    def file(self) -> File:
        """The log file, opened at the first use."""
        file = self._file
        if file is None:
            try:
                file = self._disk.open(self.path(LOG_SUFFIX))
            finally:
                self._check_name()
            self._file = file
        return file

    def _check_name(self) -> None:
        """Raise StaleView where the files of a copy have other names by now.

        Behind an open it tells whose file that was: a segment has its new names before another one can get the old.
        """
        if self._origin is not None:
            self._origin.check_names(self._affixes)

    def check_names(self, affixes: tuple[str, str]) -> None:
        """Raise StaleView where the files have other names than those with `affixes`."""
        if self._affixes != affixes:
            raise StaleView(segment_path(self.directory, self.base_offset, LOG_SUFFIX.join(affixes)))

    @property
    def is_retired(self) -> bool:
        """Whether the segment has left the log."""
        return self._affixes[1] == DELETED_FILE_SUFFIX

    @property
    def unsynced_bytes(self) -> int:
        """How much of the log file no fsync has covered."""
        return self.size - max(self._synced, 0)

    def mark_unsynced(self, position: int) -> None:
        """Note after a crash that nothing past `position` is known to be on disk."""
        self._synced = min(self._synced, position)

    def forget_cached(self, position: int) -> None:
        """Drop the file from `position` on from the page cache, so that the next read comes from the disk.

        After a failed fsync the cache still shows bytes that never reached the disk. Unwritten pages stay cached.
        """
        self._disk.forget(self.file, self.size - position, position)

    def read_ahead(self) -> None:
        """Have the system read the end of the log file and of its indexes, without waiting for it. Raises DiskError."""
        for file, position in self._ends():
            self._disk.will_need(file, position)

    def read_end(self) -> None:
        """Read the end of the log file and of its indexes into the page cache. Raises DiskError."""
        for file, position in self._ends():
            self._disk.read(file, END_BYTES, position)

    def _ends(self) -> Iterator[tuple[File, int]]:
        """Yield the log file and its indexes, each with the position where its end begins."""
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            file = self._disk.open(self.path(suffix), writable=False)
            yield file, max(self._disk.size(file) - END_BYTES, 0)

    def truncate(self, position: int) -> None:
        """Cut the file at `position`, where a batch begins. The indexes must hold nothing from there on."""
        self._disk.truncate(self.file, position)
        self.size = position
        self.cuts += 1
        self._synced = UNSYNCED
        self.damages = tuple(each for each in self.damages if each.position < position)

    def take(self, staged: StagedBatch, batch: Buffer) -> None:
        """Let an empty segment have the file of a staged batch. `batch` has its offsets by now. Raises DiskError."""
        assert not self.size, "only an empty segment takes the file of a batch"
        staged.name(self.path(LOG_SUFFIX), memoryview(batch)[:HEADER_SIZE])
        self._synced = UNSYNCED
        self._file = staged.file

    # -- Reading -----------------------------------------------------------------------------------

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """Return the bytes of the batch at `position`; fewer where the file ends before the batch does.

        Raises UnreadableBatch, DiskError.
        """
        try:
            return read_surely(self._disk, self.file, header.size_bytes, position)
        except DiskError as error:
            walk.readable_bytes(error, position)
            raise UnreadableBatch.of(self.path(LOG_SUFFIX), position, error) from error

    def headers(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the headers from `start`, the position of a batch. Raises CorruptBatch."""
        return walk.headers(self._disk, self.file, start, self.size)

    def batches(self, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Walk whole batches from `start`, the position of a batch. The bytes are valid until the next step.

        Raises CorruptBatch.
        """
        return walk.batches(self._disk, self.file, start, self.size)

    def sound_headers(self, start: int = 0, on_damage: OnDamage | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Walk the headers from `start`, pass over damage, and tell `on_damage` of each damage that is passed."""
        return self._sound(start, walk.headers, on_damage)

    def sound_batches(
        self, start: int, on_damage: OnDamage | None = None
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Walk whole batches as `sound_headers` does. The bytes are valid until the next step."""
        return self._sound(start, walk.batches, on_damage)

    def _sound(
        self, start: int, walker: Callable[[Disk, File, int, int], Iterator[Step]], on_damage: OnDamage | None
    ) -> Iterator[Step]:
        position = start
        # The lowest offset that the next batch may have, and the one before it; None: not known, because the walk
        # begins inside.
        due: int | None = None if start else self.base_offset
        due_before: int | None = None
        while position < self.size:
            damage = self.next_damage(position)
            if damage is not None and damage.position <= position:
                if on_damage is not None:
                    on_damage(damage)
                position = damage.end
                continue
            last: Step | None = None
            try:
                end = damage.position if damage is not None else self.size
                for step in walker(self._disk, self.file, position, end):
                    header = step[1]
                    if due is not None and header.base_offset != due and self.is_misplaced(step[0], header, due):
                        due = self._blame(last, due_before, step[0], header, due)
                        break
                    last, due_before = step, due
                    yield step
                    position = step[0] + header.size_bytes
                    due = header.next_offset
            except CorruptBatch as error:
                is_unreadable = isinstance(error, UnreadableBatch)
                fault = None if last is None or is_unreadable else self.find_fault(last[0], last[1])
                if last is not None and fault is not None:
                    # The length of that batch may be wrong, so the next batch may begin elsewhere and be sound.
                    position = self.mark(last[0], fault).position
                else:
                    self.mark(error.position, error.why)

    def _blame(
        self, last: Step | None, due_before: int | None, position: int, header: BatchHeader, due_offset: int
    ) -> int | None:
        """Mark the batch at `position`, or the one before it, whose offsets contradict each other.

        `due_before` is the lowest offset that the one before it may have. Return the lowest offset that the next batch
        may have, None where that is not known.
        """
        if last is not None and header.base_offset < due_offset:
            if (fault := self.find_fault(last[0], last[1])) is not None:
                # Its last offset is wrong. It has been handed on already.
                self.mark(last[0], fault)
                return None
            if due_before is None and self.is_misplaced(last[0], last[1], self._due_at(last[0])):
                # The walk began with it, and did not know what lies before.
                self.mark(last[0], MISPLACED, last[0] + last[1].size_bytes)
                return None
        self.mark(position, MISPLACED, position + header.size_bytes)
        return due_offset

    def _due_at(self, position: int) -> int:
        """Return the lowest offset that the batch at `position` may have, by the headers before it."""
        due = self.base_offset
        try:
            for at, header in self.headers():
                if at >= position:
                    break
                due = header.next_offset
        except CorruptBatch:
            # What lies before tells nothing more.
            return due
        return due

    def read_largest_timestamp(self) -> tuple[int, int]:
        """Return (largest timestamp, last offset of its batch) from the headers; (-1, base offset) without any."""
        largest = NO_TIMESTAMP, self.base_offset
        for _, header in self.sound_headers():
            if header.max_timestamp > largest[0]:
                largest = header.max_timestamp, header.last_offset
        return largest

    def is_batch_of(self, entry: tuple[int, int], *, cached: bool = False) -> bool:
        """Return whether the batch that an entry of the offset index names is there, or the last of several.

        `cached`: raise NotCached rather than wait for the disk.
        """
        offset, position = entry
        if cached and self._file is None:
            raise NotCached
        try:
            walk_on = walk.cached_headers(self._disk, self.file, position, self.size) if cached else None
            for _, header in walk_on or self.headers(position):
                if header.last_offset >= offset:
                    return not position or header.last_offset == offset
        except CorruptBatch:
            return False
        return not position

    # -- Damage ------------------------------------------------------------------------------------

    def find_fault(self, position: int, header: BatchHeader) -> str | None:
        """Return why the batch at `position` is not sound, None if it is.

        A batch that the disk cannot read is told from one with a wrong CRC, because another read may succeed.
        """
        try:
            check_crc(self.read_batch(position, header), 0, header)
        except UnreadableBatch as error:
            return error.why
        except RecordError:
            return WRONG_CRC
        return None

    def is_misplaced(self, position: int, header: BatchHeader, due_offset: int) -> bool:
        """Return whether the offset of the batch at `position` is wrong: no CRC covers it, so its neighbours tell.

        `due_offset` is the lowest that it may have. A batch that leaves offsets out is misplaced if the next one holds
        some of these, or of those that it claims.
        """
        if header.base_offset == due_offset and header.last_offset - self.base_offset <= MAX_INT32:
            return False
        if header.base_offset < due_offset or header.last_offset - self.base_offset > MAX_INT32:
            return True
        try:
            following = next(self.headers(position + header.size_bytes), None)
        except CorruptBatch:
            return False
        return following is not None and due_offset <= following[1].base_offset < header.next_offset

    def mark(self, position: int, why: str, end: int | None = None) -> Damage:
        """Note that no batch can be read from `position` up to `end`, by default the next sound batch."""
        known = self.damage_at(position)
        if known is not None:
            return known
        if end is None:
            end = self.next_sound(position)
        damage = Damage(self.path(LOG_SUFFIX), position, end, why)
        others = [each for each in self.damages if not position <= each.position < end]
        if len(others) >= MAX_DAMAGES:
            neighbour = others.pop(max(bisect_left(others, position, key=_POSITION) - 1, 0))
            damage = damage._replace(position=min(position, neighbour.position), end=max(end, neighbour.end))
        insort(others, damage, key=_POSITION)
        self.damages = tuple(others)
        return damage

    def next_sound(self, position: int) -> int:
        """Return where the next sound batch behind a damaged one begins, the end of the file if there is none."""
        data = self._old_index if self._old_index is not None else self._read_index()
        starts = starts_behind(data, position)
        return next_sound(self._disk, self.file, position, self.size, self.base_offset, starts)

    @contextmanager
    def keeping_starts(self) -> Generator[None]:
        """Remember what the offset index tells of positions, while it is built again."""
        self._old_index = self._read_index()
        try:
            yield
        finally:
            self._old_index = None

    def _read_index(self) -> bytes:
        try:
            return self._disk.read_file(self.path(INDEX_SUFFIX))
        except StorageError:
            return b""

    @property
    def is_damaged_at_end(self) -> bool:
        """Whether known damage reaches the end of the segment."""
        return bool(self.damages) and self.damages[-1].end >= self.size

    def find_nothing(self) -> None:
        """Return None: no batch reaches an offset. Raises CorruptBatch if the segment's end is damaged."""
        if self.is_damaged_at_end:
            raise self.damages[-1].error()

    def sound_end(self, position: int) -> int:
        """Return where the first known damage behind `position` begins, or the segment's end."""
        slot = bisect_left(self.damages, position, key=_POSITION)
        return self.damages[slot].position if slot < len(self.damages) else self.size

    def next_damage(self, position: int) -> Damage | None:
        """Return the first known damage that ends behind `position`."""
        slot = bisect_right(self.damages, position, key=_END)
        return self.damages[slot] if slot < len(self.damages) else None

    def damage_at(self, position: int) -> Damage | None:
        """Return the known damage that `position` lies in, if there is one."""
        found = self.next_damage(position)
        return found if found is not None and found.position <= position else None
