"""The transaction index, `BASE.txnindex`: the aborted transactions of one segment, in Kafka's layout, big-endian.

    version int16 = 0 | producer id int64 | first offset int64 | last offset int64 | last stable offset int64   34 bytes

The first offset is that of the transaction's first batch. The last offset is that of its marker, which lies in this
segment; the records may lie in earlier ones. The last stable offset is that of the log after this transaction. Entries
ascend by last offset, and their last stable offsets never fall: behind the first entry that reaches the end of a read,
no entry can concern the read. The file exists from the first abort on.

Promise: an entry is written before its marker, so that a reader who sees an aborted record always finds its entry.
Recovery builds the index again from the markers. `sync` comes before the recovery point passes an entry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import Marker, marker_in
from ...protocol.records.errors import RecordError
from ..errors import DamagedFile, DiskError, StorageError, damaged_file, is_unreadable
from ..files import DISK, Disk, File, read_surely

_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
# Entries of one read. It bounds the memory where a log has millions of them.
_CHUNK_ENTRIES = 1024


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def marker_of(disk: Disk, file: File, position: int, header: BatchHeader) -> Marker | None:
    """Return the marker in the control batch at `position` of a log file.

    None for a control batch of another kind, for one that compaction has emptied, and for one that is damaged or that
    the disk cannot read: readers cannot pass it.
    """
    try:
        return marker_in(read_surely(disk, file, header.size_bytes, position))
    except RecordError:
        return None
    except DiskError as error:
        if is_unreadable(error):
            return None
        raise


class TransactionIndex:
    """The entries of one segment. Only the last one is kept in memory, and no file stays open."""

    __slots__ = ("_count", "_disk", "_held", "_is_too_long", "_last", "check_name", "damage", "is_dirty", "path")

    def __init__(self, path: Path, size_bytes: int = 0, disk: Disk = DISK) -> None:
        self.path = path
        # Of a copy: raises StaleView where the file has another name by now.
        self.check_name: Callable[[], None] | None = None
        self._disk = disk
        self._count = 0
        self._last: AbortedTransaction | None = None  # looked up when it is needed
        # Whether sync() has something to do.
        self.is_dirty = False
        self._is_too_long = False  # the file holds more than the entries: a failed append that could not be cut off
        # Why the file cannot be read; the entries are then held in memory, as the log tells them.
        self.damage: DamagedFile | None = None
        self._held: list[AbortedTransaction] | None = None
        self.found(size_bytes)

    def found(self, size_bytes: int) -> bool:
        """Take over a file of that size. Return False if it ends inside an entry: then it must be built again."""
        self._count = size_bytes // ENTRY_BYTES
        return size_bytes % ENTRY_BYTES == 0

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """How many bytes of the file are entries."""
        return self._count * ENTRY_BYTES

    # -- writing -----------------------------------------------------------------------------------

    def append(self, entry: AbortedTransaction) -> None:
        """Write an entry. On a DiskError the number of entries stays."""
        self._disk.write(self._open(), _ENTRY.pack(_VERSION, *entry), self._count * ENTRY_BYTES)
        self.is_dirty = True
        self._count += 1
        self._last = entry

    def drop_last(self) -> None:
        """Remove the newest entry, because its marker could not be written."""
        self._count -= 1
        self._last = None
        self._is_too_long = True
        try:
            self.trim()
        except StorageError:
            # The next append overwrites it, and a segment is not sealed before it is trimmed.
            return

    def trim(self) -> None:
        """Make the file end with the last entry."""
        if self._is_too_long:
            self._disk.truncate(self._open(), self._count * ENTRY_BYTES)
            self._is_too_long = False
            self.is_dirty = True

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker lies at `offset` or later."""
        keep = self.first_ending_at(offset)
        if keep < self._count:
            self._count = keep
            self._last = None
            self._is_too_long = True
            self.trim()

    def clear(self) -> None:
        """Remove all entries, and the file."""
        self._disk.unlink(self.path)
        self._count = 0
        self._last = None
        self.is_dirty = self._is_too_long = False

    def sync(self) -> None:
        """Make durable what was written. A flush in a thread may overlap an append."""
        if self.is_dirty:
            # Do not create the file: its segment may have been removed meanwhile, and the file must not come back.
            file = self._disk.open(self.path)
            self.is_dirty = False
            self._disk.fsync(file)

    # -- damage ------------------------------------------------------------------------------------

    def hold(self, entries: list[AbortedTransaction], damage: DamagedFile) -> None:
        """Take these entries in the place of a file that cannot be read. For a copy that nobody appends to."""
        self._held, self.damage = entries, damage
        self._count, self._last = len(entries), None

    @property
    def is_held(self) -> bool:
        """Whether the entries are in memory and not in the file."""
        return self._held is not None

    def rewrite(self) -> None:
        """Write the entries that are held in the place of the file, durably. Raises DiskError."""
        data = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self._held or ())
        self._disk.write_atomically(self.path, data)
        self._held = None

    # -- reading -----------------------------------------------------------------------------------

    def collect(self, offset: int, up_to: int, *, cached: bool = False) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that reach into [offset, up_to), and whether later segments can have no more.

        `cached`: raise NotCached rather than wait for the disk. Raises DamagedFile, DiskError.
        """
        found: list[AbortedTransaction] = []
        if not self._count or self._newest(cached).last_offset < offset:
            return found, False
        slot = self.first_ending_at(offset, cached)
        while slot < self._count:
            chunk = self._read(slot, min(_CHUNK_ENTRIES, self._count - slot), cached)
            for entry in chunk:
                if entry.first_offset < up_to:
                    found.append(entry)
                if entry.last_stable_offset >= up_to:
                    return found, True
            slot += len(chunk)
        return found, False

    def entries(self) -> list[AbortedTransaction]:
        """Return all of them, oldest first."""
        return self._read(0, self._count) if self._count else []

    def _newest(self, cached: bool) -> AbortedTransaction:
        if self._last is None:
            self._last = self._read(self._count - 1, 1, cached)[0]
        return self._last

    def first_ending_at(self, offset: int, cached: bool = False) -> int:
        """Return the number of the first entry whose marker lies at `offset` or later. Raises as `collect`."""
        return bisect_left(range(self._count), offset, key=lambda slot: self._read(slot, 1, cached)[0].last_offset)

    def _read(self, slot: int, count: int, cached: bool = False) -> list[AbortedTransaction]:
        if self._held is not None:
            return self._held[slot : slot + count]
        size, position = count * ENTRY_BYTES, slot * ENTRY_BYTES
        try:
            file = self._disk.open(self.path, writable=False)
        finally:
            if self.check_name is not None:
                self.check_name()
        try:
            data = (self._disk.read_cached if cached else self._disk.read)(file, size, position)
        except DiskError as error:
            raise damaged_file(error) from error
        if len(data) != size:
            raise DamagedFile(self.path, position + len(data), f"shorter than its {self._count} entries")
        entries: list[AbortedTransaction] = []
        for version, *fields in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                raise DamagedFile(self.path, position, f"an entry of version {version}, not {_VERSION}")
            entries.append(AbortedTransaction(*fields))
        return entries

    def _open(self) -> File:
        return self._disk.open(self.path, create=True)
