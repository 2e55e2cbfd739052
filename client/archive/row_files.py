"""Rows of any columns -> Parquet files of their table. Tasks of Spark run it, so it needs pyarrow alone.

    <table>/data/<uuid of the table>/rows-<query>-<batch>-<uuid>-<number>.parquet        of a batch of a stream
    <table>/data/<uuid of the table>/rows-<uuid>-<number>.parquet                        of a write without a stream

Once the table has a batch of a query, a file of this batch, or of one before it, that no snapshot names is left over
for good. Where the table is partitioned by the day of a column, a file has rows of one day.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from .parquet_files import OPEN_FILES, PENDING_BYTES, TARGET_BYTES, TablePlace, sync
from .rows import MAX_MS, MIN_MS

_NAME = re.compile(r"rows-([0-9a-f-]{36})-(\d+)-[0-9a-f]{32}-\d+\.parquet")
_ROW_GROUP = 131_072
# What Arrow needs for a part of few rows and columns, beside their bytes.
_PART_BYTES = 1 << 10
_DAYS = MIN_MS // 86_400_000, MAX_MS // 86_400_000
_TIMES_US = MIN_MS * 1000, MAX_MS * 1000 + 999
_PARQUET: Any = pyarrow.parquet
_COMPUTE: Any = pyarrow.compute
# A file for rows of any day.
_ALL_DAYS = None


class RowTypeError(ValueError):
    """A row does not fit its table."""


class Batch(NamedTuple):
    """A batch of a query of Spark."""

    query_id: str
    number: int


def batch_of(path: str) -> Batch | None:
    """Return the batch that the name of a file says, None for other files."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else Batch(found[1], int(found[2]))


@dataclass(slots=True)
class _Day:
    """The rows of one day: those that wait, and the file that they go to."""

    pending: list[Any] = field(default_factory=list[Any])
    pending_bytes: int = 0
    path: str = ""
    stream: Any = None
    writer: Any = None
    written_rows: int = 0


