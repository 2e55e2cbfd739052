"""From fetched batches to Arrow batches.

    ArrowDecoder(schema, topic, partition, ...).feed(source, table) -> Arrow batches, .rest() -> the last one

The columns, of which a schema has any, in any order:

    key binary | value binary | topic string | partition int32 | offset int64 | timestamp timestamp[us, UTC]
    | timestampType int32 | headers list<struct<key: string, value: binary>>

An Arrow batch is bounded in rows and in bytes of keys, values and headers (one row alone may have more). It is copied
out of the source, so that the source can be used again at once. The decoder checks the CRC of a batch before it reads a
record. A compressed batch is decompressed by `protocol.records.compression`, within its bounds, and then decoded alike.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from ...kernel import door
from .batches import BatchTable, Bytes, Section, check_crcs, decompressed
from .brokers import Brokers
from .columns import CompiledColumns, Memory, PythonColumns, pool, repeated
from .connection import ReadOptions
from .direct_read import range_reader
from .fetch import OffsetRange

ArrowBatch = Any  # pyarrow.RecordBatch: pyarrow has no types

# Larger Arrow batches gain nothing and cost memory, smaller ones cost time on both sides.
MAX_BYTES = 4 * 1024 * 1024

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}


@cache  # each poll's table asks
def schema_of(names: tuple[str, ...]) -> Any:
    """Return the Arrow schema of these columns."""
    return pa.schema([pa.field(name, TYPES[name]) for name in names])


def decoded(sections: Generator[Section, None, None], decoder: ArrowDecoder) -> Iterator[ArrowBatch]:
    """Yield the Arrow batches of sections, the last one too. An early end closes the sections."""
    try:
        for section in sections:
            yield from decoder.feed(section.source, section.table)
        rest = decoder.rest()
        if rest is not None:
            yield rest
    finally:
        sections.close()


def range_batches(wanted: OffsetRange, options: ReadOptions, columns: Sequence[str]) -> Iterator[ArrowBatch]:
    """Return an iterator over Arrow batches of a range, with these columns. Raises DataLoss, KafkaError."""
    decoder = ArrowDecoder(
        schema_of(tuple(columns)), wanted.topic, wanted.partition, wanted.start, wanted.end,
        max_rows=options.arrow_batch_rows, check_crcs=options.client.check_crcs,
    )  # fmt: skip
    return decoded(range_reader(wanted, options, Brokers(options.client)).sections(), decoder)


class ArrowDecoder:
    """Fills Arrow batches with the records of one partition. Use it in one thread only."""

    def __init__(
        self,
        schema: Any,
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
        self._schema = schema
        self._start, self._end = start, end
        self._max_rows = max_rows
        self._check_crcs = check_crcs
        self._memory = memory
        # Columns that are the same in every row, as long as the longest Arrow batch so far: each gets a slice.
        self._same: dict[str, int | str] = {"topic": topic, "partition": partition}
        self._constant: dict[str, Any] = {}
        self._names = [name for name in schema.names if name not in self._same]
        types = {name: schema.field(name).type for name in self._names}
        self._open: CompiledColumns | PythonColumns = (
            PythonColumns(types, max_rows, max_bytes)
            if door.compiled is None
            else CompiledColumns(door.compiled, types, max_rows, max_bytes, memory)
        )

    def feed(self, source: Bytes, table: BatchTable) -> Iterator[ArrowBatch]:
        """Decode these batches, and yield each Arrow batch that is full. Raises RecordError."""
        if self._check_crcs:
            check_crcs(source, table)
        for plain in decompressed(source, table):
            for _ in self._open.fill(*plain, self._start, self._end):
                yield self._finish()

    def rest(self) -> ArrowBatch | None:
        """Return the last Arrow batch, with the rows that `feed` has not yielded; None if there are none."""
        return self._finish() if self._open.rows else None

    def _finish(self) -> ArrowBatch:
        """Close the open columns as an Arrow batch."""
        rows = self._open.rows
        filled = dict(zip(self._names, self._open.take(self._names), strict=True))
        arrays = [filled[name] if name in filled else self._repeated(name, rows) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _repeated(self, name: str, rows: int) -> Any:
        known = self._constant.get(name)
        if known is None or len(known) < rows:
            room = min(max(rows, 2 * len(known) if known is not None else 0), self._max_rows)
            known = self._constant[name] = repeated(self._same[name], room, self._memory)
        return known.slice(0, rows)
