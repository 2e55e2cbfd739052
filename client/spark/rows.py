"""The rows of a range as Spark expects them: Arrow batches of a user's schema, with typed keys and values.

This module imports numpy and pyarrow: only a running task imports it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrow.decoder import TYPES, ArrowBatch, ArrowDecoder
from ..arrow.fetch import OffsetRange
from .columns import Column, SchemaError, arrow_type


class RowDecoder(ArrowDecoder):
    """Decodes the sections of one range. Raises SchemaError and BadRecord besides."""

    def __init__(
        self, columns: Sequence[Column], wanted: OffsetRange, *, max_rows: int, check_crcs: bool = True
    ) -> None:
        self._columns = columns
        self._place = f"{wanted.topic}-{wanted.partition}"
        self._is_typed = any(column.format is not None for column in columns)
        self._typed_schema = read = arrow_schema(columns)
        if self._is_typed:
            read = pa.schema([pa.field(each.name, TYPES[each.name]) if each.format else read.field(each.name)
                              for each in columns])  # fmt: skip
            if "offset" not in read.names:  # an error of a typed value names it
                read = read.append(pa.field("offset", TYPES["offset"]))
        super().__init__(
            read, wanted.topic, wanted.partition, wanted.start, wanted.end, max_rows=max_rows, check_crcs=check_crcs
        )

    def _finish(self) -> ArrowBatch:
        batch = super()._finish()
        if self._is_typed:
            batch = pa.RecordBatch.from_arrays(self._typed_arrays(batch), schema=self._typed_schema)
        for column, array in zip(self._columns, batch.columns, strict=True):
            if array.null_count and not column.nullable:
                raise SchemaError(
                    f"column '{column.name}' is NOT NULL in the schema, but there are records without one"
                )
        return batch

    def _typed_arrays(self, batch: ArrowBatch) -> list[Any]:
        """Return the columns with typed keys and values, without the rows that `mode` drops."""
        from . import typed_values

        arrays = batch.columns[: len(self._columns)]
        dropped = np.zeros(batch.num_rows, np.bool_)
        for number, column in enumerate(self._columns):
            if column.format is None:
                continue
            decoded = typed_values.decode(arrays[number], column.format, column.kind)
            arrays[number] = decoded.array
            if column.format.mode == "FAILFAST":
                typed_values.fail_on(decoded, column.name, self._place, batch.column("offset"))
            if column.format.mode == "DROPMALFORMED":
                dropped |= decoded.bad
        if not dropped.any():
            return arrays
        kept = pa.array(~dropped)
        return [each.filter(kept) for each in arrays]


def arrow_schema(columns: Sequence[Column]) -> Any:
    """Return the schema that Spark expects of the batches: its own translation, also of what may be null."""
    return pa.schema([pa.field(column.name, arrow_type(column.kind), column.nullable) for column in columns])
