"""From fetched batches to Arrow batches: the typed door to the kernels.

    scan(bytes) -> (bytes as an array, table of batch headers, why it ended)
    readable(table, ...) -> the table without batches that no reader may see
    ArrowDecoder(columns, topic, partition, ...).feed(source, table) -> Arrow batches, .rest() -> the last one

An Arrow batch is bounded in rows and in bytes of keys, values and headers (one row alone may have more). It is copied
out of the source, so that the source can be used again at once. The decoder checks the CRC of a batch before it reads a
record. A compressed batch is decompressed by `protocol.records.compression`, within its bounds, and then decoded alike.

This module imports numpy and pyarrow, and loads the kernels' machine code at the first scan: only a running task
imports it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# pyarrow has no types.

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...protocol.records.compression import Compression, decompress
from ...protocol.records.crc import crc32c
from ...protocol.records.errors import CorruptBatch, CorruptCrc, InvalidRecord, UnsupportedCodec, UnsupportedMagic
from . import layout
from .arrow_memory import Memory, filled, pool, repeated
from .columns import Column
from .errors import SchemaError
from .machine_code import KERNELS
from .spark_types import arrow_type

Bytes = NDArray[np.uint8]
BatchTable = NDArray[np.int64]
ArrowBatch = Any  # pyarrow.RecordBatch: pyarrow has no types

# Larger Arrow batches gain nothing and cost memory in every task, smaller ones cost time on both sides.
MAX_BYTES = 4 * 1024 * 1024

_CODEC_MASK, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_CRC_FROM = 21
_SMALLEST_BATCH = 61

_WANTED = {
    "key": layout.WANT_KEY,
    "value": layout.WANT_VALUE,
    "offset": layout.WANT_OFFSET,
    "timestamp": layout.WANT_TIMESTAMP,
    "timestampType": layout.WANT_TIMESTAMP_TYPE,
    "headers": layout.WANT_HEADERS,
}


class ScanEnd(Enum):
    """Why a scan ended."""

    END = layout.SCAN_END  # the bytes end where a batch ends
    TORN = layout.SCAN_TORN  # the last batch is cut off
    OLD_MAGIC = layout.SCAN_OLD_MAGIC  # a message of magic 0 or 1 follows


def scan(records: memoryview) -> tuple[Bytes, BatchTable, ScanEnd]:
    """Find the whole batches in `records`. Raises CorruptBatch, UnsupportedMagic."""
    source = np.frombuffer(records, np.uint8)
    most = len(source) // _SMALLEST_BATCH + 1
    table = np.frombuffer(pool(most * layout.TABLE_WIDTH * 8), np.int64).reshape(most, layout.TABLE_WIDTH)
    found = np.zeros(2, np.int64)
    scan_batches = KERNELS.load()["scan_batches"]
    status = scan_batches(address(source), len(source), 0, address(table), len(table), address(found))
    rows, at = found.tolist()
    if status == layout.SCAN_BAD_SIZE:
        raise CorruptBatch(f"a batch at byte {at} of {len(source)} has an impossible length")
    if status == layout.SCAN_BAD_MAGIC:
        raise UnsupportedMagic(f"a batch at byte {at} of {len(source)} has magic {source[at + 16]}")
    return source, table[:rows], ScanEnd(status)


def next_offset(table: BatchTable) -> int:
    """Return the offset after the last batch of `table`, which must not be empty."""
    return int(table[-1, layout.LAST_OFFSET]) + 1


def first_offset(table: BatchTable) -> int:
    """Return the first offset of `table`, which must not be empty."""
    return int(table[0, layout.BASE_OFFSET])


def scanned_bytes(table: BatchTable) -> int:
    """Return where the last batch of `table` ends in its source; it must not be empty."""
    return int(table[-1, layout.POSITION] + table[-1, layout.SIZE])


def readable(table: BatchTable, start: int, end: int, aborted: Sequence[tuple[int, int]]) -> BatchTable:
    """Return the batches for a reader of [start, end), without control batches and aborted transactions.

    `aborted` holds (first offset, producer id) of each aborted transaction, as the broker returned them. It is empty
    for read_uncommitted.
    """
    keep = (table[:, layout.LAST_OFFSET] >= start) & (table[:, layout.BASE_OFFSET] < end)
    attributes = table[:, layout.ATTRIBUTES]
    control = attributes & _CONTROL != 0
    if aborted:
        keep &= ~_in_aborted(table, control, aborted)
    keep &= ~control
    return table if keep.all() else table[keep]


def _in_aborted(table: BatchTable, control: NDArray[np.bool_], aborted: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Mark the batches of aborted transactions: from the first offset to the marker of the producer (KIP-98)."""
    coming = sorted(aborted)
    heapq.heapify(coming)
    open_producers: set[int] = set()
    hidden = np.zeros(len(table), np.bool_)
    for row, batch in enumerate(table):
        while coming and coming[0][0] <= batch[layout.LAST_OFFSET]:
            open_producers.add(heapq.heappop(coming)[1])
        producer = int(batch[layout.PRODUCER_ID])
        if control[row]:
            # Commit or abort: the aborted transaction has ended before its producer ends another one.
            open_producers.discard(producer)
        elif batch[layout.ATTRIBUTES] & _TRANSACTIONAL and producer in open_producers:
            hidden[row] = True
    return hidden


