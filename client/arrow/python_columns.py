"""The columns of an Arrow batch, filled in Python: slow, and the judge of the compiled kernel (compiled_columns.py)."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ...protocol.records.batch import LOG_APPEND_TIME
from ...protocol.records.columns import Columns, decode_columns
from ...protocol.records.errors import InvalidRecord
from ...protocol.records.record import Headers
from . import batches
from .batches import BatchTable, Bytes

# A time of more milliseconds does not fit into 64 bits of microseconds. Spark's connector cannot hold others either.
_MAX_MS = (2**63 - 1) // 1000
# Offsets are of 32 bits within a batch.
_MAX_DELTA = 2**31


class _Row(NamedTuple):
    """A row, with the columns that an Arrow batch may have. `time_us` is the column `timestamp`."""

    key: bytes | None
    value: bytes | None
    offset: int
    time_us: int
    time_type: int
    headers: Headers


# The cell of each column but the headers.
_CELLS = {"key": "key", "value": "value", "offset": "offset", "timestamp": "time_us", "timestampType": "time_type"}


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
                if not -_MAX_MS <= time_ms <= _MAX_MS:
                    raise InvalidRecord(f"the timestamp of record {offset} does not fit into 64 bits of microseconds")
                row = _Row(key, value, offset, time_ms * 1000, time_type, headers)
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
