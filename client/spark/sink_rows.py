"""Rows to record batches, column by column: what makes the sink fast.

    opened = OpenBatches(partitions=2, limit_bytes=131_000, compression=Compression.NONE)
    for stop in opened.append(Rows(key=..., value=..., now_ms=...)):
        ... stop.row is to be sent alone, or the batch of stop.partition is full: send opened.take(stop.partition)

Rows of one topic without headers, encoded by a kernel (sink_kernels.py) into one open batch for each partition. The
partition is that of the row, otherwise murmur2 of the key, as Java has it. Rows without both go to one partition, which
the caller changes with each batch (KIP-794).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...protocol.records.batch import batch_of_body
from ...protocol.records.compression import Compression
from .machine_code import SINK_KERNELS
from .sink_layout import (
    ALONE,
    BATCH_WIDTH,
    BUFFER_AT,
    COLUMNS_WIDTH,
    COUNT,
    FIRST_MS,
    KEY_ENDS_AT,
    LIMIT_BYTES,
    MAX_MS,
    NOW_MS,
    OPEN_WIDTH,
    PARTITION_COUNT,
    PARTITIONS_AT,
    ROWS,
    STICKY,
    STOPPED_AT,
    TIMES_AT,
    USED_BYTES,
    VALUE_ENDS_AT,
)

# A pyarrow.Array, which has no types that a checker could read.
Array = Any


@dataclass(frozen=True, slots=True)
class Stop:
    """Why `append` waits. It goes on with the next row where this one is sent alone."""

    row: int
    # -1: the topic has no such partition.
    partition: int
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of one Arrow batch: bytes or text, bytes or text, int32, milliseconds. None: no such column."""

    value: Array
    key: Array | None
    partition: Array | None
    time_ms: Array | None
    now_ms: int


class OpenBatches:
    """One open batch for each partition of a topic. At most `limit_bytes` of records each."""

    def __init__(self, partitions: int, limit_bytes: int, compression: Compression) -> None:
        self._compression = compression
        # Memory that is not touched costs nothing.
        self._buffers = np.empty((partitions, limit_bytes), np.uint8)
        self._opened = np.zeros(OPEN_WIDTH + BATCH_WIDTH * partitions, np.int64)
        self._opened[PARTITION_COUNT], self._opened[LIMIT_BYTES] = partitions, limit_bytes
        self._batches = self._opened[OPEN_WIDTH:].reshape(partitions, BATCH_WIDTH)
        self._batches[:, BUFFER_AT] = self._buffers.ctypes.data + limit_bytes * np.arange(partitions)
        self._append_rows = SINK_KERNELS.load()["append_rows"]

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return len(self._batches)

    @property
    def room_bytes(self) -> int:
        """How many bytes all batches may get together."""
        return self._buffers.size

    @property
    def sticky(self) -> int:
        """The partition of rows that have neither a key nor a partition."""
        return int(self._opened[STICKY])

    @sticky.setter
    def sticky(self, partition: int) -> None:
        self._opened[STICKY] = partition

    def append(self, rows: Rows) -> Iterator[Stop]:
        """Append rows, and yield where the caller has to do something first."""
        columns, kept = _columns(rows)
        row, count = 0, len(rows.value)
        while row < count:
            result = self._append_rows(columns.ctypes.data, self._opened.ctypes.data, row)
            if result >= 0:
                break
            row, reason = divmod(-result - 1, 2)
            yield Stop(row, int(self._opened[STOPPED_AT]), reason == ALONE)
            row += reason == ALONE
        del kept

    def take(self, partition: int) -> bytes | None:
        """Return the batch of a partition, None if it is empty. The next one is open then."""
        batch = self._batches[partition]
        count = int(batch[COUNT])
        if not count:
            return None
        body = self._buffers[partition, : batch[USED_BYTES]].data
        batch[COUNT] = batch[USED_BYTES] = 0
        return batch_of_body(body, count, int(batch[FIRST_MS]), int(batch[MAX_MS]), self._compression)


def _columns(rows: Rows) -> tuple[np.ndarray[Any, Any], list[Array]]:
    """Return the addresses of columns, and what must be kept while they are used."""
    cells = np.zeros(COLUMNS_WIDTH, np.int64)
    cells[ROWS], cells[NOW_MS] = len(rows.value), rows.now_ms
    kept: list[Array] = []
    for first, column in ((KEY_ENDS_AT, rows.key), (VALUE_ENDS_AT, rows.value)):
        if column is not None:
            small = _with_small_offsets(column)
            kept.append(small)
            valid, ends, data = small.buffers()
            cells[first : first + 4] = ends.address + 4 * small.offset, _address(data), _address(valid), small.offset
    for first, column, width in ((PARTITIONS_AT, rows.partition, 4), (TIMES_AT, rows.time_ms, 8)):
        if column is not None:
            kept.append(column)
            valid, data = column.buffers()
            cells[first : first + 3] = data.address + width * column.offset, _address(valid), column.offset
    return cells, kept


def _with_small_offsets(column: Array) -> Array:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.binary() if pa.types.is_large_binary(column.type) else pa.string())
    return column


def _address(buffer: Any) -> int:
    return 0 if buffer is None else buffer.address
