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
# The bytes of a row in the columns of numbers, in the kernel's order.
_NUMBERS = {"offset": 8, "timestamp": 8, "timestampType": 4}


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
            return _header_array(rows, kind, *self.kernels.header_parts())
        if name in _NUMBERS:
            return pa.Array.from_buffers(kind, rows, [None, self.buffers[name].slice(0, rows * _NUMBERS[name])], 0)
        ends, data, valid = self.buffers[name]
        used, nulls = self.kernels.key_sizes if name == "key" else self.kernels.value_sizes
        buffers = [valid if nulls else None, ends.slice(0, (rows + 1) * 4), data.slice(0, used)]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _header_array(
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
