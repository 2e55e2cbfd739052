"""A scrub: reading a closed segment again, to find damage before a client needs the records.

Damage is noted as a start or a reader notes it (damage.py). Each batch is read from the disk itself: its pages are
dropped from the page cache first, because the cache tells what was written, not what can be read back. They are
dropped afterwards, too, unless they were cached before, so that a scrub does not displace the pages of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...protocol.records.batch import BatchHeader
from ..errors import CorruptBatch
from ..files import Disk, File
from . import walk
from .damage import MISPLACED, Damage
from .damage_end import next_sound
from .names import LOG_SUFFIX
from .segment import Segment
from .segment_file import MAX_DAMAGES

# One page, which tells whether the cache holds a part of the file.
_PROBE_BYTES = 4096


class Stopped(Exception):
    """The scrub was stopped."""


def scrub(
    segment: Segment, up_to: int, disk: Disk, is_stopping: Callable[[], bool] = lambda: False
) -> Iterator[int | Damage]:
    """Yield the size of each sound batch after reading it, and each damage that was not known.

    `segment` belongs to the caller (Segment.twin) and notes the damage. The next segment begins at `up_to`, so none of
    its offsets reaches that. `is_stopping` is called before each read, because the search for the end of damage may
    take long. Raises Stopped when it returns True, DiskError.
    """
    reads, order = _FromDisk(disk, is_stopping), _Order(segment.base_offset, up_to)
    position = 0
    while position < segment.size:
        damage = segment.next_damage(position)
        if damage is not None and damage.position <= position:
            position = damage.end
            continue
        try:
            end = damage.position if damage is not None else segment.size
            for at, header, batch in walk.batches(reads, segment.file, position, end):
                walk.check(segment.path(LOG_SUFFIX), at, header, batch, segment.base_offset, segment.base_offset)
                for misplaced, size in order.judge(at, header):
                    yield segment.mark(misplaced, MISPLACED, misplaced + size)
                position = at + header.size_bytes
                yield header.size_bytes
        except CorruptBatch as error:
            yield segment.mark(error.position, error.why, _end(reads, segment, error.position))


def _end(reads: _FromDisk, segment: Segment, position: int) -> int:
    if len(segment.damages) >= MAX_DAMAGES:
        return segment.size
    starts = segment.starts_behind(position)
    return next_sound(reads, segment.file, position, segment.size, segment.base_offset, starts)


class _Order:
    """Checks that offsets ascend. No CRC covers them: of two that disagree, the one that fits both before it counts."""

    def __init__(self, base_offset: int, up_to: int) -> None:
        self._due_before = self._due = base_offset  # the lowest offsets that may come before and behind the last batch
        self._last: tuple[int, BatchHeader] | None = None
        self._up_to = up_to

    def judge(self, position: int, header: BatchHeader) -> list[tuple[int, int]]:
        """Take the next batch; return (position, size) of a misplaced batch, if there is one."""
        if header.next_offset > self._up_to:
            return [(position, header.size_bytes)]
        misplaced: list[tuple[int, int]] = []
        if header.base_offset < self._due:
            last = self._last
            if last is None or last[1].base_offset == self._due_before or header.base_offset < self._due_before:
                return [(position, header.size_bytes)]
            misplaced.append((last[0], last[1].size_bytes))
        else:
            self._due_before = self._due
        self._due, self._last = header.next_offset, (position, header)
        return misplaced


class _FromDisk(Disk):
    """Reads from the disk itself, and leaves the page cache as it was."""

    def __init__(self, disk: Disk, is_stopping: Callable[[], bool]) -> None:
        self._disk = disk
        self._is_stopping = is_stopping

    def read(self, file: File, size: int, position: int) -> bytes:
        data = bytearray(size)
        return bytes(memoryview(data)[: self.read_into(file, memoryview(data), position)])

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        if self._is_stopping():
            raise Stopped
        was_cached = self._disk.read_nowait(file, min(_PROBE_BYTES, len(target)), position) is not None
        self._disk.forget(file, len(target), position)
        count = self._disk.read_into(file, target, position)
        if not was_cached:
            self._disk.forget(file, len(target), position)
        return count
