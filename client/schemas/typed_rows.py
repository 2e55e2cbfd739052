"""Bytes -> rows of a struct, by Arrow: JSON by pyarrow's reader, other formats row by row.

    json_rows(binary column, type as read, type, marks) -> arrays of the type

A row whose bytes are not of the format, or do not fit the type, is null and marked. Nulls stay nulls.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from ...kernel import door
from .casts import cast
from .tables import fits

Array = Any
Marks = NDArray[np.bool_]


class BadValue(ValueError):
    """Bytes are not of their format."""


# What libraries raise for bytes that are not of their format.
BAD_BYTES = (ValueError, TypeError, LookupError, EOFError, OverflowError, RecursionError, struct.error)
# A reader that recurses has an end of its stack.
MAX_DEPTH = 64
# A string, a brace or bracket, a run of other bytes. A string that does not end matches nothing.
_TOKENS = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*"|[{}\[\]]|[^"{}\[\]]+', re.DOTALL)
_BLANK = b" \t\r\n"
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def json_rows(column: Array, raw: Any, final: Any, bad: Marks) -> list[Array]:
    """Return the rows of JSON objects in a binary column, read as `raw` and cast to `final`."""
    lines, ends = join_objects(column, bad)
    schema = pa.schema(list(raw))
    parsing = arrow_json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=False
    )

    def read(first: int, end: int) -> Array:
        part = lines[int(ends[first]) : int(ends[end])]
        str(part, "utf-8")  # pyarrow takes any bytes in strings, and Spark does not
        reading = arrow_json.ReadOptions(use_threads=False, block_size=len(part) + 1)
        table = arrow_json.read_json(pa.BufferReader(part), reading, parsing)
        if table.num_rows != end - first:
            raise BadValue("a line is not one row")
        columns = [each.combine_chunks() for each in table.columns]
        return cast(pa.StructArray.from_arrays(columns, fields=list(raw)), final)

    if not len(column):
        return []
    return _divided(read, pa.array([None], final), 0, len(column), bad)


def unpacked_rows(column: Array, raw: Any, final: Any, bad: Marks, unpack: Callable[[bytes], Any]) -> list[Array]:
    """Return the rows that `unpack` makes of a binary column: dictionaries, or whatever BAD_BYTES says of bad ones."""
    rows: list[Any] = []
    for number, value in enumerate(column.to_pylist()):
        row = None
        if value is not None:
            try:
                row = unpack(value)
            except BAD_BYTES:
                row = None
            bad[number] = not isinstance(row, dict) or not fits(row, raw)
        rows.append(None if bad[number] else row)

    def read(first: int, end: int) -> Array:
        return cast(pa.array(rows[first:end], raw), final)

    return _divided(read, pa.array([None], final), 0, len(rows), bad) if rows else []


def _divided(read: Callable[[int, int], Array], none: Array, first: int, end: int, bad: Marks) -> list[Array]:
    """Return what `read` makes of rows [first, end), in pieces. Rows that it fails for are found by halves, and bad."""
    try:
        return [read(first, end)]
    except (ValueError, TypeError, OverflowError):  # pyarrow's own errors are ValueErrors
        if end - first == 1:
            bad[first] = True
            return [none]
    middle = (first + end) // 2
    return _divided(read, none, first, middle, bad) + _divided(read, none, middle, end, bad)


# -- JSON lines: pyarrow's reader takes several objects from one line, and a `null` between lines ends the process (seen
# in 26.0.1). So only a value that is one object, by its braces and strings, reaches it; every other one is bad. The
# compiled kernel (kernel/json.pxi) finds them where it was built, otherwise Python does.


def join_objects(column: Any, bad: NDArray[np.bool_]) -> tuple[memoryview, NDArray[np.int64]]:
    """Return a text with a line for each row of a binary column, and where the lines end.

    A null and a value that is no object become `{}`. The latter are marked in `bad`.
    """
    if door.compiled is None:
        return _join_in_python(column, bad)
    data, rows = column.buffers()[2], len(column)
    lines = np.empty((0 if data is None else data.size) + 3 * rows, np.uint8)
    ends = np.empty(rows + 1, np.int64)
    filled = door.compiled.join_objects(
        door.compiled.BytesColumn(column.offset, len(column), *column.buffers()), lines, ends, bad
    )
    return lines.data[:filled], ends


def _join_in_python(column: Any, bad: NDArray[np.bool_]) -> tuple[memoryview, NDArray[np.int64]]:
    lines = bytearray()
    ends = [0]
    for row, value in enumerate(column.to_pylist()):
        if value is not None and _is_object(value):
            lines += value.translate(_LINE_ENDS)
        else:
            bad[row] |= value is not None
            lines += b"{}"
        lines += b"\n"
        ends.append(len(lines))
    return memoryview(lines), np.array(ends, np.int64)


def _is_object(value: bytes) -> bool:
    """Whether braces, brackets and strings are those of one object. A closing one may be of the other kind."""
    depth, at, closed = 0, 0, False
    for token in _TOKENS.finditer(value):
        if token.start() != at:
            return False
        at, text = token.end(), token[0].strip(_BLANK)
        if not text:
            continue
        if closed or (depth == 0 and text != b"{"):
            return False
        if text in (b"{", b"["):
            depth += 1
            if depth > MAX_DEPTH:
                return False
        elif text in (b"}", b"]"):
            depth -= 1
            closed = depth == 0
    return closed and at == len(value)
