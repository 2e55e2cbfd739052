"""The entries of a segment's indexes, held against the batches of its log, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...protocol.records.batch import BatchHeader
from ..errors import DamagedFile, StorageError
from ..files import Disk
from .names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from .segment_indexes import OffsetIndex, TimeIndex


class IndexEntries:
    """The entries of both indexes of a segment. `note` each batch in order."""

    def __init__(self, log: Path, base_offset: int, size: int, disk: Disk) -> None:
        self._found: dict[Path, tuple[int, str]] = {}
        self._disk = disk
        self._offset_path = log.with_suffix(INDEX_SUFFIX)
        self._time_path = log.with_suffix(TIME_INDEX_SUFFIX)
        self._offsets = self._entries(OffsetIndex, self._offset_path, base_offset, size)
        self._times = self._entries(TimeIndex, self._time_path, base_offset, size)
        self._next_offset = next(self._offsets, None)
        self._next_time = next(self._times, None)
        self._max_timestamp = -1
        self._has_passed = False

    def _entries(
        self, kind: type[OffsetIndex] | type[TimeIndex], path: Path, base_offset: int, size: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (offset, position) or (timestamp, offset) of each entry, without the zero tail of a killed Kafka."""
        try:
            data = self._disk.read_file(path)
            if len(data) % kind.ENTRY.size:
                raise DamagedFile(path, len(data), f"{len(data)} bytes are not whole entries of {kind.ENTRY.size}")
            if not data and size and kind is TimeIndex:
                raise DamagedFile(path, 0, f"empty, beside a log of {size} bytes")
        except StorageError as error:
            self._bad(path, 0, str(error.message))
            return
        for key, value in kind.ENTRY.iter_unpack(data):
            if not key and not value:
                return
            yield (key + base_offset, value) if kind is OffsetIndex else (key, value + base_offset)

    def note(self, position: int, header: BatchHeader) -> None:
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        while self._next_offset is not None and self._next_offset[1] <= position:
            if self._next_offset != (header.last_offset, position):
                self._bad(self._offset_path, position, f"no batch that ends with offset, position {self._next_offset}")
            self._next_offset = next(self._offsets, None)
        while self._next_time is not None and self._next_time[1] <= header.last_offset:
            in_damage = self._has_passed and self._next_time[1] < header.base_offset
            if not in_damage and self._next_time != (self._max_timestamp, header.last_offset):
                why = f"timestamp, offset {self._next_time} where the largest up to {header.last_offset} is"
                self._bad(self._time_path, position, f"{why} {self._max_timestamp}")
            self._next_time = next(self._times, None)

    def pass_over(self, end: int) -> None:
        """Skip the entries that point at damage, which ends at `end`."""
        self._has_passed = True
        while self._next_offset is not None and self._next_offset[1] < end:
            self._next_offset = next(self._offsets, None)

    def faults(self) -> Iterator[tuple[Path, int, str]]:
        """Yield (index, position, what is wrong), at most one for each index.

        Entries that are left point behind the last batch.
        """
        for path, left in ((self._offset_path, self._next_offset), (self._time_path, self._next_time)):
            if left is not None:
                self._bad(path, 0, f"entry {left} lies behind the last batch")
        return ((path, *fault) for path, fault in self._found.items())

    def _bad(self, path: Path, position: int, why: str) -> None:
        self._found.setdefault(path, (position, why))