class RowFiles:
    """Writes the files of one task. `finish` them, or `abandon`."""

    def __init__(
        self, place: TablePlace, batch: Batch | None, day_column: str | None = None, target_bytes: int = TARGET_BYTES
    ) -> None:
        self._place, self._day_column, self._target_bytes = place, day_column, target_bytes
        parts = () if batch is None else (batch.query_id, str(batch.number))
        self._prefix = "-".join(("rows", *parts, uuid.uuid4().hex))
        self._days: dict[int | None, _Day] = {}
        self._done: list[str] = []
        self._count = 0
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Take rows, whose columns are found by their names. Raises RowTypeError."""
        for key, part in self._by_day(fitted(batch, self._place.schema)):
            day = self._days.setdefault(key, _Day())
            day.pending.append(part)
            day.pending_bytes += part.nbytes + _PART_BYTES
        self.rows += len(batch)
        if self._pending_bytes() > PENDING_BYTES:
            self._join_parts()
        while self._pending_bytes() > PENDING_BYTES:
            self._write(max(self._days, key=lambda key: self._days[key].pending_bytes))

    def finish(self) -> list[str]:
        """Write the rest, and return the paths of all files."""
        while self._days:
            key = next(iter(self._days))
            if self._days[key].pending:  # a row group without rows would leave the file without statistics
                self._write(key)
            if key in self._days:
                self._close(key)
        return self._done

    def abandon(self) -> None:
        """Close what is open. No commit will name these files."""
        for day in self._days.values():
            if day.writer is not None:
                with suppress(OSError, pa.ArrowException):
                    day.writer.close()
                    day.stream.close()
        self._days.clear()

    def _pending_bytes(self) -> int:
        return sum(day.pending_bytes for day in self._days.values())

    def _join_parts(self) -> None:
        """Make one part of those of each day: a part of few rows takes more memory than these."""
        for day in self._days.values():
            if len(day.pending) > 1:
                day.pending = pa.Table.from_batches(day.pending).combine_chunks().to_batches()
                day.pending_bytes = sum(part.nbytes + _PART_BYTES for part in day.pending)

    def _write(self, key: int | None) -> None:
        """Write the rows of a day that wait, and end the file where it is large enough, or too many are open."""
        day = self._days[key]
        rows = pa.Table.from_batches(day.pending, schema=self._place.schema)
        day.pending, day.pending_bytes = [], 0
        if day.writer is None:
            day.path = f"{self._place.location}/{self._prefix}-{self._count}.parquet"
            self._count += 1
            day.stream = self._place.created(day.path)
            day.writer = _PARQUET.ParquetWriter(
                day.stream, self._place.schema, compression="zstd", compression_level=1, store_schema=False
            )
        day.writer.write_table(rows, row_group_size=_ROW_GROUP)
        day.written_rows += len(rows)
        opened = [each for each, other in self._days.items() if other.writer is not None]
        if day.stream.tell() >= self._target_bytes:
            self._close(key)
        elif len(opened) > OPEN_FILES:
            self._close(min(opened, key=lambda each: self._days[each].written_rows))

    def _close(self, key: int | None) -> None:
        """End the file of a day. Rows that wait, and those that come, go to another one."""
        day = self._days.pop(key)
        day.writer.close()
        day.stream.close()
        sync(day.path)
        self._done.append(day.path)
        if day.pending:
            self._days[key] = _Day(day.pending, day.pending_bytes)

    def _by_day(self, batch: Any) -> Iterator[tuple[int | None, Any]]:
        """Yield the days of rows, each with its rows in their order. Copies: slices would keep what they come from."""
        if self._day_column is None or not len(batch):
            if len(batch):
                yield _ALL_DAYS, batch
            return
        dates = batch.column(self._day_column).cast(pa.date32()).cast(pa.int32())
        keys = dates.fill_null(np.iinfo(np.int32).min).to_numpy()
        for key in np.unique(keys).tolist():
            yield key, batch.filter(pa.array(keys == key))


def fitted(batch: Any, schema: Any) -> Any:
    """Return rows with the columns of a table, null where the rows lack one. Raises RowTypeError."""
    names = batch.schema.names
    columns = [
        _fitted(batch.column(each.name), each.type) if each.name in names else pa.nulls(len(batch), each.type)
        for each in schema
    ]
    for each, column in zip(schema, columns, strict=True):
        if not each.nullable and column.null_count:
            raise RowTypeError(f"the column {each.name} of the table has no nulls, and a row has one")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(array: Any, kind: Any) -> Any:
    """Return an array in the type of a column: structs by the names of their fields."""
    if pa.types.is_struct(kind):
        held = dict(zip((each.name for each in array.type), array.flatten(), strict=True))
        parts = [
            _fitted(held[each.name], each.type) if each.name in held else pa.nulls(len(array), each.type)
            for each in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        whole = pa.concat_arrays([array]) if array.offset else array
        mask = whole.is_null()
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(whole.offsets, _fitted(whole.values, kind.value_type), type=kind, mask=mask)
        keys, items = _fitted(whole.keys, kind.key_type), _fitted(whole.items, kind.item_type)
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=kind, mask=mask)
    try:
        return _within_years(array.cast(kind))
    except pa.ArrowInvalid as error:
        raise RowTypeError(str(error)) from None


def _within_years(array: Any) -> Any:
    """Return an array whose times are those of a commit, which reads the bounds of a file. Raises RowTypeError."""
    is_day = pa.types.is_date32(array.type)
    if is_day or (pa.types.is_timestamp(array.type) and array.type.unit == "us"):
        found = _COMPUTE.min_max(array.view(pa.int32() if is_day else pa.int64())).as_py()
        least, most = _DAYS if is_day else _TIMES_US
        if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
            raise RowTypeError("a date or a time lies outside of the years 1 to 9999, which tables have")
    return array
