"""Columns of Avro's bytes -> Arrow arrays: by the compiled kernel, and by fastavro where it leaves rows to Python.

    decoded(column, type as read, type, programs) -> the array, and the rows that are left for Python
    with_rows(array, rows, others) -> the array with other values in some rows
    avro_rows(...) -> arrays, as `unpacked_rows` makes them

What reads a record is a program of the kernel (`avro_program.py`), by the id of its writer's schema. Python reads every
record that is bad, or not usual, so what becomes of these stands in `unpack` alone.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...kernel import door
from ..errors import KafkaError
from .avro_places import Columns, Unknown
from .avro_program import program_of
from .registered import BadFrame
from .tables import TableAvro, TableJson, fitted
from .typed_rows import Marks, unpacked_rows

Array = Any


class Programs(NamedTuple):
    """What the kernel reads values by: `find` returns the program for a schema's id, None where Python reads them."""

    find: Callable[[Columns, int | None], Any]
    # Whether the id of a schema stands in front of each value.
    are_framed: bool


def of_schema(schema: Any) -> Programs:
    """Return the program of values that one parsed schema wrote."""

    def find(columns: Columns, schema_id: int | None) -> Any:
        return _compiled(schema, None, columns, is_field=False)

    return Programs(find, False)


def of_registry(reader: TableAvro, *, is_field: bool = False) -> Programs:
    """Return the programs of values that name the schemas of their writers.

    `is_field`: each value is the only field of a struct.
    """

    def find(columns: Columns, schema_id: int | None) -> Any:
        assert schema_id is not None
        try:
            writer, own = reader.pair(schema_id)
        except (KafkaError, BadFrame):
            return None  # Python says why, record by record
        key = ("program", schema_id, columns.root.raw, columns.root.final, is_field)
        return reader.once(key, lambda: _compiled(writer, own, columns, is_field=is_field))

    return Programs(find, True)


def _compiled(writer: Any, reader: Any, columns: Columns, *, is_field: bool) -> Any:
    try:
        return door.compiled.AvroProgram(columns.shapes, *program_of(writer, reader, columns, is_field=is_field))
    except Unknown:
        return None


def avro_rows(
    column: Array, raw: Any, final: Any, bad: Marks, unpack: Callable[[bytes], Any], programs: Programs
) -> list[Array]:
    """Return the rows of a binary column as `unpacked_rows` does, which reads what the kernel leaves."""
    array, rows = decoded(column, raw, final, programs)
    if not rows.size:
        return [array]
    marks = np.zeros(rows.size, np.bool_)
    others = unpacked_rows(taken(column, rows), raw, final, marks, unpack)
    bad[rows] = marks
    return [with_rows(array, rows, pa.concat_arrays(others))]


def rows_by_registry(
    reader: TableAvro | TableJson, column: Array, raw: Any, final: Any, bad: Marks, *, is_field: bool = False
) -> list[Array]:
    """Return the rows of a binary column whose values name their schemas, as `unpacked_rows` does.

    `is_field`: each value is the only field of a struct.
    """

    def unpack(value: bytes) -> Any:
        row = {"": reader.decode(value)} if is_field else reader.decode(value)
        return row if isinstance(reader, TableAvro) else fitted(row, raw)

    if isinstance(reader, TableAvro):
        return avro_rows(column, raw, final, bad, unpack, of_registry(reader, is_field=is_field))
    return unpacked_rows(column, raw, final, bad, unpack)


def decoded(column: Array, raw: Any, final: Any, programs: Programs) -> tuple[Array, NDArray[np.int64]]:
    """Return a binary column, which is read as `raw`, as an array of `final`, and which rows are left for Python.

    There the array has nulls.
    """
    count, kernel = len(column), door.compiled
    try:
        columns = Columns(raw, final) if count else None
    except Unknown:
        columns = None
    if columns is None or kernel is None:
        return pa.nulls(count, final), np.arange(count)
    values = kernel.BytesColumn(column.offset, count, *column.buffers())
    marks = np.zeros(count, np.bool_)
    schema_id = -1 if programs.are_framed else None
    program = None if programs.are_framed else programs.find(columns, None)
    pieces: list[Array] = []
    row = 0
    while row < count:
        filled = kernel.AvroColumns(columns.shapes)
        while row < count and not filled.is_full:
            row, found = filled.append(values, row, program, schema_id, marks)
            if programs.are_framed and row < count and found != schema_id:
                schema_id, program = found, programs.find(columns, found)
        pieces.append(columns.array(filled))
    return pa.concat_arrays(pieces), np.flatnonzero(marks)


def taken(column: Array, rows: NDArray[np.int64]) -> Array:
    """Return some rows of a column."""
    return column if rows.size == len(column) else column.take(pa.array(rows))


def with_rows(array: Array, rows: NDArray[np.int64], others: Array) -> Array:
    """Return an array with other values in some rows."""
    if rows.size == len(array):
        return others
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(rows.size)
    return pa.concat_arrays([array, others]).take(pa.array(places))
