"""Typed columns of the reader: bytes of records -> structs of Spark's types, by `valueFormat` and `keyFormat`.

    decode(binary array, Typed) -> Decoded: the typed array, and which rows are bad

    json      pyarrow's reader. Times are ISO 8601, in UTC without a zone. Dates are 2026-11-22.
    msgpack   one map a record. Times are msgpack's own; dates and decimals are texts.
    avro      one record in Avro's binary form, by the schema of its writer (`valueAvroSchema`).
    string    UTF-8, with no schema.

A null stays a null. A row is bad if its bytes are not of the format, or do not fit the type: then all of its fields are
null, and the field `_corrupt_record`, where the type has it, holds the text. `mode` decides what becomes of it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from ..arrow.json_lines import join_objects
from .columns import CORRUPT, Format
from .errors import BadRecord
from .spark_types import arrow_type, as_read

# pyarrow has no types that a checker could read.
Array = Any
Marks = NDArray[np.bool_]

# What libraries raise for bytes that are not of their format.
_BAD_BYTES = (BadRecord, ValueError, TypeError, LookupError, EOFError, OverflowError, RecursionError, struct.error)


class Decoded(NamedTuple):
    """A typed column, and which of its rows are bad."""

    array: Array
    bad: Marks


def decode(column: Array, wanted: Format, kind: Any) -> Decoded:
    """Return a binary column as an Arrow array of `kind`, a Spark type, with marks for bad rows."""
    bad = np.zeros(len(column), np.bool_)
    if wanted.name == "string":
        return Decoded(_texts(column, bad), bad)
    fields = [each for each in kind.fields if each.name != CORRUPT]
    raw = pa.struct([(each.name, as_read(wanted.name, each.dataType)) for each in fields])
    final = pa.struct([(each.name, arrow_type(each.dataType)) for each in fields])
    pieces = _READERS[wanted.name](column, raw, final, bad, wanted)
    rows = pa.concat_arrays(pieces) if pieces else pa.array([], final)
    return Decoded(_with_corrupt(rows, column, bad, kind), bad)


def fail_on(decoded: Decoded, name: str, offsets: Array) -> None:
    """Raise BadRecord for the first bad row, if there is one."""
    if decoded.bad.any():
        offset = offsets[int(decoded.bad.argmax())].as_py()
        raise BadRecord(f"the {name} of the record at offset {offset} does not fit its schema, and mode is FAILFAST")


# -- Rows


def _with_corrupt(rows: Array, column: Array, bad: Marks, kind: Any) -> Array:
    """Return the struct with nulls where the column has none, and with the texts of bad rows."""
    arrays = dict(zip([each.name for each in rows.type], rows.flatten(), strict=True))
    if any(each.name == CORRUPT for each in kind.fields):
        texts = [_text(column[row].as_py()) if is_bad else None for row, is_bad in enumerate(bad.tolist())]
        arrays[CORRUPT] = pa.array(texts, pa.string())
    null = column.is_null()
    names = [each.name for each in kind.fields]
    return pa.StructArray.from_arrays([arrays[each] for each in names], names, mask=null)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _texts(column: Array, bad: Marks) -> Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for row, value in enumerate(column.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                texts.append(None)
                bad[row] = True
        return pa.array(texts, pa.string())


def _divided(read: Callable[[int, int], Array], none: Array, first: int, end: int, bad: Marks) -> list[Array]:
    """Return what `read` makes of rows [first, end), in pieces. Rows that it fails for are found by halves, and bad."""
    try:
        return [read(first, end)]
    except (BadRecord, ValueError, TypeError, OverflowError):  # pyarrow's own errors are ValueErrors
        if end - first == 1:
            bad[first] = True
            return [none]
    middle = (first + end) // 2
    return _divided(read, none, first, middle, bad) + _divided(read, none, middle, end, bad)


def _cast(array: Array, kind: Any) -> Array:
    """Return the array in another type. pyarrow's own cast also reads what lies under the nulls of a struct."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        parts = [_cast(part, field.type) for part, field in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        whole = pa.concat_arrays([array]) if array.offset else array
        values = _cast(whole.values, kind.value_type)
        return pa.ListArray.from_arrays(whole.offsets, values, type=kind, mask=whole.is_null())
    return array.cast(kind)


# -- JSON


def _from_json(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
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
            raise BadRecord("a line is not one row")
        columns = [each.combine_chunks() for each in table.columns]
        return _cast(pa.StructArray.from_arrays(columns, fields=list(raw)), final)

    if not len(column):
        return []
    return _divided(read, pa.array([None], final), 0, len(column), bad)


# -- Formats that a library reads row by row


def _from_msgpack(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    def unpack(value: bytes) -> Any:
        return msgpack.unpackb(value, timestamp=3)

    return _from_rows(column, raw, final, bad, unpack)


def _from_avro(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    library = import_module("fastavro")
    schema = library.parse_schema(json.loads(wanted.avro_schema or ""))

    def unpack(value: bytes) -> Any:
        stream = io.BytesIO(value)
        row = library.schemaless_reader(stream, schema, None)
        if stream.tell() != len(value):
            raise BadRecord("bytes are left after the record")
        return row

    return _from_rows(column, raw, final, bad, unpack)


def _from_rows(column: Array, raw: Any, final: Any, bad: Marks, unpack: Callable[[bytes], Any]) -> list[Array]:
    rows: list[Any] = []
    for number, value in enumerate(column.to_pylist()):
        row = None
        if value is not None:
            try:
                row = unpack(value)
            except _BAD_BYTES:
                row = None
            bad[number] = not isinstance(row, dict) or not _fits(row, raw)
        rows.append(None if bad[number] else row)

    def read(first: int, end: int) -> Array:
        return _cast(pa.array(rows[first:end], raw), final)

    return _divided(read, pa.array([None], final), 0, len(rows), bad) if rows else []


def _fits(value: Any, kind: Any) -> bool:
    """Return whether pyarrow changes no number: in silence it cuts fractions off, and takes true for 1.0."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return all(_fits(value.get(each.name), each.type) for each in kind)
    if isinstance(value, list) and pa.types.is_list(kind):
        return all(_fits(each, kind.value_type) for each in value)
    if isinstance(value, float) and pa.types.is_integer(kind):
        return value.is_integer()
    return not (isinstance(value, bool) and pa.types.is_floating(kind))


_READERS: dict[str, Callable[[Array, Any, Any, Marks, Format], Sequence[Array]]] = {
    "json": _from_json,
    "msgpack": _from_msgpack,
    "avro": _from_avro,
}
