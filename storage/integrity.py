"""The offline check of a partition's folder (`odradek log verify`): every byte is read.

Every batch of every segment must be whole, of magic 2, with a right CRC and ascending offsets. Every index entry must
point at the batch that it names. Snapshots and the small files must parse. `verify` changes nothing. `repair` does what
a start after a crash does: it cuts the tail at the first bad batch past the recovery point and builds indexes again.
Damage below the recovery point stays, and repair writes it down (known_damage.py), so that the broker knows of it from
its next start on. Where the recovery point is not known (-1), only the end of the newest segment is cut.

The indexes of a segment are checked only if it ends at or below the recovery point. Otherwise a start builds new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .checkpoints import read_partition_metadata
from .config import LogConfig
from .errors import CorruptBatch, DamagedFile, StorageError, WrongCrc
from .files import DISK, Disk
from .known_damage import KNOWN_DAMAGE, KnownDamage, is_unchanged, read_known, write_known
from .leader_epochs import LeaderEpochs
from .log import Log
from .producer_snapshot import SNAPSHOT_SUFFIX
from .producer_snapshot import decode as decode_snapshot
from .recovery_report import RecoveryReport
from .segments import walk
from .segments.damage import Damage
from .segments.damage_end import next_sound
from .segments.index_entries import IndexEntries
from .segments.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, base_offset_of
from .segments.segment_indexes import starts_behind

CUT = "cut"
# Readers of such bytes get CORRUPT_MESSAGE.
REFUSED = "stays, readers get an error"
# Only a CRC is wrong. A start does not look for that, and the broker sends such a batch as Kafka does.
SERVED = "stays, and is served"
# An earlier repair has written it down.
KNOWN = "known, readers get an error"
# What a start leaves as it is.
STAYS = (REFUSED, SERVED, KNOWN)
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

    @property
    def stays(self) -> bool:
        """Whether a start leaves these bytes as they are."""
        return self.at_start in STAYS


@dataclass(slots=True, frozen=True)
class Gap:
    """Offsets [first, end) that no batch holds, before the batch at `position`. A cleaning leaves gaps: no fault."""

    path: Path
    position: int
    first: int
    end: int


OnGap = Callable[[Gap], object]


def segment_files(directory: Path, disk: Disk = DISK) -> list[tuple[int, Path, int]]:
    """Return (base offset, path, size) of the segments in a partition's folder, in order."""
    found = [
        (base_offset, directory / name, size)
        for name, size in disk.sizes(directory).items()
        if (base_offset := base_offset_of(name, LOG_SUFFIX)) is not None
    ]
    return sorted(found)


def verify(
    directory: Path,
    recovery_point: int,
    progress: Progress = lambda _: None,
    disk: Disk = DISK,
    on_gap: OnGap = lambda _: None,
) -> Iterator[Finding]:
    """Yield what is wrong in a partition's folder. `progress` is called with the bytes of each batch that was read.

    `recovery_point`: -1 where it is not known. `on_gap` is told of offsets that no batch holds. Raises DiskError.
    """
    yield from _small_files(directory, disk)
    due: int | None = None
    files = segment_files(directory, disk)
    for number, (base_offset, path, size) in enumerate(files):
        segment = _Segment(path, base_offset, size, recovery_point, disk, is_newest=number == len(files) - 1)
        if due is not None and base_offset < due:
            why = f"the segment before it holds offsets up to {due - 1}"
            yield Finding(path, 0, size, why, CUT if 0 <= recovery_point <= base_offset else REFUSED)
        elif due is not None and base_offset > due:
            on_gap(Gap(path, 0, due, base_offset))
        yield from segment.verify(progress, on_gap)
        due = None if segment.ends_damaged else max(due or 0, segment.next_offset)
        if segment.is_cut:
            yield from _behind(directory, base_offset, disk)
            return


