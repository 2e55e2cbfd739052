"""The columns of an Arrow batch, filled by the compiled kernel (kernel/arrow.pxi) in Arrow's own memory.

Where the kernel finds something unusual, `python_columns` says what is broken.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...protocol.records.errors import InvalidRecord
from .batches import BASE_OFFSET, BatchTable, Bytes
from .memory import Memory, filled
from .python_columns import records_of

# Why the kernel stopped (kernel/arrow.pxi). Otherwise it found something unusual.
_ENDED, _FULL, _TOO_LARGE = 0, 1, 2
# The bytes of a row in the columns of numbers, in the kernel's order. That of headers notes where they stand.
_NUMBERS = {"offset": 8, "timestamp": 8, "timestampType": 4, "headers": 8}


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
            opened = self._open
            first = opened.kernels.rows
            status, place = opened.kernels.append(source, table, place, start, end, self._max_bytes)
            if opened.headers is not None:
                opened.headers.append(self._kernel, source, opened, first)
            if status == _ENDED:
                return
            if status == _FULL:
                yield
            elif status == _TOO_LARGE:
                self._open = self._new(opened.kernels.needed_bytes)
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
            else:
                buffers[name] = memory((rows + 1) * 4), memory(size), filled(rows // 8 + 1, np.uint8, 0xFF)
        wanted = [buffers.get(name) for name in ("key", "value", *_NUMBERS)]
        headers = _Headers(rows) if "headers" in buffers else None
        return _Opened(self._kernel.OpenColumns(rows, *wanted), buffers, headers)


class _Opened(NamedTuple):
    """The open columns: the kernel's, their buffers by name, and what becomes of headers."""

    kernels: Any
    buffers: dict[str, Any]
    headers: _Headers | None

    def array(self, name: str, kind: Any) -> Any:
        rows: int = self.kernels.rows
        if name == "headers":
            assert self.headers is not None
            return self.headers.array(rows, kind)
        if name in _NUMBERS:
            return pa.Array.from_buffers(kind, rows, [None, self.buffers[name].slice(0, rows * _NUMBERS[name])], 0)
        used, nulls = self.kernels.key_sizes if name == "key" else self.kernels.value_sizes
        ends, data, valid = self.buffers[name]
        return _binary(rows, ends, data, valid, used, nulls)


class _Headers:
    """The open headers column. Its parts double in size when the kernel's counts ask for it."""

    def __init__(self, max_rows: int) -> None:
        self._nulls = 0
        self._list_ends = np.zeros(max_rows + 1, np.int32)
        self._list_valid = np.full(max_rows // 8 + 1, 0xFF, np.uint8)
        # The keys and values of all headers: ends, bytes, and a bit each.
        self._keys = np.zeros(1, np.int32), np.empty(0, np.uint8)
        self._values = np.zeros(1, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint8)

    def append(self, kernel: Any, source: Bytes, opened: _Opened, first: int) -> None:
        """Append the headers of the rows from `first` on, which the kernel has just walked in `source`."""
        counted = opened.kernels
        count = counted.headers
        (key_ends, key_data), (ends, data, valid) = self._keys, self._values
        ends = _grown(ends, count + 1)
        self._keys = _grown(key_ends, count + 1), _grown(key_data, counted.header_key_bytes)
        self._values = ends, _grown(data, counted.header_value_bytes), _grown(valid, len(ends) // 8 + 1, 0xFF)
        self._nulls += kernel.copy_headers(
            source, opened.buffers["headers"], first, counted.rows, self._list_ends, self._list_valid,
            self._keys, self._values,
        )  # fmt: skip

    def array(self, rows: int, kind: Any) -> Any:
        """Return the column with its first `rows` rows."""
        count = int(self._list_ends[rows])
        key_ends, key_data = map(pa.py_buffer, self._keys)
        value_ends, value_data, value_valid = map(pa.py_buffer, self._values)
        keys = _binary(count, key_ends, key_data, None, int(self._keys[0][count]), 0, pa.string())
        used = int(self._values[0][count])
        values = _binary(count, value_ends, value_data, value_valid, used, self._nulls)
        entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        ends = pa.py_buffer(self._list_ends[: rows + 1])
        return pa.Array.from_buffers(kind, rows, [pa.py_buffer(self._list_valid), ends], -1, children=[entries])


def _grown(array: NDArray[Any], size: int, fill: int | None = None) -> NDArray[Any]:
    """Return `array` if it has room for `size`, else a larger copy."""
    if size <= len(array):
        return array
    grown = np.empty(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    if fill is not None:
        grown[len(array) :] = fill
    return grown


def _binary(rows: int, ends: Any, data: Any, valid: Any, used: int, nulls: int, kind: Any = None) -> Any:
    buffers = [valid if nulls else None, ends.slice(0, (rows + 1) * 4), data.slice(0, used)]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, nulls)