class ArrowDecoder:
    """Fills Arrow batches with the records of one partition. Use it in one thread only."""

    def __init__(
        self,
        columns: Sequence[Column],
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_rows: int,
        max_bytes: int = MAX_BYTES,
        check_crcs: bool = True,
        memory: Memory = pool,
    ) -> None:
        """Take the records whose offsets are in [start, end). Their columns are filled in `memory`."""
        self._columns = columns
        self._start, self._end = start, end
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._check_crcs = check_crcs
        self._memory = memory
        self._typed = [column for column in columns if column.format is not None]
        # An error of a typed value names its offset.
        wanted = {_WANTED.get(column.name, 0) for column in columns} | ({layout.WANT_OFFSET} if self._typed else set())
        self._wanted = sum(wanted)
        self._schema = arrow_schema(columns)
        # Columns that are the same in every row, as long as the longest Arrow batch so far: each gets a slice.
        self._same: dict[str, int | str] = {"topic": topic, "partition": partition}
        self._constant: dict[str, Any] = {}
        self._cursor = np.zeros(layout.CURSOR_WIDTH, np.int64)
        self._open: _Columns = self._new_columns(max_bytes)
        self._headers: _Headers | None = self._new_headers()
        # Whether the open columns were handed out as an Arrow batch. A next record opens new ones.
        self._is_finished = False

    def feed(self, source: Bytes, table: BatchTable) -> Iterator[ArrowBatch]:
        """Decode these batches, and yield each Arrow batch that is full. Raises RecordError, SchemaError."""
        if self._check_crcs:
            _check_crcs(source, table)
        for plain in decompressed(source, table):
            yield from self._decode(*plain)

    def rest(self) -> ArrowBatch | None:
        """Return the last Arrow batch, with the rows that `feed` has not yielded; None if there are none."""
        return self._finish() if self._cursor[layout.ROWS] else None

    def _decode(self, source: Bytes, table: BatchTable) -> Iterator[ArrowBatch]:
        cursor, decode_rows = self._cursor, KERNELS.load()["decode_rows"]
        cursor[layout.BATCH] = cursor[layout.RECORD] = 0
        while True:
            if self._is_finished:
                self._open, self._headers = self._new_columns(self._max_bytes), self._new_headers()
                self._is_finished = False
            first = int(cursor[layout.ROWS])
            status = decode_rows(
                address(source), len(source), address(table), len(table), address(cursor),
                self._wanted, self._start, self._end, self._max_bytes, address(self._open.table),
            )  # fmt: skip
            if self._headers is not None:
                self._headers.append(source, self._open.headers_at, first, cursor)
            if status == layout.DONE:
                return
            if status == layout.FULL:
                yield self._finish()
            elif status == layout.TOO_LARGE:
                self._open = self._new_columns(int(cursor[layout.NEEDED_BYTES]))
            else:
                batch = table[cursor[layout.BATCH]]
                raise InvalidRecord(
                    f"batch at offset {batch[layout.BASE_OFFSET]}, record {cursor[layout.RECORD]}:"
                    f" {layout.REASONS[status]}"
                )

    # -- Buffers

    def _new_columns(self, size: int) -> _Columns:
        """Return empty columns. Columns that the reader does not want are tiny. Memory is used only as it is filled."""
        rows, memory = self._max_rows, self._memory

        def room(flag: int, bytes_a_row: int, count: int = rows) -> Any:
            return memory(count * bytes_a_row if self._wanted & flag else bytes_a_row)

        def binary(flag: int) -> tuple[Any, Any, Any]:
            ends = room(flag, 4, rows + 1)
            np.frombuffer(ends, np.int32, 1)[0] = 0
            return ends, memory(size), filled(rows // 8 + 1 if self._wanted & flag else 1, np.uint8, 0xFF)

        return _Columns.of(
            *binary(layout.WANT_KEY),
            *binary(layout.WANT_VALUE),
            memory(rows * 8),
            room(layout.WANT_TIMESTAMP, 8),
            room(layout.WANT_TIMESTAMP_TYPE, 4),
            room(layout.WANT_HEADERS, 8),
        )

    def _new_headers(self) -> _Headers | None:
        return _Headers(self._max_rows) if self._wanted & layout.WANT_HEADERS else None

    def _finish(self) -> ArrowBatch:
        """Close the open columns as an Arrow batch."""
        rows = int(self._cursor[layout.ROWS])
        arrays = [self._array(column, rows) for column in self._columns]
        if self._typed:
            arrays = self._typed_arrays(arrays, rows)
        for column, array in zip(self._columns, arrays, strict=True):
            if array.null_count and not column.nullable:
                raise SchemaError(
                    f"column '{column.name}' is NOT NULL in the schema, but there are records without one"
                )
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._cursor[layout.ROWS :] = 0
        self._is_finished = True
        return batch

    def _typed_arrays(self, arrays: list[Any], rows: int) -> list[Any]:
        """Return the columns with typed keys and values, without the rows that `mode` drops."""
        from . import typed_columns

        dropped = np.zeros(rows, np.bool_)
        for number, column in enumerate(self._columns):
            if column.format is None:
                continue
            decoded = typed_columns.decode(arrays[number], column.format, column.kind)
            arrays[number] = decoded.array
            if column.format.mode == "FAILFAST":
                typed_columns.fail_on(decoded, column.name, np.frombuffer(self._open.offsets, np.int64))
            if column.format.mode == "DROPMALFORMED":
                dropped |= decoded.bad
        if not dropped.any():
            return arrays
        kept = pa.array(~dropped)
        return [each.filter(kept) for each in arrays]

    def _array(self, column: Column, rows: int) -> Any:
        cursor, opened, name = self._cursor, self._open, column.name
        if name in self._same:
            return self._repeated(name, rows)
        if name == "key":
            used, nulls = cursor[layout.KEY_BYTES], cursor[layout.KEY_NULLS]
            return _binary(rows, opened.key_ends, opened.key_data, opened.key_valid, used, nulls)
        if name == "value":
            used, nulls = cursor[layout.VALUE_BYTES], cursor[layout.VALUE_NULLS]
            return _binary(rows, opened.value_ends, opened.value_data, opened.value_valid, used, nulls)
        if name == "headers":
            assert self._headers is not None
            return self._headers.array(rows, self._schema.field("headers").type)
        numbers = {"offset": opened.offsets, "timestamp": opened.timestamps, "timestampType": opened.timestamp_types}
        kind = _TYPES[name]
        used = numbers[name].slice(0, rows * kind.bit_width // 8)
        return pa.Array.from_buffers(kind, rows, [None, used], 0)

    def _repeated(self, name: str, rows: int) -> Any:
        known = self._constant.get(name)
        if known is None or len(known) < rows:
            room = min(max(rows, 2 * len(known) if known is not None else 0), self._max_rows)
            known = self._constant[name] = repeated(self._same[name], room, self._memory)
        return known.slice(0, rows)


class _Columns(NamedTuple):
    """The open columns of an Arrow batch: buffers of pyarrow. `table` is what the kernel reads: their addresses."""

    key_ends: Any  # int32
    key_data: Any
    key_valid: Any
    value_ends: Any  # int32
    value_data: Any
    value_valid: Any
    offsets: Any  # int64
    timestamps: Any  # int64
    timestamp_types: Any  # int32
    headers_at: Any  # int64
    table: NDArray[np.int64]

    @classmethod
    def of(cls, *buffers: Any) -> _Columns:
        """Return the columns with their table; the buffers come in the order of the fields."""
        table = np.zeros(layout.COLUMNS_WIDTH, np.int64)
        table[: len(buffers)] = [each.address for each in buffers]
        columns = cls._make([*buffers, table])
        table[layout.ROW_LIMIT] = columns.offsets.size // 8
        table[layout.BYTE_LIMIT] = min(columns.key_data.size, columns.value_data.size)
        return columns


class _HeaderColumns(NamedTuple):
    """The parts of the open headers column, in the order in which the kernel takes their addresses."""

    list_ends: NDArray[np.int32]
    list_valid: Bytes
    key_ends: NDArray[np.int32]
    key_data: Bytes
    value_ends: NDArray[np.int32]
    value_data: Bytes
    value_valid: Bytes

    def table(self) -> NDArray[np.int64]:
        """Return what the kernel reads: addresses and sizes."""
        table = np.zeros(layout.HEADER_COLUMNS_WIDTH, np.int64)
        table[: len(self)] = [address(each) for each in self]
        table[layout.HEADER_LIMIT] = len(self.key_ends) - 1
        table[layout.HEADER_KEY_LIMIT], table[layout.HEADER_VALUE_LIMIT] = len(self.key_data), len(self.value_data)
        return table


class _Headers:
    """The open headers column. Its parts double in size when the counts of `decode_rows` ask for it."""

    def __init__(self, max_rows: int) -> None:
        self._nulls = 0
        self._parts = _HeaderColumns(
            np.zeros(max_rows + 1, np.int32), np.full(max_rows // 8 + 1, 0xFF, np.uint8),
            np.zeros(1, np.int32), np.empty(0, np.uint8),
            np.zeros(1, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint8),
        )  # fmt: skip

    def append(self, source: Bytes, headers_at: Any, first: int, cursor: NDArray[np.int64]) -> None:
        """Append the headers of the rows from `first` on, which `decode_rows` has just walked in `source`."""
        count, parts = int(cursor[layout.HEADERS]), self._parts
        self._parts = parts = parts._replace(
            key_ends=_grown(parts.key_ends, count + 1),
            key_data=_grown(parts.key_data, int(cursor[layout.HEADER_KEY_BYTES])),
            value_ends=_grown(parts.value_ends, count + 1),
            value_data=_grown(parts.value_data, int(cursor[layout.HEADER_VALUE_BYTES])),
            value_valid=_grown(parts.value_valid, count // 8 + 1, 0xFF),
        )
        table = parts.table()
        status = KERNELS.load()["decode_headers"](
            address(source), len(source), headers_at.address, first, int(cursor[layout.ROWS]), address(table)
        )
        if status != layout.DONE:
            raise InvalidRecord(layout.REASONS[status])
        self._nulls += int(table[layout.HEADER_NULLS])

    def array(self, rows: int, kind: Any) -> Any:
        """Return the column with its first `rows` rows."""
        parts = self._parts
        count = int(parts.list_ends[rows])
        columns = [pa.py_buffer(each) for each in parts]
        _, list_valid, key_ends, key_data, value_ends, value_data, value_valid = columns
        keys = _binary(count, key_ends, key_data, value_valid, parts.key_ends[count], 0, pa.string())
        values = _binary(count, value_ends, value_data, value_valid, parts.value_ends[count], self._nulls)
        entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        ends = pa.py_buffer(parts.list_ends[: rows + 1])
        return pa.Array.from_buffers(kind, rows, [list_valid, ends], -1, children=[entries])


def address(array: NDArray[Any]) -> int:
    """Return where the array begins in memory; the caller keeps the array."""
    return array.ctypes.data


def _grown(array: NDArray[Any], size: int, fill: int | None = None) -> NDArray[Any]:
    """Return `array` if it has room for `size`, else a larger copy."""
    if size <= len(array):
        return array
    grown = np.empty(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    if fill is not None:
        grown[len(array) :] = fill
    return grown


def _binary(rows: int, ends: Any, data: Any, valid: Any, used: Any, nulls: Any, kind: Any = None) -> Any:
    buffers = [valid if nulls else None, ends.slice(0, (rows + 1) * 4), data.slice(0, int(used))]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, int(nulls))


def _check_crcs(source: Bytes, table: BatchTable) -> None:
    view = source.data
    columns = [layout.POSITION, layout.SIZE, layout.CRC]
    for position, size, crc in table[:, columns].tolist():
        computed = crc32c(view[position + _CRC_FROM : position + size])
        if computed != crc:
            raise CorruptCrc(f"batch at byte {position} of a fetch: CRC {crc:#010x}, computed {computed:#010x}")


def decompressed(source: Bytes, table: BatchTable) -> Iterator[tuple[Bytes, BatchTable]]:
    """Yield sources with tables of these batches in which no batch is compressed. Raises RecordError."""
    codecs = table[:, layout.ATTRIBUTES] & _CODEC_MASK
    # The kernels read whole rows of int64; a table with columns left out would lie otherwise in memory.
    table = np.ascontiguousarray(table)
    if not codecs.any():
        yield source, table
        return
    for row, codec in enumerate(codecs.tolist()):
        one = table[row : row + 1]
        yield _decompressed(source, one, codec) if codec else (source, one)


def _decompressed(source: Bytes, table: BatchTable, codec: int) -> tuple[Bytes, BatchTable]:
    """Return the decompressed records of the one batch in `table` as a new source and table. Raises RecordError."""
    if codec > Compression.ZSTD:
        raise UnsupportedCodec(f"compression codec {codec} does not exist")
    start, end = int(table[0, layout.RECORDS_START]), int(table[0, layout.RECORDS_END])
    data = np.frombuffer(decompress(codec, source.data[start:end]), np.uint8)
    table = table.copy()
    table[0, layout.RECORDS_START], table[0, layout.RECORDS_END] = 0, len(data)
    return data, table


_TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
}


def arrow_schema(columns: Sequence[Column]) -> Any:
    """Return the schema that Spark expects of the batches: its own translation, also of what may be null."""
    return pa.schema([pa.field(column.name, _arrow_type(column), nullable=column.nullable) for column in columns])


def _arrow_type(column: Column) -> Any:
    if column.format is not None:
        return arrow_type(column.kind)
    if column.name != "headers":
        return _TYPES[column.name]
    nulls = column.headers
    entry = pa.struct(
        [pa.field("key", pa.string(), nullable=nulls.key), pa.field("value", pa.binary(), nullable=nulls.value)]
    )
    return pa.list_(pa.field("element", entry, nullable=nulls.element))