def repair(
    directory: Path, recovery_point: int, log_start_offset: int, findings: list[Finding], now_ms: int, disk: Disk = DISK
) -> tuple[RecoveryReport, int]:
    """Do what a start after a crash does, and write down the damage that stays.

    Return the report, and the offset up to which everything is on disk now. `findings` are those of `verify`. The
    indexes among them are removed first, because a start checks them less.
    """
    for each in findings:
        if each.path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            disk.unlink(each.path)
    log = recover_offline(directory, recovery_point, log_start_offset, now_ms, disk)
    damages = [Damage(each.path, each.position, each.position + each.size, each.why) for each in findings if each.stays]
    write_known(directory, (each for each in damages if disk.exists(each.path)), disk)
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
    yield from look(directory / KNOWN_DAMAGE, lambda: read_known(directory, disk), REMOVED)
    epochs = directory / "leader-epoch-checkpoint"
    yield from look(epochs, lambda: LeaderEpochs.load(directory, disk), REBUILT)
    for name in sorted(disk.sizes(directory)):
        if name.endswith(SNAPSHOT_SUFFIX):
            path = directory / name
            yield from look(path, lambda path=path: decode_snapshot(disk.read_file(path), path), REMOVED)


class _Segment:
    """One segment while it is checked."""

    def __init__(
        self, path: Path, base_offset: int, size: int, recovery_point: int, disk: Disk, *, is_newest: bool
    ) -> None:
        self.next_offset = base_offset
        self.is_cut = False
        # Whether damage reaches the end, so that nobody knows which offsets it held.
        self.ends_damaged = False
        self._path = path
        self._base_offset = base_offset
        self._size = size
        self._recovery_point = recovery_point
        self._disk = disk
        self._is_newest = is_newest
        self._file = disk.open(path, writable=False)

    def verify(self, progress: Progress, on_gap: OnGap) -> Iterator[Finding]:
        entries = IndexEntries(self._path, self._base_offset, self._size, self._disk)
        position = 0
        while position < self._size:
            try:
                for at, header, data in walk.batches(self._disk, self._file, position, self._size):
                    walk.check(self._path, at, header, data, self.next_offset, self._base_offset)
                    if header.base_offset > self.next_offset and not self.ends_damaged:
                        on_gap(Gap(self._path, at, self.next_offset, header.base_offset))
                    entries.note(at, header)
                    self.next_offset, self.ends_damaged = header.next_offset, False
                    position = at + header.size_bytes
                    progress(header.size_bytes)
            except CorruptBatch as error:
                end = self._damage_end(error)
                if self._is_torn(end):
                    self.is_cut = True
                    yield Finding(self._path, error.position, self._size - error.position, error.why, CUT)
                    return
                progress(end - error.position)
                position, self.ends_damaged = end, True
                entries.pass_over(end)
                yield Finding(self._path, error.position, end - error.position, error.why, self._at_start(error, end))
        if self.next_offset <= self._recovery_point:
            for path, at, why in entries.faults():
                yield Finding(path, at, self._disk.sizes(path.parent).get(path.name, 0), why, REBUILT)

    def _damage_end(self, error: CorruptBatch) -> int:
        try:
            starts = starts_behind(self._disk.read_file(self._path.with_suffix(INDEX_SUFFIX)), error.position)
        except StorageError:
            starts = frozenset[int]()
        return next_sound(self._disk, self._file, error.position, self._size, self._base_offset, starts)

    def _is_torn(self, damage_end: int) -> bool:
        """Return whether a start cuts the log here. Without a recovery point only the end of the log is cut."""
        if self._recovery_point < 0:
            return self._is_newest and damage_end >= self._size
        return self.next_offset >= self._recovery_point

    def _at_start(self, error: CorruptBatch, end: int) -> str:
        """Return what a start makes of damage that stays."""
        for each in self._known():
            if (each.position, each.size) == (error.position, end - error.position):
                return KNOWN if is_unchanged(each, self._file, self._size, self._disk) else REFUSED
        # The last batch decides where the log ends: its CRC is checked. Without a recovery point every CRC is.
        is_checked = self._recovery_point < 0 or (self._is_newest and end >= self._size)
        return SERVED if isinstance(error, WrongCrc) and not is_checked else REFUSED

    def _known(self) -> list[KnownDamage]:
        try:
            known = read_known(self._path.parent, self._disk)
        except DamagedFile:
            return []
        return [each for each in known if each.base_offset == self._base_offset]


def recover_offline(directory: Path, recovery_point: int, log_start_offset: int, now_ms: int, disk: Disk = DISK) -> Log:
    """Recover the log in `directory` and close it; return it closed. Raises StorageError.

    `recovery_point` (-1: not known) and `log_start_offset` come from the checkpoints.
    """
    log = Log.open(
        directory,
        # Only a broker knows when producers expire.
        LogConfig(producer_id_expiration_ms=2**62),
        clean=False,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        disk=disk,
    )
    log.load_indexes()
    log.close()
    return log
