"""A sparse index: fixed-size entries in ascending order, searched by blocks. Base of both in segment_indexes.py.

A search reads the first keys of blocks, which are remembered, then one block, which is kept for the next search. A
memory map would be as quick, but a look-up could not tell beforehand whether touching it waits for the disk, and a bad
sector under it kills the process.

New entries gather in memory and reach the file in chunks (at 4 KiB, at a roll and at a close). One write for each entry
would cost a system call every few KiB of log, and a preallocated writable map, as Kafka's, kills the process when the
disk is full. So the file holds whole entries and nothing else. The zero tail of a file that a crashed Kafka left is
left out.

The loss of an index loses no data: the segment can always build it again. Look-ups never touch bytes past the size that
was checked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Self

from ..errors import DamagedFile, DiskError, damaged_file
from ..files import DISK, Disk, File, NotCached

# The bound of the entries that wait in memory for each index; 512 offset entries are at least 2 MiB of log.
PENDING_BYTES = 4096
# Entries of a block: one page of an offset index. Some 2 MiB of log fill it at least.
BLOCK_ENTRIES = 512


class SparseIndex:
    """Entries of (key, value), both in ascending order. A subclass defines them and their layout.

    One of the two is an offset, which the file has as a difference to the base offset.
    """

    ENTRY: Struct
    # The lowest key, where the values are the offsets; None: the keys are.
    LOWEST_KEY: int | None = None
    # How many entries segment.index.bytes must have room for, behind those that are there.
    ENTRIES_TO_COME = 1

    __slots__ = (
        "_block",
        "_block_number",
        "_disk",
        "_file",
        "_first_keys",
        "_key_base",
        "_last",
        "_pending",
        "_start",
        "_value_base",
        "_written",
        "base_offset",
        "check_name",
        "is_dirty",
        "path",
    )  # fmt: skip

    def __init__(self, path: Path, base_offset: int, written: int = 0, disk: Disk = DISK) -> None:
        self.path = path
        # Of a copy: raises StaleView where the file has another name by now.
        self.check_name: Callable[[], None] | None = None
        self.base_offset = base_offset
        self._key_base, self._value_base = (base_offset, 0) if self.LOWEST_KEY is None else (0, base_offset)
        # What a look-up returns that finds no entry.
        self._start = self.LOWEST_KEY or self._key_base, self._value_base
        self._disk = disk
        self._written = written  # entries in the file
        self._pending = bytearray()  # entries after those, not yet in the file
        self._last: tuple[int, int] | None = None  # the last entry, after its first use
        self._file: File | None = None  # for reading, while look-ups come
        # The block that was searched last, and the first keys of all that were looked at: some 25 KiB a MiB of index.
        self._block, self._block_number = b"", -1
        self._first_keys: dict[int, int] = {}
        # Whether sync() has something to do: the file was written to since the last fsync.
        self.is_dirty = False

    @classmethod
    def create(cls, path: Path, base_offset: int, disk: Disk = DISK) -> Self:
        """Start an empty file."""
        disk.truncate(disk.open(path, create=True), 0)
        index = cls(path, base_offset, 0, disk)
        index.is_dirty = True
        return index

    @classmethod
    def load(cls, path: Path, base_offset: int, log_size: int, disk: Disk = DISK) -> Self:
        """Open an existing file. Raises DamagedFile where it cannot belong to a log of `log_size` bytes."""
        file = disk.open(path, writable=False)
        size = disk.size(file)
        if size % cls.ENTRY.size:
            raise DamagedFile(path, size, f"{size} bytes are not whole entries of {cls.ENTRY.size}")
        index = cls(path, base_offset, size // cls.ENTRY.size, disk)
        if index._written:
            # The last block has all that most checks need, in one read.
            index._file = file
            index._load((index._written - 1) // BLOCK_ENTRIES, cached=False)
        index._skip_zero_tail()
        index._check(log_size)
        index.last_entry()
        index.release()  # a start opens each index, and should keep no file open
        return index

    def __len__(self) -> int:
        return self._written + len(self._pending) // self.ENTRY.size

    def append(self, key: int, value: int) -> None:
        """Add an entry behind all others. `write` brings it to the file."""
        self._pending += self.ENTRY.pack(key - self._key_base, value - self._value_base)
        self._last = key, value

    # -- look-ups ----------------------------------------------------------------------------------

    def lookup(self, key: int, *, cached: bool = False) -> tuple[int, int]:
        """Return the last entry at or below `key`. `cached`: raise NotCached rather than wait for the disk."""
        slot = self._floor(key - self._key_base, cached=cached)
        return self.entry(slot) if slot >= 0 else self._start

    def entry(self, slot: int, *, cached: bool = False) -> tuple[int, int]:
        """Return entry number `slot`. `cached`: raise NotCached rather than wait for the disk."""
        key, value = self._entry(slot, cached=cached)
        return key + self._key_base, value + self._value_base

    def last_entry(self) -> tuple[int, int]:
        """Return the last entry."""
        count = len(self)
        if self._last is None and count:
            self._last = self.entry(count - 1)
        return self._last or self._start

    def entry_below(self, value: int) -> tuple[int, int]:
        """Return the last entry whose value is below `value`."""
        slot = self._first_from(value)
        return self.entry(slot - 1) if slot else self._start

    def first_entry_at(self, value: int, *, cached: bool = False) -> tuple[int, int] | None:
        """Return the first entry with `value` or more, None if there is none.

        `cached`: raise NotCached rather than wait for the disk.
        """
        slot = self._first_from(value, cached=cached)
        return self.entry(slot, cached=cached) if slot < len(self) else None

    # -- for the subclasses ------------------------------------------------------------------------

    def room_for_one_more(self) -> int:
        """Return what segment.index.bytes must be at least for another entry."""
        return (len(self) + self.ENTRIES_TO_COME) * self.ENTRY.size

    def _first_from(self, value: int, *, cached: bool = False) -> int:
        """Return the number of the first entry with `value` or more."""
        return bisect_left(range(len(self)), value, key=lambda slot: self.entry(slot, cached=cached)[1])

    def _entry(self, slot: int, *, cached: bool = False) -> tuple[int, int]:
        """Return entry number `slot` as the file has it, 0 <= slot < len(self)."""
        if slot >= self._written:
            key, value = self.ENTRY.unpack_from(self._pending, (slot - self._written) * self.ENTRY.size)
        elif 0 <= (at := (slot - self._block_number * BLOCK_ENTRIES) * self.ENTRY.size) < len(self._block):
            key, value = self.ENTRY.unpack_from(self._block, at)
        else:
            # A look-up of one entry should keep no file open.
            is_brief = self._file is None and not cached
            file = self._open_to_read() if is_brief else self._reading(cached)
            key, value = self.ENTRY.unpack(self._read(file, slot, 1, cached=cached))
        return key, value

    def _read(self, file: File, slot: int, count: int, *, cached: bool) -> bytes | bytearray:
        """Return the bytes of `count` entries. `cached`: raise NotCached rather than wait."""
        read = self._disk.read_cached if cached else self._disk.read
        try:
            data = read(file, count * self.ENTRY.size, slot * self.ENTRY.size)
        except DiskError as error:
            raise damaged_file(error) from error
        if len(data) != count * self.ENTRY.size:
            raise DamagedFile(self.path, slot * self.ENTRY.size, f"shorter than its {self._written} entries")
        return data

    def _floor(self, key: int, *, cached: bool = False) -> int:
        """Return the number of the last entry whose key is at most `key`, or -1.

        `cached`: raise NotCached rather than wait.
        """
        pending = len(self._pending)
        if pending and self.ENTRY.unpack_from(self._pending, 0)[0] <= key:
            return self._written + self._search(self._pending, key)
        if not self._written:
            return -1
        number = self._block_of(key, cached)
        if number < 0:
            return -1
        return number * BLOCK_ENTRIES + self._search(self._load(number, cached), key)

    def _block_of(self, key: int, cached: bool) -> int:
        """Return the number of the block that holds the last entry at or below `key`, or -1."""
        held, unpack_from = self._block, self.ENTRY.unpack_from
        if held and unpack_from(held, 0)[0] <= key < unpack_from(held, len(held) - self.ENTRY.size)[0]:
            return self._block_number
        blocks = range((self._written - 1) // BLOCK_ENTRIES + 1)
        return bisect_right(blocks, key, key=lambda number: self._first_key(number, cached)) - 1

    def _first_key(self, number: int, cached: bool) -> int:
        key = self._first_keys.get(number)
        if key is None:
            entry = self._read(self._reading(cached), number * BLOCK_ENTRIES, 1, cached=cached)
            key = self._first_keys[number] = self.ENTRY.unpack(entry)[0]
        return key

    def _load(self, number: int, cached: bool) -> bytes | bytearray:
        """Return the entries of a block that are in the file."""
        count = min(BLOCK_ENTRIES, self._written - number * BLOCK_ENTRIES)
        if number != self._block_number or len(self._block) != count * self.ENTRY.size:
            self._block = self._read(self._reading(cached), number * BLOCK_ENTRIES, count, cached=cached)
            self._block_number = number
        return self._block

    def _search(self, entries: bytes | bytearray, key: int) -> int:
        unpack_from, size = self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, len(entries) // size
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
            self.is_dirty = True
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
            self.is_dirty = True

    @property
    def wants_write(self) -> bool:
        return len(self._pending) >= PENDING_BYTES

    def sync(self) -> None:
        """Make durable what was written."""
        if self.is_dirty:
            # Do not create the file: its segment may have been removed meanwhile, and the file must not come back.
            file = self._disk.open(self.path)
            # Before the fsync, because a write may overlap a flush in a thread.
            self.is_dirty = False
            self._disk.fsync(file)

    def release(self) -> None:
        """Close the file and drop the blocks; the next look-up opens it again."""
        self._file = None
        self._block, self._block_number = b"", -1
        self._first_keys = {}

    def twin(self) -> Self:
        """Return a copy for the look-ups of another thread. It does not see later entries."""
        twin = type(self)(self.path, self.base_offset, self._written, self._disk)
        twin._pending = bytearray(self._pending)
        twin._last = self._last
        return twin

    def learn(self, twin: Self) -> None:
        """Take over the file and the blocks of a copy, if the file has not been cut since."""
        if self._file is None and twin._file is not None and twin._written <= self._written:
            self._file, self._first_keys = twin._file, twin._first_keys
            self._block, self._block_number = twin._block, twin._block_number

    def _reading(self, cached: bool) -> File:
        if self._file is None:
            if cached:
                # The name may have to be looked up on disk.
                raise NotCached
            self._file = self._open_to_read()
        return self._file

    def _open_to_read(self) -> File:
        try:
            return self._disk.open(self.path, writable=False)
        finally:
            if self.check_name is not None:
                self.check_name()

    def _open(self) -> File:
        # Opened for each chunk: 1,000 partitions would otherwise hold 2,000 descriptors for a write every 2 MiB.
        return self._disk.open(self.path, create=True)

    def _skip_zero_tail(self) -> None:
        """Leave out the zeros behind the entries: a crashed Kafka leaves its preallocated file.

        No real entry but the first can be all zero.
        """
        if self._written <= 1 or self._entry(self._written - 1) != (0, 0):
            return
        self._keep(bisect_left(range(self._written), True, key=lambda slot: self._entry(slot) == (0, 0)))
