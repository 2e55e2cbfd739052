"""The columns of the Arrow batch that is being filled: by the compiled kernel, or in Python, which judges it.

The kernel (kernel/arrow.pxi) fills Arrow's own memory. Where it finds something unusual, Python says what is broken.

A page of 4 KiB that is touched for the first time costs more than the decoding of all the records in it. Columns that
are dropped soon (Spark's, those of a poll) come from Arrow's pool, which hands out the same memory again. Columns that
stay (a whole topic) are new memory in any case: the large ones are mapped in pages of 2 MiB, where the system has them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...protocol.records.batch import LOG_APPEND_TIME
from ...protocol.records.columns import Columns, decode_columns
from ...protocol.records.errors import InvalidRecord
from ...protocol.records.record import Headers
from . import batches
from .batches import BASE_OFFSET, BatchTable, Bytes

# Takes a number of bytes, and returns a `pyarrow.Buffer` of them that may be written to.
Memory = Callable[[int], Any]

_LARGE_PAGE_BYTES = 2 << 20
# So many rows of a repeated text are written one by one.
_FIRST_ROWS = 1024
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux alone
# Why the kernel stopped (kernel/arrow.pxi). Otherwise it found something unusual.
_ENDED, _FULL, _TOO_LARGE = 0, 1, 2
# The bytes of a row in the columns of numbers, in the kernel's order.
_NUMBERS = {"offset": 8, "timestamp": 8, "timestampType": 4}
# A time of more milliseconds does not fit into 64 bits of microseconds. Spark's connector cannot hold others either.
_MAX_MS = (2**63 - 1) // 1000
# Offsets are of 32 bits within a batch.
_MAX_DELTA = 2**31


# -- By the kernel


class CompiledColumns:
    """Open columns of these types. They have at most so many rows, and bytes of keys, values and headers."""

    def __init__(self, kernel: Any, types: Mapping[str, Any], max_rows: int, max_bytes: int, memory: Memory) -> None:
        self._kernel = kernel
        self._types = types
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._memory = memory
        self._open = self._new(max_bytes)
        # Whether the open columns were handed out. A next record opens new ones.
        self._is_taken = False

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return 0 if self._is_taken else self._open.kernels.rows

    def fill(self, source: Bytes, table: BatchTable, start: int, end: int) -> Iterator[None]:
        """Append the records of batches whose offsets are in [start, end); yield when full. Raises InvalidRecord."""
        place = 0, 0, 0
        while True:
            if self._is_taken:
                self._open, self._is_taken = self._new(self._max_bytes), False
            opened = self._open.kernels
            status, place = opened.append(source, table, place, start, end, self._max_bytes)
            if status == _ENDED:
                return
            if status == _FULL:
                yield
            elif status == _TOO_LARGE:
                self._open = self._new(opened.needed_bytes)
            else:
                records_of(source, table[place[0]].tolist())
                where = f"batch at offset {table[place[0], BASE_OFFSET]}, record {place[1]}"
                raise InvalidRecord(f"{where}: its timestamp does not fit into 64 bits of microseconds")

    def take(self, names: Sequence[str]) -> list[Any]:
        """Return the columns as Arrow arrays. The next record opens others."""
        self._is_taken = True
        return [self._open.array(name, self._types[name]) for name in names]

    def _new(self, size: int) -> _Opened:
        """Return empty columns. Memory is used only as it is filled."""
        rows, memory = self._max_rows, self._memory
        buffers: dict[str, Any] = {}
        for name in self._types:
            if name in _NUMBERS:
                buffers[name] = memory(rows * _NUMBERS[name])
            elif name != "headers":
                buffers[name] = memory((rows + 1) * 4), memory(size), filled(rows // 8 + 1, np.uint8, 0xFF)
        wanted = [buffers.get(name) for name in ("key", "value", *_NUMBERS)]
        return _Opened(self._kernel.OpenColumns(rows, *wanted, "headers" in self._types), buffers)


class _Opened(NamedTuple):
    """The open columns: the kernel's, and their buffers by name."""

    kernels: Any
    buffers: dict[str, Any]

    def array(self, name: str, kind: Any) -> Any:
        rows: int = self.kernels.rows
        if name == "headers":
            return _array_of_header_parts(rows, kind, *self.kernels.header_parts())
        if name in _NUMBERS:
            return pa.Array.from_buffers(kind, rows, [None, self.buffers[name].slice(0, rows * _NUMBERS[name])], 0)
        ends, data, valid = self.buffers[name]
        used, nulls = self.kernels.key_sizes if name == "key" else self.kernels.value_sizes
        buffers = [valid if nulls else None, ends.slice(0, (rows + 1) * 4), data.slice(0, used)]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _array_of_header_parts(
    rows: int, kind: Any, row_ends: bytes, key_ends: bytes, keys: bytes, value_ends: bytes, values: bytes, valid: bytes
) -> Any:
    """Return the headers of rows; null where there are none, as in Spark's connector."""
    count = len(valid)
    names = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(key_ends), pa.py_buffer(keys)], 0)
    buffers = [_bits(np.frombuffer(valid, np.uint8)), pa.py_buffer(value_ends), pa.py_buffer(values)]
    contents = pa.Array.from_buffers(pa.binary(), count, buffers)
    entries = pa.StructArray.from_arrays([names, contents], fields=list(kind.value_type))
    have_some = np.diff(np.frombuffer(row_ends, np.int32)) > 0
    return pa.Array.from_buffers(kind, rows, [_bits(have_some), pa.py_buffer(row_ends)], children=[entries])


