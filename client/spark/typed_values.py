"""Typed values: bytes of records to columns of Spark's types and back, by the options `valueFormat` and `keyFormat`.

    encode(format, array, avro_schema) -> [bytes or None, ...]

    json      pyarrow's reader; times are ISO 8601, without a zone in UTC; dates 2026-11-22; bytes are base64
    msgpack   one map a record; times are msgpack's own timestamps, dates as in JSON
    avro      one record in Avro's binary form, by a schema
    string    UTF-8

A null stays a null. Everything works on Arrow arrays, so tests need no Spark.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgpack
import pyarrow as pa

from ..errors import InvalidOption, SerializationFailed

# A pyarrow.Array, which has no types that a checker could read.
Array = Any


# -- Encoding


def encode(name: str, column: Array, avro_schema: str | None = None) -> list[bytes | None]:
    """Return the rows of an Arrow array as bytes of a format. Raises InvalidOption, SerializationFailed."""
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
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in it")


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
