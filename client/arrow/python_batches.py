"""Open batches of records, filled in Python: slow, and the judge of the compiled kernel (kernel/arrow_rows.pxi)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...protocol.records.record import Headers, Record, encode_records
from ..producer.partitioner import murmur2

# More than a record has beside its key and its value: six varints and two bytes.
_ROW_OVERHEAD_BYTES = 48


# A pyarrow.Array, which has no types that a checker could read.
Array = Any


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of one Arrow batch: bytes or text, bytes or text, int32, milliseconds. None: no such column."""

    value: Array
    key: Array | None
    partition: Array | None
    time_ms: Array | None
    now_ms: int
    # A list of structs of key and value, none of which is null, nor has a null for a key.
    headers: Array | None = None


class _Batch:
    def __init__(self) -> None:
        self.used = self.count = self.first_ms = self.max_ms = 0


class PythonBatches:
    """The records of one open batch for each partition, in `memory`: `limit_bytes` for each."""

    def __init__(self, partitions: int, limit_bytes: int, memory: np.ndarray[Any, Any]) -> None:
        self._limit = limit_bytes
        self._memory = memory
        self._batches = [_Batch() for _ in range(partitions)]
        self._cells: tuple[Rows, _Cells] | None = None
        self.sticky = 0

    def append(self, rows: Rows, row: int) -> tuple[int, int, bool] | None:
        """Append rows from `row` on: -> None, or (row, partition, whether the row has to be sent alone)."""
        if self._cells is None or self._cells[0] is not rows:
            self._cells = rows, _Cells(rows)
        cells = self._cells[1]
        for number in range(row, len(cells.values)):
            record = Record(-1, cells.times_ms[number], cells.keys[number], cells.values[number], cells.headers[number])
            partition = self._partition_of(cells.partitions[number], record.key)
            size = _ROW_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
            if record.headers:
                # What is more than the byte of a record without headers.
                size += len(_encoded(record, 0, 0)) - len(_encoded(record._replace(headers=()), 0, 0))
            if partition < 0 or size > self._limit:
                return number, partition, True
            batch = self._batches[partition]
            if batch.used + size > self._limit:
                return number, partition, False
            if not batch.count:
                batch.first_ms = batch.max_ms = record.timestamp_ms
            batch.max_ms = max(batch.max_ms, record.timestamp_ms)
            data = _encoded(record, batch.count, batch.first_ms)
            self._memory[partition, batch.used : batch.used + len(data)] = np.frombuffer(data, np.uint8)
            batch.used += len(data)
            batch.count += 1
        return None

    def take(self, partition: int) -> tuple[int, int, int, int]:
        """Return (size, records, first and largest timestamp) of a batch. The next one is open then."""
        batch, self._batches[partition] = self._batches[partition], _Batch()
        return batch.used, batch.count, batch.first_ms, batch.max_ms

    def _partition_of(self, given: int | None, key: bytes | None) -> int:
        count = len(self._batches)
        if given is not None:
            return given if 0 <= given < count else -1
        return self.sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % count


def _encoded(record: Record, offset: int, first_ms: int) -> bytes:
    return encode_records([record._replace(offset=offset)], 0, first_ms)[0]


class _Cells:
    """The cells of rows as Python's objects."""

    def __init__(self, rows: Rows) -> None:
        self.values = _bytes_of(rows.value)
        count = len(self.values)
        self.keys: list[bytes | None] = [None] * count if rows.key is None else _bytes_of(rows.key)
        none: list[int | None] = [None] * count
        self.partitions: list[int | None] = none if rows.partition is None else rows.partition.to_pylist()
        times: list[int | None] = none if rows.time_ms is None else rows.time_ms.to_pylist()
        self.times_ms = [rows.now_ms if each is None else each for each in times]
        self._rows = rows

    @cached_property
    def headers(self) -> list[Headers]:
        """The headers of each row."""
        if self._rows.headers is None:
            return [()] * len(self.values)
        return [
            tuple((each["key"], each["value"]) for each in headers or ()) for headers in self._rows.headers.to_pylist()
        ]


def _bytes_of(column: Any) -> list[bytes | None]:
    return [each.encode() if isinstance(each, str) else each for each in column.to_pylist()]
