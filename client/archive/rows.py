"""Fetched batches -> rows of a table. No record stops an archive: what a table cannot hold has a place of its own.

The decoder of `client/arrow` refuses a batch with a time that does not fit into 64 bits of microseconds. Such a batch
is read again here, record by record. Batches whose bytes are damaged are errors here as there.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ...protocol.records.batch import LOG_APPEND_TIME
from ...protocol.records.errors import InvalidRecord
from ..arrow.batches import ATTRIBUTES, Section, check_crcs, decompressed
from ..arrow.columns import records_of
from ..arrow.decoder import MAX_BYTES, ArrowDecoder, schema_of

# As the decoder names them, in the order of the table.
_DECODED = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
MAX_ROWS = 32_768
# The columns of values that have types, where a table has them.
TYPED, ERROR = "value_", "_error"
# From the year 1 to 9999, which Iceberg's days and Python's dates have.
MIN_MS, MAX_MS = -62_135_596_800_000, 253_402_300_799_999


class Typed(Protocol):
    """Gives types to values."""

    def of(self, batch: Any, schema: Any) -> Any:
        """Return rows with their typed columns, of rows with nulls there."""
        ...


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
        columns = batch.columns
        self._start = columns[1][-1].as_py() + 1
        ms = None
        times = np.frombuffer(columns[2].buffers()[1], np.int64, len(batch), columns[2].offset * 8)
        if times.min() < MIN_MS * 1000 or times.max() > MAX_MS * 1000:
            columns[2], ms = _clamped(times // 1000)
        return self._made([*columns[:6], _headers(columns[6], self._schema.field("headers").type)], ms)

    def _made(self, columns: list[Any], ms: Any) -> Any:
        rows = len(columns[0])
        ms = pa.nulls(rows, pa.int64()) if ms is None else ms
        nulls = [pa.nulls(rows, self._schema.field(name).type) for name in (TYPED, ERROR) if name in self._schema.names]
        batch = pa.RecordBatch.from_arrays([*columns, ms, *nulls], schema=self._schema)
        return batch if self._typed is None else self._typed.of(batch, self._schema)

    # -- What the decoder refuses

    def _record_by_record(self, section: Section) -> Iterator[Any]:
        """Yield the rows of a section from `_start` on. Raises RecordError for bytes that are damaged."""
        check_crcs(section.source, section.table)
        for source, table in decompressed(section.source, section.table):
            for batch in table.tolist():
                records = zip(*records_of(source, batch), strict=True)
                time_type = 1 if batch[ATTRIBUTES] & LOG_APPEND_TIME else 0
                yield from self._chunks([each for each in records if self._start <= each[0] < self._end], time_type)

    def _chunks(self, records: list[Any], time_type: int) -> Iterator[Any]:
        """Yield rows of so many records, and bytes of them, as the decoder would."""
        chunk: list[Any] = []
        size = 0
        for each in records:
            size += len(each[2] or b"") + len(each[3] or b"")
            chunk.append(each)
            if size >= MAX_BYTES or len(chunk) == MAX_ROWS:
                yield self._of_records(chunk, time_type)
                chunk, size = [], 0
        if chunk:
            yield self._of_records(chunk, time_type)

    def _of_records(self, records: list[Any], time_type: int) -> Any:
        offsets, times, keys, values, headers = zip(*records, strict=True)
        self._start = offsets[-1] + 1
        timestamps, ms = _clamped(np.array(times, np.int64))
        rows = len(records)
        entries = [
            None if not each else [_header(name.encode("utf-8", "surrogateescape"), value) for name, value in each]
            for each in headers
        ]
        columns = [
            pa.array([self._of[1]] * rows, pa.int32()),
            pa.array(offsets, pa.int64()),
            timestamps,
            pa.array([time_type] * rows, pa.int32()),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(entries, self._schema.field("headers").type),
        ]
        return self._made(columns, ms)


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
