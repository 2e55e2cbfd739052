"""Typed values: bytes of records to columns of Spark's types and back, by the options `valueFormat` and `keyFormat`.

    decode(binary array, format, type) -> Decoded: the typed array, and which rows are bad
    encode(format, array, avro_schema) -> [bytes or None, ...]

    json      pyarrow's reader. Times are ISO 8601, in UTC without a zone; dates 2026-11-22; bytes base64.
    msgpack   one map a record. Times are msgpack's own; dates and decimals are texts.
    avro      one record in Avro's binary form, by the schema of its writer (`valueAvroSchema`).
    json-schema  JSON behind the id of its schema, which a schema registry has; strings as they are for a string column,
              other values as their JSON.
    string    UTF-8, with no schema.

A null stays a null. A row is bad if its bytes are not of the format, or do not fit the type: then all of its fields are
null, and the field `_corrupt_record`, where the type has it, holds the text. `mode` decides what becomes of it.
Everything works on Arrow arrays, so tests need no Spark.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InvalidOption, SerializationFailed
from ..schemas.avro import reader_of
from ..schemas.avro_columns import avro_rows, of_schema, rows_by_registry
from ..schemas.casts import with_leaves
from ..schemas.tables import in_json
from ..schemas.typed_rows import BadValue, json_rows, unpacked_rows
from .columns import CORRUPT, BadRecord, Format, arrow_type

# pyarrow has no types that a checker could read.
Array = Any
Marks = NDArray[np.bool_]
# The types that a format has as texts.
_AS_TEXT: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "json": (pa.types.is_date,),
    "msgpack": (pa.types.is_date, pa.types.is_decimal),
    "avro": (),
    "json-schema": (pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal),
}


class Decoded(NamedTuple):
    """A typed column, and which of its rows are bad."""

    array: Array
    bad: Marks


def decode(column: Array, wanted: Format, kind: Any) -> Decoded:
    """Return a binary column as an Arrow array of `kind`, a Spark type, with marks for bad rows."""
    bad = np.zeros(len(column), np.bool_)
    if wanted.name == "string":
        return Decoded(_texts(column, bad), bad)
    if kind.typeName() != "struct":
        return _of_any_type(column, wanted, kind, bad)
    final = pa.struct([each for each in arrow_type(kind) if each.name != CORRUPT])
    raw = _as_read(wanted.name, final)
    pieces = _READERS[wanted.name](column, raw, final, bad, wanted)
    rows = pa.concat_arrays(pieces) if pieces else pa.array([], final)
    text = _base64 if wanted.registered is not None else _text
    return Decoded(_with_corrupt(rows, column, bad, kind, text), bad)


def _of_any_type(column: Array, wanted: Format, kind: Any, bad: Marks) -> Decoded:
    """Return a column of a type that is no struct, as a registry has them for keys."""
    final = pa.struct([("", arrow_type(kind))])
    raw = _as_read(wanted.name, final)
    pieces = rows_by_registry(wanted.registered, column, raw, final, bad, is_field=True)
    rows = pa.concat_arrays(pieces) if pieces else pa.array([], final)
    return Decoded(rows.flatten()[0], bad)


def _as_read(format_name: str, kind: Any) -> Any:
    """Return the Arrow type in which a format is read; a cast makes `kind` of it."""

    def changed(leaf: Any) -> Any:
        return pa.string() if any(is_such(leaf) for is_such in _AS_TEXT[format_name]) else leaf

    return with_leaves(kind, changed)


def fail_on(decoded: Decoded, name: str, partition: str, offsets: Array) -> None:
    """Raise BadRecord for the first bad row, if there is one."""
    if decoded.bad.any():
        offset = offsets[int(decoded.bad.argmax())].as_py()
        why = f"the {name} does not fit its schema, and mode is FAILFAST"
        raise BadRecord(f"{partition} at offset {offset}: {why}")


# -- Rows


def _with_corrupt(
    rows: Array, column: Array, bad: Marks, kind: Any, text: Callable[[bytes | None], str | None]
) -> Array:
    """Return the struct with nulls where the column has none, and with the texts of bad rows."""
    arrays = dict(zip([each.name for each in rows.type], rows.flatten(), strict=True))
    if any(each.name == CORRUPT for each in kind.fields):
        texts = [text(column[row].as_py()) if is_bad else None for row, is_bad in enumerate(bad.tolist())]
        arrays[CORRUPT] = pa.array(texts, pa.string())
    null = column.is_null()
    names = [each.name for each in kind.fields]
    return pa.StructArray.from_arrays([arrays[each] for each in names], names, mask=null)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _base64(value: bytes | None) -> str | None:
    # Avro is no text: what is kept of a bad record must be all of it.
    return None if value is None else base64.b64encode(value).decode()


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


def _from_json(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    return json_rows(column, raw, final, bad)


# -- Formats that a library reads row by row


def _from_msgpack(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    def unpack(value: bytes) -> Any:
        return msgpack.unpackb(value, timestamp=3)

    return unpacked_rows(column, raw, final, bad, unpack)


def _from_avro(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    if wanted.registered is not None:
        return _of_registry(column, raw, final, bad, wanted)
    schema, read = _avro_reader(wanted.avro_schema or "")

    def unpack(value: bytes) -> Any:
        stream = io.BytesIO(value)
        row = read(stream, schema, None)
        if stream.tell() != len(value):
            raise BadValue("bytes are left after the record")
        return row

    return avro_rows(column, raw, final, bad, unpack, of_schema(schema))


@lru_cache(maxsize=8)
def _avro_reader(text: str) -> tuple[Any, Any]:
    """Return the schema of a writer, and what reads one value by it."""
    schema = import_module("fastavro").parse_schema(json.loads(text))
    return schema, reader_of(schema)


def _of_registry(column: Array, raw: Any, final: Any, bad: Marks, wanted: Format) -> list[Array]:
    return rows_by_registry(wanted.registered, column, raw, final, bad)


_READERS: dict[str, Callable[[Array, Any, Any, Marks, Format], Sequence[Array]]] = {
    "json": _from_json,
    "msgpack": _from_msgpack,
    "avro": _from_avro,
    "json-schema": _of_registry,
}


# -- Encoding


def encode(name: str, column: Array, avro_schema: str | None = None, registered: Any = None) -> list[bytes | None]:
    """Return the rows of an Arrow array as bytes of a format. Raises InvalidOption, SerializationFailed.

    `registered` is a `RegisteredWriter`, for a schema registry.
    """
    if registered is not None:
        try:
            return registered.encode(column.to_pylist(maps_as_pydicts="strict"))
        except InvalidOption:
            raise
        except Exception as error:  # the libraries' exceptions have no class in common
            raise SerializationFailed(f"a row cannot be written as {name}: {error}") from error
    encoded = _avro_encoder(avro_schema) if name == "avro" and avro_schema is not None else _ENCODERS.get(name)
    if encoded is None:
        raise InvalidOption(f"format '{name}' is none of {', '.join(_ENCODERS)}, avro (with a schema)")
    if name == "string" and not _is_text(column.type):
        raise InvalidOption(f"format 'string' needs a column of strings, not {column.type}")
    try:
        return [None if row is None else encoded(row) for row in column.to_pylist(maps_as_pydicts="strict")]
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise SerializationFailed(f"a row cannot be written as {name}: {error}") from error


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _to_json(row: object) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode()


def _to_msgpack(row: object) -> bytes:
    packed = msgpack.packb(_with_zones(row), datetime=True, default=_plain)
    assert packed is not None
    return packed


@lru_cache(maxsize=8)
def _avro_encoder(schema: str) -> Callable[[object], bytes]:
    """Return the encoder of a schema. Raises InvalidOption for one that Avro does not know."""
    library = import_module("fastavro")
    try:
        parsed = library.parse_schema(json.loads(schema))
    except Exception as error:  # its exceptions of schemas have no class in common
        raise InvalidOption(f"the schema of Avro is not valid: {error!r}") from error

    def encoded(row: object) -> bytes:
        stream = io.BytesIO()
        library.schemaless_writer(stream, parsed, row, strict=True)
        return stream.getvalue()

    return encoded


def _plain(value: object) -> object:
    """Return what stands for a value that the format does not have."""
    found = in_json(value)
    if found is value:
        raise TypeError(f"{type(value).__name__} has no form in it")
    return found


def _with_zones(value: object) -> object:
    """Return the value with UTC in all times without a zone, as msgpack's timestamps demand one."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return {name: _with_zones(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_zones(each) for each in value]
    return value


_ENCODERS: dict[str, Callable[[Any], bytes]] = {"json": _to_json, "msgpack": _to_msgpack, "string": str.encode}
