"""Spark's types for typed values: which of them each format has, and what they are in Arrow.

Spark's own parser reads the DDL of users, so what comes here are types already. One that a format does not have is
rejected by its name, on the driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import SchemaError

# Spark's names of the types that have no parts.
_PLAIN = ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp")
SUPPORTED = {
    "json": (*_PLAIN, "timestamp_ntz", "decimal", "array", "struct"),
    "msgpack": (*_PLAIN, "decimal", "binary", "array", "struct"),
    "avro": (*_PLAIN, "decimal", "binary", "array", "struct"),
}
# How the names of types begin that have no form outside of Spark: Arrow has a variant as bytes of Spark's own.
_NEVER_WRITTEN = ("variant", "interval", "time(", "geometry", "geography")
# The types that a format has as texts.
_AS_TEXT = {"json": ("date",), "msgpack": ("date", "decimal"), "avro": ()}


def check_type(place: str, format_name: str, kind: Any) -> None:
    """Raise SchemaError for a Spark type, or a part of it, that a format does not have."""
    name = kind.typeName()
    if name not in SUPPORTED[format_name]:
        known = ", ".join(SUPPORTED[format_name])
        has = f"{place} has the type {kind.simpleString()}"
        raise SchemaError(f"{has}, which {format_name} values cannot have: they have {known}")
    if name == "array":
        check_type(f"{place}.element", format_name, kind.elementType)
    if name == "struct":
        if not kind.fields:
            raise SchemaError(f"{place} is a struct without fields")
        for each in kind.fields:
            if not each.nullable:
                raise SchemaError(f"{place}.{each.name} is NOT NULL: any field of a value may be missing")
            check_type(f"{place}.{each.name}", format_name, each.dataType)


def check_written(place: str, format_name: str, kind: Any) -> None:
    """Raise SchemaError for a Spark type, or a part of it, that no format can write."""
    if kind.simpleString().startswith(_NEVER_WRITTEN):
        raise SchemaError(f"{place} has the type {kind.simpleString()}, which cannot be written as {format_name}")
    parts = {"array": ("element",), "map": ("key", "value")}.get(kind.typeName(), ())
    for part in parts:
        check_written(f"{place}.{part}", format_name, getattr(kind, f"{part}Type"))
    for each in kind.fields if kind.typeName() == "struct" else ():
        check_written(f"{place}.{each.name}", format_name, each.dataType)


def arrow_type(kind: Any) -> Any:
    """Return the Arrow type that Spark expects for one of its types."""
    pa: Any = import_module("pyarrow")
    name = kind.typeName()
    if name == "array":
        return pa.list_(pa.field("element", arrow_type(kind.elementType), nullable=kind.containsNull))
    if name == "struct":
        return pa.struct([pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in kind.fields])
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[name]


def as_read(format_name: str, kind: Any) -> Any:
    """Return the Arrow type in which a format is read; a cast makes `arrow_type` of it."""
    pa: Any = import_module("pyarrow")
    name = kind.typeName()
    if name == "array":
        return pa.list_(pa.field("element", as_read(format_name, kind.elementType), nullable=kind.containsNull))
    if name == "struct":
        return pa.struct([(each.name, as_read(format_name, each.dataType)) for each in kind.fields])
    return pa.string() if name in _AS_TEXT[format_name] else arrow_type(kind)
