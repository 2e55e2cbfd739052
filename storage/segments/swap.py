"""Putting a cleaned segment in the place of the segments it was made from. A crash at any step leaves either of them.

    BASE.log.cleaned     being written, then forced to disk                  a start removes it
    BASE.log.swap        from here on this file counts                       a start completes the next steps
    BASE.N.log.deleted   a replaced file, until its readers have gone        a start removes it
    BASE.log             in its place, a second name of the `.swap`          a start does these two steps again
                         the `.swap` is removed

N is another number for each segment that retires: a base offset is cleaned again and again.

Each name of the first kind is durable before the next one is made. The `.swap` goes last, when the directory has been
forced to disk: a power cut may keep the new name and lose the removal of a replaced segment, and then only the `.swap`
tells that the new one stands for both.

The indexes are renamed in the same way, each time before the log, so that a log has its indexes under the same
extension. A cleaning keeps the last batch of a group (compaction.py). Therefore a `.swap` replaces exactly the segments
from its base offset up to where it ends.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import CorruptBatch, UnreadableBatch
from ..files import DISK, Disk
from . import walk
from .names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
    segment_path,
)

# The order in which files are renamed. Both indexes always exist: as long as the first of them is a `.swap`, every
# file with a final name belongs to the old segment.
_ORDER = (TIME_INDEX_SUFFIX, INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)


def prepare(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Rename the files of a cleaned segment, which are on disk, to `.swap`: from now on they count.

    May run in any thread.
    """
    _rename(directory, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX, disk)
    disk.fsync_dir(directory)


def place(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Give the `.swap` files their final names, beside the others. The replaced files must have other names already."""
    for suffix in _ORDER:
        source = segment_path(directory, base_offset, suffix + SWAP_SUFFIX)
        if disk.exists(source):
            target = segment_path(directory, base_offset, suffix)
            disk.unlink(target)
            disk.link(source, target)


def displace(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Undo what place() has done. The replaced files must still have other names."""
    _unlink(directory, base_offset, "", disk)


def finish(directory: Path, base_offset: int, disk: Disk = DISK) -> None:
    """Make the final names durable, then remove those of `.swap`, which has its place or cannot take it.

    May run in any thread.
    """
    disk.fsync_dir(directory)
    # As long as there is a log with this name, a start needs its indexes too.
    disk.unlink(segment_path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX))
    disk.fsync_dir(directory)
    _unlink(directory, base_offset, SWAP_SUFFIX, disk)


def tidy(directory: Path, disk: Disk = DISK) -> None:
    """Remove the files of a cleaning that did not complete. Do nothing where the directory has gone.

    Not while a `.swap` counts.
    """
    if disk.exists(directory):
        names = disk.sizes(directory)
        for name in names:
            base_offset = base_offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)
            if base_offset is not None:
                finish(directory, base_offset, disk)
        for name in names:
            if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)):
                disk.unlink(directory / name)


# -- After a crash ---------------------------------------------------------------------------------


def recover(directory: Path, sizes: dict[str, int], disk: Disk = DISK) -> dict[str, int]:
    """Complete the swaps that a crash interrupted, before anything else looks at the directory.

    `sizes` is what `Disk.sizes` says of it. Return what it says afterwards. Raises DiskError.
    """
    if not any(name.endswith(SWAP_SUFFIX) for name in sizes):
        return sizes
    bases = sorted(base for base in (base_offset_of(name, LOG_SUFFIX) for name in sizes) if base is not None)
    changed = False
    for name in sorted(sizes):
        base_offset = base_offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)
        if base_offset is not None:
            changed |= _recover_one(directory, base_offset, bases, sizes, disk)
    for name in sizes:
        # Indexes whose log was not renamed.
        if name.endswith(SWAP_SUFFIX):
            disk.unlink(directory / name)
    if changed:
        disk.fsync_dir(directory)
    return disk.sizes(directory)


def _recover_one(directory: Path, base_offset: int, bases: list[int], sizes: dict[str, int], disk: Disk) -> bool:
    """Put a cleaned segment in its place, or remove it. Return whether it is in its place."""
    path = segment_path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX)
    end = _end_offset(path, sizes[path.name], base_offset, disk)
    if end is None and base_offset in bases:
        # The cleaned segment cannot be read, and the segments that it was made from still exist: they count.
        _unlink(directory, base_offset, SWAP_SUFFIX, disk)
        return False
    replaced = [] if end is None else [each for each in bases if base_offset <= each < end]
    for each in replaced:
        _unlink(directory, each, "", disk)
    if segment_path(directory, base_offset, _ORDER[0] + SWAP_SUFFIX).name in sizes:
        # A segment that has retired from this place may have left an index.
        _unlink(directory, base_offset, "", disk)
    # Otherwise another power cut could keep a replaced segment beside the final name.
    disk.fsync_dir(directory)
    _rename(directory, base_offset, SWAP_SUFFIX, "", disk)
    return True


def _end_offset(path: Path, size: int, base_offset: int, disk: Disk) -> int | None:
    """Return where a cleaned segment ends, None if it is empty or cannot be read.

    Every batch is read, because its last offset decides which segments are removed.
    """
    end = base_offset
    try:
        for position, header, batch in walk.batches(disk, disk.open(path, writable=False), 0, size):
            walk.check(path, position, header, batch, end, base_offset)
            end = header.next_offset
    except UnreadableBatch:
        # Another try may read it. To remove it, or what it replaces, would be a guess.
        raise
    except CorruptBatch:
        return None
    return end if end > base_offset else None


# -- Names -----------------------------------------------------------------------------------------


def _rename(directory: Path, base_offset: int, old: str, new: str, disk: Disk) -> None:
    for suffix in _ORDER:
        source = segment_path(directory, base_offset, suffix + old)
        if disk.exists(source):
            disk.rename(source, segment_path(directory, base_offset, suffix + new))


def _unlink(directory: Path, base_offset: int, extension: str, disk: Disk) -> None:
    for suffix in SEGMENT_SUFFIXES:
        disk.unlink(segment_path(directory, base_offset, suffix + extension))