def _bits(marks: NDArray[Any]) -> Any:
    return pa.py_buffer(np.packbits(marks, bitorder="little"))


# -- In Python


class _Row(NamedTuple):
    """A row, with the columns that an Arrow batch may have. `time_us` is the column `timestamp`, which has an end."""

    key: bytes | None
    value: bytes | None
    offset: int
    time_us: int
    time_ms: int
    time_type: int
    headers: Headers


# The cell of each column but the headers. Archives hold any time, as milliseconds.
_CELLS = {
    "key": "key", "value": "value", "offset": "offset", "timestamp": "time_us", "timestampMs": "time_ms",
    "timestampType": "time_type",
}  # fmt: skip


class PythonColumns:
    """Open columns of these types, as rows: at most so many, and so many bytes of keys, values and headers."""

    def __init__(self, types: Mapping[str, Any], max_rows: int, max_bytes: int) -> None:
        self._types = types
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._rows: list[_Row] = []
        self._bytes = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def fill(self, source: Bytes, table: BatchTable, start: int, end: int) -> Iterator[None]:
        """Append the records of batches whose offsets are in [start, end); yield when full. Raises InvalidRecord."""
        for batch in table.tolist():
            columns = records_of(source, batch)
            time_type = 1 if batch[batches.ATTRIBUTES] & LOG_APPEND_TIME else 0
            for offset, time_ms, key, value, headers in zip(*columns, strict=True):
                if not start <= offset < end:
                    continue
                if "timestampMs" not in self._types and not -_MAX_MS <= time_ms <= _MAX_MS:
                    raise InvalidRecord(f"the timestamp of record {offset} does not fit into 64 bits of microseconds")
                row = _Row(key, value, offset, time_ms * 1000, time_ms, time_type, headers)
                size = self._size_of(row)
                if self._rows and (self.rows == self._max_rows or self._bytes + size > self._max_bytes):
                    yield
                self._rows.append(row)
                self._bytes += size

    def take(self, names: Sequence[str]) -> list[Any]:
        """Return the columns as Arrow arrays, and begin anew."""
        rows, self._rows, self._bytes = self._rows, [], 0
        return [
            _header_array(rows, self._types[name])
            if name == "headers"
            else pa.array([getattr(row, _CELLS[name]) for row in rows], self._types[name])
            for name in names
        ]

    def _size_of(self, row: _Row) -> int:
        """Return the bytes of the columns that are wanted."""
        size = len(row.key or b"") if "key" in self._types else 0
        size += len(row.value or b"") if "value" in self._types else 0
        if "headers" in self._types:
            size += sum(len(_raw(name)) + len(content or b"") for name, content in row.headers)
        return size


