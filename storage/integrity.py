"""The offline check of a partition's folder (`odradek log verify`): every byte is read.

Every batch of every segment must be whole, of magic 2, with a right CRC and ascending offsets. Every index entry must
point at the batch that it names. Snapshots and the small files must parse. `verify` changes nothing. `repair` does what
a start after a crash does, and no more: it cuts the tail at the first bad batch past the recovery point and builds
indexes again. Damage below the recovery point stays.

The indexes of a segment are checked only if it ends at or below the recovery point. Otherwise a start builds them again
anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..protocol.records.batch import BatchHeader
from .checkpoints import read_partition_metadata
from .config import LogConfig
from .errors import CorruptBatch, DamagedFile, StorageError
from .files import DISK, Disk
from .leader_epochs import LeaderEpochs
from .log import Log
from .producer_snapshot import SNAPSHOT_SUFFIX
from .producer_snapshot import decode as decode_snapshot
from .recovery_report import RecoveryReport
from .segments import walk
from .segments.damage import next_sound
from .segments.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, base_offset_of
from .segments.offset_index import OffsetIndex
from .segments.time_index import TimeIndex

CUT = "cut"
STAYS = "stays, and is refused to readers"
REBUILT = "built again"
REMOVED = "passed over"

Progress = Callable[[int], None]


@dataclass(slots=True, frozen=True)
class Finding:
    """A fault in a file. `at_start` says what a start after a crash does about it."""

    path: Path
    position: int
    size: int  # how many bytes are concerned
    why: str
    at_start: str


def segment_files(directory: Path, disk: Disk = DISK) -> list[tuple[int, Path, int]]:
    """Return (base offset, path, size) of the segments in a partition's folder, in order."""
    found = [
        (base_offset, directory / name, size)
        for name, size in disk.sizes(directory).items()
        if (base_offset := base_offset_of(name, LOG_SUFFIX)) is not None
    ]
    return sorted(found)


def verify(
    directory: Path, recovery_point: int, progress: Progress = lambda _: None, disk: Disk = DISK
) -> Iterator[Finding]:
    """Yield what is wrong in a partition's folder. `progress` is called with the bytes of each batch that was read.

    Raises DiskError.
    """
    yield from _small_files(directory, disk)
    due = 0
    for base_offset, path, size in segment_files(directory, disk):
        segment = _Segment(path, base_offset, size, recovery_point, disk)
        if base_offset < due:
            why = f"the segment before it holds offsets up to {due - 1}"
            yield Finding(path, 0, size, why, STAYS if base_offset < recovery_point else CUT)
        yield from segment.verify(progress)
        due = max(due, segment.next_offset)
        if segment.is_cut:
            yield from _behind(directory, base_offset, disk)
            return


def repair(
    directory: Path,
    recovery_point: int,
    log_start_offset: int,
    findings: list[Finding],
    now_ms: int,
    disk: Disk = DISK,
) -> tuple[RecoveryReport, int]:
    """Do what a start after a crash does; return the report, and the offset up to which everything is on disk now.

    `findings` are those of `verify`. The indexes among them are removed first, because a start checks them less.
    """
    for each in findings:
        if each.path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.unlink(each.path)
    log = Log.open(
        directory,
        # A repair must not expire producers.
        LogConfig(producer_id_expiration_ms=2**62),
        clean=False,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        disk=disk,
    )
    log.load_indexes()
    log.close()
    return log.recovery, log.log_end_offset


def _behind(directory: Path, base_offset: int, disk: Disk) -> Iterator[Finding]:
    for later, path, size in segment_files(directory, disk):
        if later > base_offset:
            yield Finding(path, 0, size, "it lies behind a segment that is cut", CUT)


def _small_files(directory: Path, disk: Disk) -> Iterator[Finding]:
    def look(path: Path, read: Callable[[], object], at_start: str) -> Iterator[Finding]:
        try:
            read()
        except DamagedFile as error:
            yield Finding(path, error.position, disk.sizes(path.parent).get(path.name, 0), error.why, at_start)

    yield from look(directory / "partition.metadata", lambda: read_partition_metadata(directory, disk), "made again")
    epochs = directory / "leader-epoch-checkpoint"
    yield from look(epochs, lambda: LeaderEpochs.load(directory, disk), REBUILT)
    for name in sorted(disk.sizes(directory)):
        if name.endswith(SNAPSHOT_SUFFIX):
            path = directory / name
            yield from look(path, lambda path=path: decode_snapshot(disk.read_file(path), path), REMOVED)


