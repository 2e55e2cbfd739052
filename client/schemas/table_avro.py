"""Avro as rows of a table, for Spark and SQL: the types of columns, and values that fit them.

Every column may be null. A field that the latest version has and a record lacks has the field's default, or is null.
Times of day are whole numbers and UUIDs texts, because tables have no types for them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# JSON and pyarrow have no types.

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import InvalidOption
from .avro import Avro, parsed_schema
from .avro_shape import types_by_name
from .schema_registry import Schema, SchemaRegistry
from .table_types import ColumnCount

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
# Which of two numbers takes both.
_WIDER = (({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64()))


class TableAvro(Avro):
    """A deserializer whose own schema says what the columns are, and whose values fit `type`."""

    def parsed(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return a writer's schema without the logical types that tables do not have."""
        return self._once(("writer", schema), lambda: parsed_schema(registry, schema, _plain))

    def resolved(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return the own schema, whose fields may all be missing."""
        return self._once(("reader", schema), lambda: parsed_schema(registry, schema, _nullable))

    @property
    def type(self) -> Any:
        """The Arrow type of values: of the own schema. Raises InvalidOption for one that no column can have."""
        assert self._schema is not None
        parsed = self.parsed(self.registry, self._schema)
        return _Types(types_by_name(parsed)).of(parsed, "the value", ())


# -- Schemas

_ABSENT_IN_TABLES = ("uuid", "time-millis", "time-micros", "duration")


def _plain(kind: Any) -> Any:
    """Return a schema, in JSON, without the logical types that tables do not have."""
    if isinstance(kind, list):
        return [_plain(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    made = {name: _plain(each) if name in ("type", "items", "values") else each for name, each in kind.items()}
    if "fields" in kind:
        made["fields"] = [each | {"type": _plain(each["type"])} for each in kind["fields"]]
    if made.get("logicalType") in _ABSENT_IN_TABLES:
        del made["logicalType"]
    return made


def _nullable(kind: Any) -> Any:
    """Return a schema that also reads records without a field that has no default: as null."""
    if isinstance(kind, list):
        return [_nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    made = {name: _nullable(each) if name in ("type", "items", "values") else each for name, each in kind.items()}
    if "fields" in kind:
        made["fields"] = [_nullable_field(each) for each in kind["fields"]]
    return _plain(made)


def _nullable_field(field: dict[str, Any]) -> dict[str, Any]:
    kind = _nullable(field["type"])
    if "default" in field:
        return field | {"type": kind}
    branches = kind if isinstance(kind, list) else [kind]
    return field | {"type": ["null", *(each for each in branches if each != "null")], "default": None}


# -- Types


class _Types:
    """The Arrow types of one schema."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._count = ColumnCount()

    def of(self, kind: Any, path: str, around: tuple[str, ...]) -> Any:
        """Return the type of a column. `around` are the named types that it is in."""
        self._count.add()
        if isinstance(kind, list):
            return self._of_union(kind, path, around)
        if isinstance(kind, str):
            if kind in self._named:
                return self.of(self._named[kind], path, around)
            return self._of_primitive({"type": kind}, path)
        match kind["type"]:
            case "record" | "error":
                return self._of_record(kind, path, around)
            case "array":
                return pa.list_(pa.field("element", self.of(kind["items"], f"{path}[]", around)))
            case "map":
                return pa.map_(pa.string(), self.of(kind["values"], f"{path}{{}}", around))
            case str():
                return self._of_primitive(kind, path)
            case inner:
                return self.of(inner, path, around)

    def _of_primitive(self, kind: dict[str, Any], path: str) -> Any:
        logical = kind.get("logicalType", "")
        if logical == "decimal":
            return pa.decimal128(kind["precision"], kind.get("scale", 0))
        if kind["type"] not in _PRIMITIVES:
            raise InvalidOption(f"{path} is always null: no column has that type")
        return _LOGICAL.get(logical) or _PRIMITIVES[kind["type"]]

    def _of_record(self, kind: dict[str, Any], path: str, around: tuple[str, ...]) -> Any:
        name = kind["name"]
        if name in around:
            raise InvalidOption(f"{path} holds itself ({name}): no column has that type")
        if not kind["fields"]:
            raise InvalidOption(f"{path} is a record without fields: no column has that type")
        inner = (*around, name)
        return pa.struct(
            [(each["name"], self.of(each["type"], f"{path}.{each['name']}", inner)) for each in kind["fields"]]
        )

    def _of_union(self, branches: list[Any], path: str, around: tuple[str, ...]) -> Any:
        others = [each for each in branches if each != "null"]
        if len(others) == 1:
            return self.of(others[0], path, around)
        names = {each for each in others if isinstance(each, str)}
        wider = next((kind for pair, kind in _WIDER if names == pair and len(others) == 2), None)
        if wider is None:
            raise InvalidOption(f"{path} is a union of several types: no column has them")
        return wider
