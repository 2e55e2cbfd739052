"""Damage that was found in a log and stays: `known-damage-checkpoint` in the partition's directory.

`odradek log verify --repair` writes it, and a start that reads everything because the recovery point is not known. An
entry is the base offset of a segment, position and size of the damage in its log file, and the CRC-32C of these bytes.
A start marks the damage, so that readers get an error there, also where only a CRC is wrong, which a start does not
look for. An entry whose bytes have changed is passed over. Kafka does not look at this file.

`lost-records-checkpoint` beside it has records that a start has found lost and no other replica has brought back. Its
one entry is the first offset whose record may be lost. Without it only the start that finds a loss would know of it:
that one makes missing files again, and a start after it misses nothing. Kafka does not look at this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..protocol.records.crc import crc32c
from .checkpoints import parse_int, read_entries, write_entries
from .errors import DamagedFile, DiskError, is_unreadable
from .files import DISK, Disk, File
from .segments.damage import Damage
from .segments.names import LOG_SUFFIX, base_offset_of
from .segments.segment import Segment
from .segments.segment_file import MAX_DAMAGES

KNOWN_DAMAGE = "known-damage-checkpoint"
WHY = "it was found earlier, when the whole file was checked"
_CHUNK_BYTES = 1024 * 1024


class KnownDamage(NamedTuple):
    """One entry."""

    base_offset: int
    position: int
    size: int
    crc: int


def write_known(directory: Path, damages: Iterable[Damage], disk: Disk = DISK) -> None:
    """Write down the damage of a partition's segments, durably, in the place of what was known.

    What the disk cannot read has no CRC and is left out: the broker meets it by itself. Raises DiskError.
    """
    known = [each for each in (_known(damage, disk) for damage in damages) if each is not None][:MAX_DAMAGES]
    path = directory / KNOWN_DAMAGE
    if known or disk.exists(path):
        write_entries(path, (" ".join(map(str, each)) for each in known), disk)


def read_known(directory: Path, disk: Disk = DISK) -> list[KnownDamage]:
    """Return what is known; [] if the file is missing. Raises DamagedFile, DiskError."""
    path = directory / KNOWN_DAMAGE
    lines = enumerate(read_entries(path, 4, disk), 3)
    return [KnownDamage(*(parse_int(path, line, word) for word in words)) for line, words in lines]


def mark_known(directory: Path, segments: Mapping[int, Segment], disk: Disk = DISK) -> list[Damage]:
    """Mark the damage that is known and still there, in segments by base offset; return it. Raises DiskError."""
    try:
        known = read_known(directory, disk)
    except DamagedFile:
        # Another run of the repair writes it again.
        return []
    marked: list[Damage] = []
    for each in known:
        segment = segments.get(each.base_offset)
        if segment is not None and is_unchanged(each, segment.file, segment.size, disk):
            marked.append(segment.mark(each.position, WHY, each.position + each.size))
    return marked


def is_unchanged(known: KnownDamage, file: File, size: int, disk: Disk = DISK) -> bool:
    """Return whether the bytes of an entry are still those that were damaged. `size` is the log file's."""
    if not 0 <= known.position < known.position + known.size <= size:
        return False
    return _crc_of(file, known.position, known.size, disk) == known.crc


def _known(damage: Damage, disk: Disk) -> KnownDamage | None:
    base_offset = base_offset_of(damage.path.name, LOG_SUFFIX)
    crc = _crc_of(disk.open(damage.path, writable=False), damage.position, damage.size, disk)
    if base_offset is None or crc is None:
        return None
    return KnownDamage(base_offset, damage.position, damage.size, crc)


def _crc_of(file: File, position: int, size: int, disk: Disk) -> int | None:
    """Return the CRC-32C of a range of a file, None where the disk cannot read it."""
    crc = 0
    try:
        for at in range(position, position + size, _CHUNK_BYTES):
            crc = crc32c(disk.read(file, min(_CHUNK_BYTES, position + size - at), at), crc)
    except DiskError as error:
        if is_unreadable(error):
            return None
        raise
    return crc


LOST_RECORDS = "lost-records-checkpoint"


def write_lost(directory: Path, offset: int, disk: Disk) -> None:
    """Note, durably, that records from `offset` on may be lost. Raises DiskError."""
    write_entries(directory / LOST_RECORDS, [str(offset)], disk)


def read_lost(directory: Path, disk: Disk) -> int:
    """Return the offset that was noted; 0 where the file says none, because all may be lost. Raises DiskError."""
    path = directory / LOST_RECORDS
    try:
        return min((parse_int(path, 3, words[0]) for words in read_entries(path, 1, disk)), default=0)
    except DamagedFile:
        return 0


def forget_lost(directory: Path, disk: Disk) -> None:
    """Remove the note, durably, before anything is appended: later records are not lost. Raises DiskError."""
    disk.unlink(directory / LOST_RECORDS)
    disk.fsync_dir(directory)