class _Segment:
    """One segment while it is checked."""

    def __init__(self, path: Path, base_offset: int, size: int, recovery_point: int, disk: Disk) -> None:
        self.next_offset = base_offset
        self.is_cut = False
        self._path = path
        self._base_offset = base_offset
        self._size = size
        self._recovery_point = recovery_point
        self._disk = disk

    def verify(self, progress: Progress) -> Iterator[Finding]:
        entries = _Entries(self._path, self._base_offset, self._size, self._disk)
        position = 0
        file = self._disk.open(self._path, writable=False)
        while position < self._size:
            try:
                for at, header, data in walk.batches(self._disk, file, position, self._size):
                    walk.check(self._path, at, header, data, self.next_offset, self._base_offset)
                    entries.note(at, header)
                    self.next_offset = header.next_offset
                    position = at + header.size_bytes
                    progress(header.size_bytes)
            except CorruptBatch as error:
                if self.next_offset >= self._recovery_point:
                    self.is_cut = True
                    yield Finding(self._path, error.position, self._size - error.position, error.why, CUT)
                    return
                position = next_sound(self._disk, file, error.position + 1, self._size, self._base_offset)
                progress(position - error.position)
                entries.pass_over(position)
                yield Finding(self._path, error.position, position - error.position, error.why, STAYS)
        if self.next_offset <= self._recovery_point:
            yield from entries.findings()


class _Entries:
    """The entries of both indexes of a segment, which are compared with its batches one by one."""

    def __init__(self, log: Path, base_offset: int, size: int, disk: Disk) -> None:
        self._found: dict[Path, Finding] = {}
        self._disk = disk
        self._offset_path = log.with_suffix(INDEX_SUFFIX)
        self._time_path = log.with_suffix(TIME_INDEX_SUFFIX)
        self._offsets = self._entries(OffsetIndex, self._offset_path, base_offset, size)
        self._times = self._entries(TimeIndex, self._time_path, base_offset, size)
        self._next_offset = next(self._offsets, None)
        self._next_time = next(self._times, None)
        self._max_timestamp = -1
        self._has_passed = False

    def _entries(
        self, kind: type[OffsetIndex] | type[TimeIndex], path: Path, base_offset: int, size: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (offset, position) or (timestamp, offset) of each entry, without the zero tail of a killed Kafka."""
        try:
            data = self._disk.read_file(path)
            if len(data) % kind.ENTRY.size:
                why = f"{len(data)} bytes are not whole entries of {kind.ENTRY.size}"
                raise DamagedFile(path, len(data), why)
            if not data and size and kind is TimeIndex:
                raise DamagedFile(path, 0, f"empty, beside a log of {size} bytes")
        except StorageError as error:
            self._bad(path, 0, str(error.message))
            return
        for key, value in kind.ENTRY.iter_unpack(data):
            if not key and not value:
                return
            yield (key + base_offset, value) if kind is OffsetIndex else (key, value + base_offset)

    def note(self, position: int, header: BatchHeader) -> None:
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        while self._next_offset is not None and self._next_offset[1] <= position:
            if self._next_offset != (header.last_offset, position):
                self._bad(self._offset_path, position, f"no batch that ends with offset, position {self._next_offset}")
            self._next_offset = next(self._offsets, None)
        while self._next_time is not None and self._next_time[1] <= header.last_offset:
            in_damage = self._has_passed and self._next_time[1] < header.base_offset
            if not in_damage and self._next_time != (self._max_timestamp, header.last_offset):
                why = f"timestamp, offset {self._next_time} where the largest up to {header.last_offset} is"
                self._bad(self._time_path, position, f"{why} {self._max_timestamp}")
            self._next_time = next(self._times, None)

    def pass_over(self, end: int) -> None:
        """Skip the entries that point at damage, which ends at `end`."""
        self._has_passed = True
        while self._next_offset is not None and self._next_offset[1] < end:
            self._next_offset = next(self._offsets, None)

    def findings(self) -> Iterator[Finding]:
        """Yield at most one finding for each index. Entries that are left point behind the last batch."""
        for path, left in ((self._offset_path, self._next_offset), (self._time_path, self._next_time)):
            if left is not None:
                self._bad(path, 0, f"entry {left} lies behind the last batch")
        yield from self._found.values()

    def _bad(self, path: Path, position: int, why: str) -> None:
        if path not in self._found:
            size = self._disk.sizes(path.parent).get(path.name, 0)
            self._found[path] = Finding(path, position, size, why, REBUILT)
