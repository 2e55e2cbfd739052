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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ..schemas.casts import by_name, projected
from .day_files import TARGET_BYTES, Day, DayFiles, TablePlace, split
from .rows import MAX_MS, MIN_MS

_NAME = re.compile(r"rows-([0-9a-f-]{36})-(\d+)-[0-9a-f]{32}-\d+\.parquet")
_DAYS = MIN_MS // 86_400_000, MAX_MS // 86_400_000
_TIMES_US = MIN_MS * 1000, MAX_MS * 1000 + 999
_PARQUET: Any = pyarrow.parquet
_COMPUTE: Any = pyarrow.compute
# Where the column of days is null.
_NO_DAY = np.iinfo(np.int32).min


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


class RowFiles(DayFiles[str]):
    """Writes the files of one task. `finish` them, or `abandon`."""

    # Rows have few columns beside an archive's.
    part_bytes = 1 << 10

    def __init__(
        self, place: TablePlace, batch: Batch | None, day_column: str | None = None, target_bytes: int = TARGET_BYTES
    ) -> None:
        super().__init__(place, target_bytes)
        self._day_column = day_column
        parts = () if batch is None else (batch.query_id, str(batch.number))
        self._prefix = "-".join(("rows", *parts, uuid.uuid4().hex))
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Take rows, whose columns are found by their names. Raises RowTypeError."""
        for number, part in self._by_day(fitted(batch, self.place.schema)):
            self.add_part(number, part)
        self.rows += len(batch)
        self.join_parts()
        self.keep_to_bound()

    def new_path(self, number: int, file: int) -> str:
        """Return the path of a new file."""
        return f"{self.place.location}/{self._prefix}-{file}.parquet"

    def new_writer(self, stream: Any) -> Any:
        """Return a writer of Parquet."""
        return _PARQUET.ParquetWriter(
            stream, self.place.schema, compression="zstd", compression_level=1, store_schema=False
        )

    def noted(self, number: int, day: Day, size_bytes: int) -> str:
        """Return the path of a file that is whole."""
        return day.path

    def _by_day(self, batch: Any) -> Iterator[tuple[int, Any]]:
        """Yield the days of rows, each with its rows in their order. Without a column of days all are of one."""
        if self._day_column is None:
            return split(batch, np.zeros(len(batch), np.int32))
        dates = batch.column(self._day_column).cast(pa.date32()).cast(pa.int32())
        return split(batch, dates.fill_null(_NO_DAY).to_numpy())


def fitted(batch: Any, schema: Any) -> Any:
    """Return rows with the columns of a table, null where the rows lack one. Raises RowTypeError."""
    columns = projected(dict(zip(batch.schema.names, batch.columns, strict=True)), schema, len(batch), by_name, _fitted)
    for each, column in zip(schema, columns, strict=True):
        if not each.nullable and column.null_count:
            raise RowTypeError(f"the column {each.name} of the table has no nulls, and a row has one")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(array: Any, kind: Any) -> Any:
    """Return an array in the type of a column. Raises RowTypeError."""
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
