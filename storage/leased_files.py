"""The files that hold a range of a log, for a reader that opens them itself, and links that keep them on disk.

`find_extent` names whole batches in files. `link_files` gives these files second names in a directory of their own:
retention, compaction and deletion may then rename and remove the first ones. The directory is named as that of a
deleted partition, so that the next start, of this broker or of Kafka, removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .deleted_directory import remove_directory
from .errors import OffsetOutOfRange, StaleView, StorageError
from .files import Disk, File, FileRange
from .log_view import LogView
from .segments.location import slot_of
from .segments.segment import Segment
from .segments.transaction_index import AbortedTransaction

# Aborted transactions of one extent. With more, it ends earlier.
MAX_ABORTED = 4_000


class FilePart(NamedTuple):
    """Whole batches in a file, from `position` up to `end`, in bytes."""

    file: File
    name: str
    position: int
    end: int
    base_offset: int
    # The log goes on here: `end` is behind everything that exists below it.
    next_offset: int


class Extent(NamedTuple):
    """A range of a log as parts of its files, in order. It keeps them open."""

    parts: tuple[FilePart, ...]
    # Where the log goes on behind them.
    next_offset: int
    # Those that reach into the parts, by first offset.
    aborted: tuple[AbortedTransaction, ...] = ()


def find_extent(view: LogView, start: int, end: int, up_to: int, *, with_aborted: bool, max_files: int) -> Extent:
    """Return the batches from the one that holds `start` to the one that holds `end` - 1, all below `up_to`.

    There are fewer where they lie in more than `max_files` files or reach damage. Waits for the disk. Raises
    OffsetOutOfRange, CorruptBatch where the damage comes first, DiskError.
    """
    if not view.start_offset <= start <= view.end_offset:
        raise OffsetOutOfRange(start, view.start_offset, view.end_offset)
    extent = _extent(view, start, min(end, up_to), up_to, max_files)
    if not extent.parts or not with_aborted:
        return extent
    aborted = _aborted(view, start, extent, up_to)
    if len(aborted) > MAX_ABORTED:
        # Those that begin behind the cut go. Those that reach over it are open at the same time: they are few.
        cut = max(sorted(each.last_offset for each in aborted)[MAX_ABORTED], start + 1)
        extent = _extent(view, start, cut, up_to, max_files)
        aborted = [each for each in _aborted(view, start, extent, up_to) if each.first_offset < extent.next_offset]
    return extent._replace(aborted=tuple(aborted))


def _extent(view: LogView, start: int, end: int, up_to: int, max_files: int) -> Extent:
    parts: list[FilePart] = []
    segments, offset = view.segments, start
    while offset < end and len(parts) < max_files:
        try:
            located = view.locate(offset, up_to)
        except StorageError:
            if not parts:
                raise
            break
        if located is None:
            offset = max(offset, end)
            break
        slot = slot_of(segments, located.base_offset)
        segment = segments[slot]
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else view.end_offset
        stop, next_offset = located.end, min(following, up_to)
        if segment.damages and stop < segment.size and segment.damage_at(stop):
            # Where the log goes on only the batches before the damage tell.
            next_offset = offset
        elif end < next_offset:
            stop, next_offset = _end_of(segment, end, stop)
        if located.position < stop:
            part = FilePart(located.file, _name(segment), located.position, stop, segment.base_offset, next_offset)
            parts.append(part)
        if next_offset <= offset:
            break
        offset = next_offset
    return Extent(tuple(parts), offset)


def _end_of(segment: Segment, end: int, limit: int) -> tuple[int, int]:
    """Return where the batch that holds `end` - 1 ends, at most `limit`, and the offset behind that."""
    found = segment.find(end - 1)
    if found is None:
        return limit, end
    position, header = found
    if header.base_offset >= end:
        return min(position, limit), end
    return min(position + header.size_bytes, limit), header.next_offset


def _aborted(view: LogView, start: int, extent: Extent, up_to: int) -> list[AbortedTransaction]:
    last = extent.parts[-1]
    return view.aborted_transactions(start, FileRange(last.file, last.position, last.end - last.position), up_to)


def _name(segment: Segment) -> str:
    return segment.path(".log").name


def link_files(parts: Sequence[FilePart], target: Path, disk: Disk) -> None:
    """Make the directory `target` with a link to each file. May run in any thread.

    Raises StaleView where a file's name belongs to another file by now, DiskError also where it has gone, and where the
    file system has no hard links. `target` is then removed.
    """
    disk.mkdir(target)
    try:
        for part in parts:
            disk.link(part.file.path, target / part.name)
            if not disk.is_same(part.file, target / part.name):
                raise StaleView(part.file.path)
    except BaseException:
        remove_directory(target, disk)
        raise