def records_of(source: Bytes, batch: Sequence[int]) -> Columns:
    """Return all records of a batch, a row of the table. Raises InvalidRecord."""
    start, end, base_offset = batch[batches.RECORDS_START], batch[batches.RECORDS_END], batch[batches.BASE_OFFSET]
    append_time = batch[batches.MAX_TIMESTAMP] if batch[batches.ATTRIBUTES] & LOG_APPEND_TIME else None
    data = source[start:end].tobytes()
    try:
        columns = decode_columns(data, batch[batches.COUNT], base_offset, batch[batches.BASE_TIMESTAMP], append_time)
    except InvalidRecord as error:
        raise InvalidRecord(f"batch at offset {base_offset}: {error}") from None
    for offset in columns.offsets:
        if not -_MAX_DELTA <= offset - base_offset <= _MAX_DELTA:
            raise InvalidRecord(f"batch at offset {base_offset}: a record says that its offset is {offset}")
    return columns


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _header_array(rows: Sequence[_Row], kind: Any) -> Any:
    """Return the headers of rows; null where there are none, as in Spark's connector."""
    flat = [header for row in rows for header in row.headers]
    keys = pa.array([_raw(name) for name, _ in flat], pa.binary()).cast(pa.string(), safe=False)
    values = pa.array([content for _, content in flat], pa.binary())
    ends: list[int | None] = []
    done = 0
    for row in rows:
        ends.append(done if row.headers else None)
        done += len(row.headers)
    entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array([*ends, done], pa.int32()), entries, type=kind)


# -- Memory


def pool(size: int) -> Any:
    """Return memory of Arrow's pool."""
    return pa.allocate_buffer(size)


def large_pages(size: int) -> Any:
    """Return mapped memory in large pages; of Arrow's pool where a page is too large. Used as far as it is filled."""
    if size < _LARGE_PAGE_BYTES or _ADVICE is None:
        return pool(size)
    # The system aligns a mapping with its large pages where it has a whole number of them.
    whole = -(-size // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES
    # Private: shared memory, which is the default, has no large pages.
    mapped = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without large pages: the memory is as good as any
        mapped.madvise(_ADVICE)
    return pa.py_buffer(mapped)


def filled(count: int, kind: Any, content: int, memory: Memory = pool) -> Any:
    """Return memory with `count` times the same number."""
    made = memory(count * np.dtype(kind).itemsize)
    np.frombuffer(made, kind, count)[:] = content
    return made


def repeated(content: int | str, rows: int, memory: Memory) -> Any:
    """Return an Arrow column that holds an int32 or a text in each row.

    pyarrow's own way imports pandas, which takes a second.
    """
    if isinstance(content, int):
        return pa.Array.from_buffers(pa.int32(), rows, [None, filled(rows, np.int32, content, memory)], 0)
    text = content.encode()
    size, first = len(text), min(rows, _FIRST_ROWS)
    ends, texts = memory((rows + 1) * 4), memory(rows * size)
    places, letters = np.frombuffer(ends, np.int32, rows + 1), np.frombuffer(texts, np.uint8, rows * size)
    places[: first + 1] = np.arange(0, (first + 1) * size, size)
    letters[: first * size] = np.frombuffer(text * first, np.uint8)
    while first < rows:  # what is there doubles: no second column of this length is made for it
        more = min(first, rows - first)
        np.add(places[1 : more + 1], first * size, out=places[first + 1 : first + more + 1])
        letters[first * size : (first + more) * size] = letters[: more * size]
        first += more
    return pa.Array.from_buffers(pa.string(), rows, [None, ends, texts], 0)
