"""Records that a start has found lost and no other replica has brought back: `lost-records-checkpoint`.

It lies in the partition's directory. Its one entry is the first offset whose record may be lost. Without it only the
start that finds a loss would know of it: that one makes missing files again, and a start after it misses nothing.
Kafka does not look at this file.
"""

from __future__ import annotations

from pathlib import Path

from .checkpoints import parse_int, read_entries, write_entries
from .errors import DamagedFile
from .files import Disk

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
