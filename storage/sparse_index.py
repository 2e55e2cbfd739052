"""A sparse index: fixed-size entries in ascending order, searched over a memory map. Parent of offset_index and
time_index.

New entries gather in memory and reach the file in chunks (at 4 KiB, at roll, flush and close): an entry a few KiB of
log would cost a system call each, and a preallocated writable map, as Kafka's, kills the process when the disk is
full. So the file holds whole entries only, as long as it needs to be; the zero tail of a file that a crashed Kafka
left is understood, too.

Losing an index loses nothing: the segment can always build it again. Looking up never touches bytes past the size
that was checked.
"""

from __future__ import annotations

from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import Self

from .errors import DamagedFile
from .files import DISK, Disk, File

# Bound of what waits in memory for each index; 512 offset entries are at least 2 MiB of log.
PENDING_BYTES = 4096


class SparseIndex:
    """Entries of (key, value); keys ascend. A subclass says which is which and how they are laid out."""

    ENTRY: Struct

    __slots__ = ("_disk", "_file_dirty", "_last", "_map", "_mapped", "_pending", "_written", "base_offset", "path")

    def __init__(self, path: Path, base_offset: int, written: int = 0, disk: Disk = DISK) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._written = written  # entries in the file
        self._pending = bytearray()  # entries after those, not yet in the file
        self._last: tuple[int, int] | None = None  # the last entry, once somebody has asked for it
        self._map: mmap | None = None
        self._mapped = 0  # Invariant: <= _written
        self._file_dirty = False  # written to since the last fsync

    @classmethod
    def create(cls, path: Path, base_offset: int, disk: Disk = DISK) -> Self:
        """Start an empty file."""
        disk.truncate(disk.open(path, create=True), 0)
        index = cls(path, base_offset, 0, disk)
        index._file_dirty = True
        return index

    @classmethod
    def load(cls, path: Path, base_offset: int, log_size: int, disk: Disk = DISK) -> Self:
        """Take an existing file over. Raises DamagedFile where it cannot belong to a log of `log_size` bytes."""
        file = disk.open(path, writable=False)
        size = disk.size(file)
        if size % cls.ENTRY.size:
            raise DamagedFile(path, size, f"{size} bytes are not whole entries of {cls.ENTRY.size}")
        index = cls(path, base_offset, size // cls.ENTRY.size, disk)
        index._skip_zero_tail()
        index._check(log_size)
        return index

    def __len__(self) -> int:
        return self._written + len(self._pending) // self.ENTRY.size

    # -- for the subclasses ------------------------------------------------------------------------

    def _add(self, key: int, value: int) -> None:
        self._pending += self.ENTRY.pack(key, value)
        self._last = key, value

    def _last_entry(self) -> tuple[int, int] | None:
        count = len(self)
        if self._last is None and count:
            self._last = self._entry(count - 1)
        return self._last

    def _entry(self, slot: int) -> tuple[int, int]:
        """Return entry number `slot`, 0 <= slot < len(self)."""
        if slot >= self._written:
            key, value = self.ENTRY.unpack_from(self._pending, (slot - self._written) * self.ENTRY.size)
        elif slot < self._mapped:
            key, value = self.ENTRY.unpack_from(self._mapping(slot), slot * self.ENTRY.size)
        else:
            # One entry is not worth a map: a broker that starts asks each of its indexes for the last one.
            key, value = self.ENTRY.unpack(self._read(slot))
        return key, value

    def _read(self, slot: int) -> bytes:
        file = self._disk.open(self.path, writable=False)
        data = self._disk.read(file, self.ENTRY.size, slot * self.ENTRY.size)
        if len(data) != self.ENTRY.size:
            raise DamagedFile(self.path, slot * self.ENTRY.size, f"shorter than its {self._written} entries")
        return data

    def _floor(self, key: int) -> int:
        """Return the number of the last entry whose key is at most `key`, or -1."""
        pending = len(self._pending)
        if pending and self.ENTRY.unpack_from(self._pending, 0)[0] <= key:
            return self._written + self._search(self._pending, pending // self.ENTRY.size, key)
        if not self._written:
            return -1
        # A map that is too short serves as long as its last key lies above what is looked for.
        if self._mapped and self.ENTRY.unpack_from(self._mapping(0), (self._mapped - 1) * self.ENTRY.size)[0] > key:
            return self._search(self._mapping(0), self._mapped, key)
        return self._search(self._mapping(self._written - 1), self._written, key)

    def _search(self, entries: bytearray | mmap, count: int, key: int) -> int:
        unpack_from, size = self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, count
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(entries, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _keep(self, count: int) -> None:
        """Drop all entries from number `count` on."""
        if count >= len(self):
            return
        self._last = None
        if count < self._written:
            self._pending.clear()
            self.release()
            file = self._open()
            self._disk.truncate(file, count * self.ENTRY.size)
            self._written = count
            self._file_dirty = True
        else:
            del self._pending[(count - self._written) * self.ENTRY.size :]

    def _check(self, log_size: int) -> None:
        """Raise DamagedFile where the last entry is impossible."""
        raise NotImplementedError

    # -- file --------------------------------------------------------------------------------------

    def write(self) -> None:
        """Bring the file up to date."""
        if self._pending:
            self._disk.write(self._open(), self._pending, self._written * self.ENTRY.size)
            self._written += len(self._pending) // self.ENTRY.size
            self._pending.clear()
            self._file_dirty = True

    @property
    def wants_write(self) -> bool:
        return len(self._pending) >= PENDING_BYTES

    def sync(self) -> None:
        """Make durable what was written."""
        if self._file_dirty:
            file = self._open()
            # Before the fsync, for a flush in a thread may overlap a write.
            self._file_dirty = False
            self._disk.fsync(file)

    @property
    def is_dirty(self) -> bool:
        """Whether sync() has something to do."""
        return self._file_dirty

    def release(self) -> None:
        """Give the map back; the next look-up makes a new one."""
        if self._map is not None:
            self._map.close()
            self._map = None
            self._mapped = 0

    def _open(self) -> File:
        # Opened for each chunk: 1,000 partitions would otherwise hold 2,000 descriptors for a write every 2 MiB.
        return self._disk.open(self.path, create=True)

    def _mapping(self, slot: int) -> mmap:
        """Return a map that covers entry `slot` of the file."""
        if self._map is None or slot >= self._mapped:
            self.release()
            size = self._written * self.ENTRY.size
            file = self._disk.open(self.path, writable=False)
            if self._disk.size(file) < size:
                raise DamagedFile(self.path, self._disk.size(file), f"shorter than its {self._written} entries")
            self._map = self._disk.map(file, size)
            self._mapped = self._written
        return self._map

    def _skip_zero_tail(self) -> None:
        """A crashed Kafka leaves its preallocated file: entries, then zeros.

        No real entry but the first can be all zero.
        """
        if self._written <= 1 or self._entry(self._written - 1) != (0, 0):
            return
        low, high = 0, self._written
        while low < high:
            middle = (low + high) >> 1
            if self._entry(middle) != (0, 0):
                low = middle + 1
            else:
                high = middle
        self._keep(low)
