"""Fetched batches -> rows of a table. No record stops an archive: what a table cannot hold has a place of its own.

The decoder of `client/arrow` refuses a batch with a time that does not fit into 64 bits of microseconds. Such a batch
is read again here, record by record. Batches whose bytes are damaged are errors here as there.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...protocol.records.errors import InvalidRecord
from ..arrow.batches import Section, check_crcs, decompressed
from ..arrow.columns import PythonColumns
from ..arrow.decoder import MAX_BYTES, TYPES, ArrowDecoder, schema_of

# As the decoder names them, in the order of the table.
_DECODED = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
# The same without the partition, and with times that no timestamp of Arrow holds.
_ANY_TIMES = {name: TYPES.get(name, pa.int64()) for name in ("offset", "timestampMs", *_DECODED[3:])}
MAX_ROWS = 32_768
# The columns of values that have types, where a table has them.
TYPED, ERROR = "value_", "_error"
# From the year 1 to 9999, which Iceberg's days and Python's dates have.
MIN_MS, MAX_MS = -62_135_596_800_000, 253_402_300_799_999


# Gives types to values: takes rows with nulls in their typed columns and the schema, and returns rows.
Typed = Callable[[Any, Any], Any]


class TableRows:
    """Makes rows of the records of one partition whose offsets are in [start, end)."""

    def __init__(
        self, schema: Any, topic: str, partition: int, start: int, end: int, typed: Typed | None = None
    ) -> None:
        self._schema, self._typed = schema, typed
        self._of = topic, partition
        # Records below it are done, or not wanted.
        self._start, self._end = start, end
        self._decoder = self._new_decoder()

    def feed(self, section: Section) -> Iterator[Any]:
        """Yield Arrow batches of rows, in the order of offsets. Raises RecordError."""
        try:
            for batch in self._decoder.feed(section.source, section.table):
                yield self._rows(batch)
        except InvalidRecord:
            yield from self.rest()
            self._decoder = self._new_decoder()
            yield from self._record_by_record(section)

    def rest(self) -> Iterator[Any]:
        """Yield the rows that `feed` has not yielded yet."""
        batch = self._decoder.rest()
        if batch is not None:
            yield self._rows(batch)

    def _new_decoder(self) -> ArrowDecoder:
        # A batch that holds a bad time is fed again, so the records before it must not come twice: by `_start`.
        return ArrowDecoder(schema_of(_DECODED), *self._of, self._start, self._end, max_rows=MAX_ROWS)

    def _rows(self, batch: Any) -> Any:
        """Return a decoded batch as rows of the table."""
        times, ms = batch.column(2), None
        us = np.frombuffer(times.buffers()[1], np.int64, len(batch), times.offset * 8)
        if us.min() < MIN_MS * 1000 or us.max() > MAX_MS * 1000:
            times, ms = _clamped(us // 1000)
        return self._made([*batch.columns[:2], times, *batch.columns[3:]], ms)

    def _made(self, columns: list[Any], ms: Any) -> Any:
        rows = len(columns[0])
        self._start = columns[1][-1].as_py() + 1
        headers = _headers(columns[6], self._schema.field("headers").type)
        ms = pa.nulls(rows, pa.int64()) if ms is None else ms
        nulls = [pa.nulls(rows, self._schema.field(name).type) for name in (TYPED, ERROR) if name in self._schema.names]
        batch = pa.RecordBatch.from_arrays([*columns[:6], headers, ms, *nulls], schema=self._schema)
        return batch if self._typed is None else self._typed(batch, self._schema)

    # -- What the decoder refuses

    def _record_by_record(self, section: Section) -> Iterator[Any]:
        """Yield the rows of a section from `_start` on. Raises RecordError for bytes that are damaged."""
        check_crcs(section.source, section.table)
        columns = PythonColumns(_ANY_TIMES, MAX_ROWS, MAX_BYTES)
        for plain in decompressed(section.source, section.table):
            for _ in columns.fill(*plain, self._start, self._end):
                yield self._with_any_times(columns)
        if columns.rows:
            yield self._with_any_times(columns)

    def _with_any_times(self, columns: PythonColumns) -> Any:
        """Return open columns as rows of the table."""
        partition = pa.array([self._of[1]] * columns.rows, pa.int32())
        offset, ms, *others = columns.take(list(_ANY_TIMES))
        times, original = _clamped(ms.to_numpy())
        return self._made([partition, offset, times, *others], original)


def _clamped(ms: Any) -> tuple[Any, Any]:
    """Return times within Iceberg's years, and what records said where that is another time."""
    moved = np.clip(ms, MIN_MS, MAX_MS)
    original = pa.array(ms, pa.int64(), mask=moved == ms)
    return pa.array(moved * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC")), original


def _headers(decoded: Any, kind: Any) -> Any:
    """Return the column of headers with `raw_key`. The decoder does not look whether keys are UTF-8."""
    if decoded.null_count == len(decoded):
        return pa.nulls(len(decoded), kind)
    entries = decoded.values
    names, values = entries.field(0), entries.field(1)
    try:
        names.validate(full=True)
        raw = pa.nulls(len(names), pa.binary())
    except pa.ArrowInvalid:
        names, raw = _readable(names)
    fields = list(kind.value_type)
    made = pa.StructArray.from_arrays([names, values, raw], fields=fields)
    return pa.ListArray.from_arrays(decoded.offsets, made, type=kind, mask=decoded.is_null())


def _readable(names: Any) -> tuple[Any, Any]:
    """Return header keys as text that every reader takes, and the bytes of those that had to change."""
    entries = [_header(each, None) for each in names.view(pa.binary()).to_pylist()]
    return (
        pa.array([each["key"] for each in entries], pa.string()),
        pa.array([each["raw_key"] for each in entries], pa.binary()),
    )


def _header(name: bytes, value: bytes | None) -> dict[str, Any]:
    text = name.decode("utf-8", "replace")
    return {"key": text, "value": value, "raw_key": None if text.encode() == name else name}
