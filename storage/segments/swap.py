"""Putting a cleaned segment in the place of those it was made from; a crash at any step leaves the old ones or the new.

    BASE.log.cleaned    being written, then on disk for good               a start removes it
    BASE.log.swap       from here on it is what counts                     a start finishes what follows
    BASE.log.deleted    what it replaces, until readers have gone          a start removes it
    BASE.log            it is in its place

The indexes go the same way, each time before the log, so that a log under any of these names has its indexes under
the same one. The names are Kafka's. A group's last batch is always kept (compaction.py): a `.swap` therefore replaces
exactly the segments from its base offset up to where it ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CorruptBatch
from ..files import DISK, Disk
from . import walk
from .segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_name,
)
from .transaction_index import ABORTED_SUFFIX

if TYPE_CHECKING:
    from ..log import Log

SWAP_SUFFIX = ".swap"
# The order in which names change. Both indexes are always there: as long as the first of them is a .swap, whatever
# bears a final name is of the old segment.
_ORDER = (TIME_INDEX_SUFFIX, INDEX_SUFFIX, ABORTED_SUFFIX, LOG_SUFFIX)


def prepare(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Make the cleaned segment at `base_offset`, which is on disk, the one that counts. May run in any thread."""
    _rename(directory, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX, disk)
    disk.fsync_dir(directory)


def finish(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Give it its final name. What it replaces is out of the way."""
    _rename(directory, base_offset, SWAP_SUFFIX, "", disk)


def install(
    log: Log, old: tuple[Segment, ...], base_offset: int, size: int, aborted_bytes: int, now_ms: int, disk: Disk = DISK
) -> None:
    """Let `log` have it in the place of `old`: `size` bytes of records, `aborted_bytes` of aborted transactions.

    On the log's own thread; the names are durable after an fsync of the directory, the next flush at the latest.
    """
    new = Segment(log.directory, base_offset, size, now_ms, disk)
    new.aborted.found(aborted_bytes)
    log.replace_segments(old, new, lambda: finish(log.directory, base_offset, disk))


def abandon(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Remove it, whatever it is called: the log has changed meanwhile."""
    for extension in (SWAP_SUFFIX, CLEANED_SUFFIX):
        for suffix in SEGMENT_SUFFIXES:
            disk.unlink(_path(directory, base_offset, suffix + extension))


def tidy(directory: Path, disk: Disk = DISK) -> None:
    """Remove what a cleaning that came to no end has left; nothing where the directory has gone."""
    if disk.exists(directory):
        for name in disk.sizes(directory):
            if name.endswith(CLEANED_SUFFIX):
                disk.unlink(directory / name)


def recover(directory: Path, disk: Disk = DISK) -> list[Path]:
    """Finish the swaps that a crash cut short; return the log files that were put in place or taken away by it.

    Called before anything else looks at the directory. Raises DiskError.
    """
    sizes = disk.sizes(directory)
    bases = sorted(filter(None, (_base_of(name, LOG_SUFFIX) for name in sizes)))
    changed: list[Path] = []
    for name in sorted(sizes):
        digits = _base_of(name, LOG_SUFFIX + SWAP_SUFFIX)
        if not digits:
            continue
        base_offset = int(digits)
        end = _end_offset(directory / name, sizes[name], base_offset, disk)
        replaced = [int(each) for each in bases if base_offset <= int(each) < end]
        if end == base_offset and replaced:
            # It cannot be read, and what it was made from is there: then that counts.
            abandon(directory, base_offset, disk)
            continue
        for each in replaced:
            for suffix in SEGMENT_SUFFIXES:
                disk.unlink(_path(directory, each, suffix))
            changed.append(_path(directory, each, LOG_SUFFIX))
        if segment_name(base_offset) + _ORDER[0] + SWAP_SUFFIX in sizes:
            # What retired from this place may have left an index behind.
            for suffix in SEGMENT_SUFFIXES:
                disk.unlink(_path(directory, base_offset, suffix))
        finish(directory, base_offset, disk)
        changed.append(_path(directory, base_offset, LOG_SUFFIX))
    for name in sizes:
        # Indexes whose log did not get so far.
        if name.endswith(SWAP_SUFFIX):
            disk.unlink(directory / name)
    if changed:
        disk.fsync_dir(directory)
    return changed


def _end_offset(path: Path, size: int, base_offset: int, disk: Disk) -> int:
    """Return where a cleaned segment ends; `base_offset` where nothing of it can be read."""
    end = base_offset
    try:
        for _, header in walk.headers(disk, disk.open(path, writable=False), 0, size):
            end = header.next_offset
    except CorruptBatch:
        return base_offset
    return end


def _rename(directory: Path, base_offset: int, old: str, new: str, disk: Disk) -> None:
    for suffix in _ORDER:
        source = _path(directory, base_offset, suffix + old)
        if disk.exists(source):
            disk.rename(source, _path(directory, base_offset, suffix + new))


def _path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / (segment_name(base_offset) + suffix)


def _base_of(name: str, suffix: str) -> str:
    """Return the 20 digits of a file of that suffix, or ''."""
    digits = name.removesuffix(suffix)
    return digits if digits != name and len(digits) == 20 and digits.isdecimal() else ""
