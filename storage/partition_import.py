"""The import of a partition's folder that Kafka (or another Odradek) has written: its records keep their offsets.

The source is read to its last byte first and is never changed. A torn end of the newest segment is left out, as a start
would cut it, and is reported. Damage anywhere else rejects the whole folder, because an import must not lose records.
Indexes that do not agree with their segment are built again.

Until the owner renames it, the copy has a name that the next start removes. So a crash leaves no half import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .checkpoints import LEADER_EPOCH, write_partition_metadata
from .deleted_directory import DELETED_DIR_SUFFIX, remove_directory
from .errors import StorageError
from .files import DISK, Disk, FileRange
from .integrity import CUT, Finding, recover_offline, segment_files, verify
from .producer_snapshot import SNAPSHOT_SUFFIX
from .recovery_report import Cut
from .segments.names import LOG_SUFFIX, SEGMENT_SUFFIXES

_COPIED = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
# The size of one write; it fits the CPU's cache.
_CHUNK_BYTES = 1024 * 1024


class ImportRejected(StorageError):
    """A folder cannot be imported as it is. The text says why, with file and position."""


@dataclass(slots=True, frozen=True)
class Imported:
    """A partition's folder that was copied, and can be renamed."""

    source: Path
    copy: Path
    log_start_offset: int
    end_offset: int
    leader_epoch: int  # the newest in it, -1 if there is none
    producer_id: int  # the largest id among its producers, -1 if there is none
    cuts: tuple[Cut, ...]


def import_folder(
    source: Path,
    data_dir: Path,
    log_start_offset: int,
    now_ms: int,
    progress: Callable[[int], None] = lambda _: None,
    disk: Disk = DISK,
) -> Imported:
    """Check `source` and copy it into `data_dir`, forced to disk. Raises ImportRejected, DiskError."""
    segments = segment_files(source, disk)
    if not segments:
        raise ImportRejected(f"{source} has no segment (a file of 20 digits and .log)")
    newest = segments[-1][0]
    findings = list(verify(source, newest, progress, disk))
    _reject_damage(findings, segments[-1][1])
    copy = data_dir / f"{source.name}.import{DELETED_DIR_SUFFIX}"
    if disk.exists(copy):
        remove_directory(copy, disk)
    disk.mkdir(copy)
    _copy(source, copy, {each.path for each in findings}, disk)
    return _complete(source, copy, newest, log_start_offset, now_ms, disk)


def finish(imported: Imported, target: Path, topic_id: bytes, disk: Disk = DISK) -> None:
    """Give the copy its name and its topic. Durable after fsync_dir of the data directory."""
    write_partition_metadata(imported.copy, topic_id, disk)
    disk.rename(imported.copy, target)


def _reject_damage(findings: list[Finding], newest: Path) -> None:
    for each in findings:
        if each.path.suffix == LOG_SUFFIX and not (each.path == newest and each.at_start == CUT):
            raise ImportRejected(f"{each.path} at {each.position}: {each.why}")


def _copy(source: Path, copy: Path, bad: set[Path], disk: Disk) -> None:
    for name, size in sorted(disk.sizes(source).items()):
        path = source / name
        is_log = path.suffix == LOG_SUFFIX
        wanted = name == LEADER_EPOCH or (path.suffix in _COPIED and path.stem.isdecimal() and len(path.stem) == 20)
        if not wanted or (path in bad and not is_log):
            continue
        file = disk.open(copy / name, create=True)
        original = disk.open(path, writable=False)
        for position in range(0, size, _CHUNK_BYTES):
            data = FileRange(original, position, min(_CHUNK_BYTES, size - position), disk).read()
            disk.write(file, data, position)
        disk.fsync(file)


def _complete(source: Path, copy: Path, newest: int, log_start_offset: int, now_ms: int, disk: Disk) -> Imported:
    """Open the copy as a start after a crash does, which cuts the torn end, and close it with all indexes."""
    log = recover_offline(copy, newest, log_start_offset, now_ms, disk)
    producer_id = max((each for each, _ in log.producers.items()), default=-1)
    return Imported(
        source, copy, log.log_start_offset, log.log_end_offset, log.epochs.latest, producer_id, tuple(log.recovery.cuts)
    )
