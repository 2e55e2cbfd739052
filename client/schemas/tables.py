"""Schemas of a registry as tables, for Spark and SQL: the types of columns, values that fit them, and rows as JSON.

Every column may be null. `table_of` returns the deserializer of a schema; `ddl` names its type for Spark.

In Avro, a field that the latest version has and a record lacks has the field's default, or is null. Times of day are
whole numbers and UUIDs texts, because tables have no types for them.

By JSON Schema, a column has a type of its own where the schema says one: an object with `properties`, an object whose
`additionalProperties` have one schema, an array whose items have one, a text, a number, a boolean. Whatever else a
schema can say (`oneOf` of several, `patternProperties`, tuples, a type inside of itself, no type at all) is a column of
text: a string stands as it is, any other value as its JSON. So does Spark's own `from_json`. `format` says nothing that
values must keep to, so a `date-time` is a text.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# JSON and pyarrow have no types.

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from ..errors import InvalidOption
from .avro import Avro, mapped, parsed_schema, types_by_name
from .casts import with_leaves
from .json_schema import JsonSchema, resolver_of, resource_of
from .schema_registry import Schema, SchemaRegistry

# Types of a schema that lead to one another twice each double with every step.
MAX_COLUMNS = 10_000
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
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_DDL = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.binary(): "BINARY",
    pa.string(): "STRING",
    pa.date32(): "DATE",
    pa.timestamp("ms", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("ms"): "TIMESTAMP_NTZ",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
_MAX_DIGITS = 38
# Which of two numbers takes both.
_WIDER = (({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64()))
# What is deeper is no column of Avro's, and one of text by JSON Schema. Spark and DuckDB recurse over types, and
# readers of Parquet end at 100 levels, of which a list or a map takes two.
MAX_LEVELS = 48
_NULL = "null"
_PLAIN = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): _NULL}


def table_of(registry: SchemaRegistry, schema: Schema) -> TableAvro | TableJson:
    """Return what reads records as a schema has them. Raises InvalidOption for Protobuf."""
    if schema.type == "AVRO":
        return TableAvro(registry, schema)
    if schema.type == "JSON":
        return TableJson(registry, schema)
    raise InvalidOption(f"a schema of type {schema.type} makes no columns")


class ColumnCount:
    """Counts the columns, at every depth, that a schema becomes."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one. Raises InvalidOption if there are too many."""
        self._count += 1
        if self._count > MAX_COLUMNS:
            raise InvalidOption(f"the schema has more than {MAX_COLUMNS} columns, those inside of others counted")


def ddl(kind: Any) -> str:
    """Return an Arrow type in Spark's DDL."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(each.name)}: {ddl(each.type)}' for each in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<STRING, {ddl(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _DDL[kind]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


# -- Avro


class TableAvro(Avro):
    """A deserializer whose own schema says what the columns are, and whose values fit `type`."""

    _FAR_TIMES = False

    # The logical types that values do not have.
    _WITHOUT: tuple[str, ...] = ("uuid", "time-millis", "time-micros", "duration")

    def parsed(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return a writer's schema without those logical types."""
        change = partial(_mapped, without=self._WITHOUT, is_nullable=False)
        return self.once(("writer", schema), lambda: parsed_schema(registry, schema, change))

    def resolved(self, registry: SchemaRegistry, schema: Schema) -> Any:
        """Return the own schema, whose fields may all be missing: one without a default is null then."""
        change = partial(_mapped, without=self._WITHOUT, is_nullable=True)
        return self.once(("reader", schema), lambda: parsed_schema(registry, schema, change))

    def pair(self, schema_id: int) -> tuple[Any, Any]:
        """Return the schema with an id, parsed, and the own one that its values are read as: None if it is the same.

        Raises BadFrame, and what the registry does.
        """
        writer, own = self.registry.schema(schema_id), self._schema
        self._check_type(writer)
        assert own is not None
        return self.parsed(self.registry, writer), None if own == writer else self.resolved(self.registry, own)

    @property
    def type(self) -> Any:
        """The Arrow type of values: of the own schema. Raises InvalidOption for one that no column can have."""
        assert self._schema is not None
        parsed = self.parsed(self.registry, self._schema)
        return _Types(types_by_name(parsed)).of(parsed, "the value", ())


class ArrowAvro(TableAvro):
    """The same with numbers for dates and times, as Arrow has them: Python has no year 10000."""

    _WITHOUT = (*TableAvro._WITHOUT, *_LOGICAL)

    @property
    def type(self) -> Any:
        """As in a table."""
        return TableAvro(self.registry, self._schema).type


def _mapped(kind: Any, *, without: tuple[str, ...], is_nullable: bool) -> Any:
    """Return a schema, in JSON, without some logical types."""

    def change(made: dict[str, Any]) -> dict[str, Any]:
        if is_nullable and isinstance(made.get("fields"), list):
            made["fields"] = list(map(_nullable_field, made["fields"]))
        if made.get("logicalType") in without:
            del made["logicalType"]
        return made

    return mapped(kind, change)


def _nullable_field(field: dict[str, Any]) -> dict[str, Any]:
    if "default" in field:
        return field
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return field | {"type": ["null", *(each for each in branches if each != "null")], "default": None}


class _Types:
    """The Arrow types of one schema."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._count = ColumnCount()

    def of(self, kind: Any, path: str, around: tuple[str, ...]) -> Any:
        """Return the type of a column. `around` are the types that it is in: the names of those that have one."""
        self._count.add()
        if len(around) > MAX_LEVELS:
            raise InvalidOption(f"{path} is inside of more than {MAX_LEVELS} types: no column is so deep")
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
                return pa.list_(pa.field("element", self.of(kind["items"], f"{path}[]", (*around, ""))))
            case "map":
                return pa.map_(pa.string(), self.of(kind["values"], f"{path}{{}}", (*around, "")))
            case str():
                return self._of_primitive(kind, path)
            case inner:
                return self.of(inner, path, around)

    def _of_primitive(self, kind: dict[str, Any], path: str) -> Any:
        logical = kind.get("logicalType", "")
        if logical == "decimal" and kind["precision"] > _MAX_DIGITS:
            raise InvalidOption(f"{path} is a decimal of more than {_MAX_DIGITS} digits: no column has that type")
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


# -- JSON Schema


@dataclass(frozen=True, slots=True)
class Node:
    """What the schema says of one place: the type of its column, and the places inside."""

    type: Any
    fields: Mapping[str, Node] = field(default_factory=dict[str, "Node"])
    # Of the items of an array, or of the values of a map.
    inner: Node | None = None
    # The fields that are written also where they are null.
    required: frozenset[str] = frozenset()


TEXT = Node(pa.string())


class TableJson(JsonSchema):
    """A deserializer whose own schema says what the columns are, and a serializer of rows.

    A record is checked by the schema of its writer: it need not be of a later one.
    """

    def _reader(self, registry: SchemaRegistry, topic: str, field: str) -> Schema | None:
        return None

    @property
    def _root(self) -> Node:
        schema = self._schema
        assert schema is not None
        references = self.registry.referenced
        return self.once(("root",), lambda: _Nodes().of(*resolver_of(schema.text, references(schema)), ()))

    @property
    def type(self) -> Any:
        """The Arrow type of values: of the own schema. Raises InvalidOption for one of too many columns."""
        return self._root.type

    def _encoder(self, registry: SchemaRegistry, schema: Schema) -> Callable[[Any], bytes]:
        encode, root = super()._encoder(registry, schema), self._root
        return lambda row: encode(_written(row, root))


def _written(value: Any, node: Node) -> Any:
    """Return a value of a row as JSON, without fields that are null and not required, as Spark's `to_json` does."""
    if isinstance(value, dict):
        inner = TEXT if node.inner is None else node.inner
        return {
            name: _written(each, node.fields.get(name, inner))
            for name, each in value.items()
            if each is not None or name in node.required
        }
    if isinstance(value, list):
        return [_written(each, TEXT if node.inner is None else node.inner) for each in value]
    return in_json(value)


def in_json(value: Any) -> Any:
    """Return what JSON has for a value without parts: texts for times, decimals and bytes, others as they are."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value


def fitted(value: Any, kind: Any, separators: tuple[str, str] | None = None) -> Any:
    """Return a value of JSON as pyarrow takes it for a type. What does not fit is left to pyarrow.

    `separators` are those of JSON in a text.
    """
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=separators)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: fitted(value.get(each.name), each.type, separators) for each in kind}
    if pa.types.is_map(kind) and isinstance(value, dict):
        return {name: fitted(each, kind.item_type, separators) for name, each in value.items()}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(each, kind.value_type, separators) for each in value]
    if pa.types.is_floating(kind) and type(value) is int:
        # JSON has one kind of numbers, and pyarrow takes no long ones for a double.
        return float(value)
    return value


def fits(value: Any, kind: Any) -> bool:
    """Return whether pyarrow changes no number: in silence it cuts fractions off, and takes true for 1.0."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return all(fits(value.get(each.name), each.type) for each in kind)
    if isinstance(value, dict) and pa.types.is_map(kind):
        return all(fits(each, kind.item_type) for each in value.values())
    if isinstance(value, list) and pa.types.is_list(kind):
        return all(fits(each, kind.value_type) for each in value)
    if isinstance(value, float) and pa.types.is_integer(kind):
        return value.is_integer()
    return not (isinstance(value, bool) and pa.types.is_floating(kind))


def array_of(values: list[Any], kind: Any) -> Any:
    """Return an Arrow array of a type; a value that does not fit is null. Times are in microseconds."""
    fitting = [fitted(each, kind, (",", ":")) if fits(each, kind) else None for each in values]
    final = in_microseconds(kind)
    try:
        return pa.array(fitting, kind).cast(final)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if len(values) == 1:
            return pa.nulls(1, final)
    # Bad values are few: they are found by halves.
    middle = len(values) // 2
    return pa.concat_arrays([array_of(values[:middle], kind), array_of(values[middle:], kind)])


def in_microseconds(kind: Any) -> Any:
    """Return a type with all of its times in microseconds, which all who read tables have."""

    def changed(leaf: Any) -> Any:
        return pa.timestamp("us", tz=leaf.tz) if pa.types.is_timestamp(leaf) else leaf

    return with_leaves(kind, changed)


class _Nodes:
    """The places of one schema."""

    def __init__(self) -> None:
        self._count = ColumnCount()

    def of(self, schema: Any, resolver: Any, around: tuple[int, ...]) -> Node:
        """Return the place of a schema. `around` are the schemas that it is in. Raises InvalidOption."""
        if not isinstance(schema, dict) or id(schema) in around or len(around) > MAX_LEVELS:
            return TEXT
        self._count.add()
        inside = (*around, id(schema))
        if "$id" in schema:
            resolver = resolver.in_subresource(resource_of(schema))
        if "$ref" in schema:
            return self._referred(schema["$ref"], resolver, inside)
        match _kinds(schema):
            case ["object"]:
                return self._object(schema, resolver, inside)
            case ["array"]:
                return self._array(schema, resolver, inside)
            case [kind] if kind in _PLAIN:
                return Node(_PLAIN[kind])
            case ["integer", "number"]:
                return Node(pa.float64())
            case []:
                return self._combined(schema, resolver, inside)
            case _:
                return TEXT

    def _referred(self, to: Any, resolver: Any, around: tuple[int, ...]) -> Node:
        try:
            found = resolver.lookup(to)
        except Exception:  # noqa: BLE001 - whatever a schema says there, it says no type
            return TEXT
        return self.of(found.contents, found.resolver, around)

    def _object(self, schema: dict[str, Any], resolver: Any, around: tuple[int, ...]) -> Node:
        named, others = schema.get("properties") or {}, schema.get("additionalProperties")
        if "patternProperties" in schema or "" in named:
            return TEXT
        if named:
            fields = {name: self.of(each, resolver, around) for name, each in named.items()}
            kind = pa.struct([(name, each.type) for name, each in fields.items()])
            return Node(kind, fields, required=frozenset(schema.get("required") or ()))
        if not isinstance(others, dict):
            return TEXT
        inner = self.of(others, resolver, around)
        return Node(pa.map_(pa.string(), inner.type), inner=inner)

    def _array(self, schema: dict[str, Any], resolver: Any, around: tuple[int, ...]) -> Node:
        if "prefixItems" in schema or not isinstance(schema.get("items"), dict):
            return TEXT
        inner = self.of(schema["items"], resolver, around)
        return Node(pa.list_(pa.field("element", inner.type)), inner=inner)

    def _combined(self, schema: dict[str, Any], resolver: Any, around: tuple[int, ...]) -> Node:
        """Return the place of a schema that says no type itself: one branch may, beside null."""
        branches = [each for word in ("allOf", "anyOf", "oneOf") for each in schema.get(word) or ()]
        others = [each for each in branches if not (isinstance(each, dict) and each.get("type") == _NULL)]
        return self.of(others[0], resolver, around) if len(others) == 1 else TEXT


def _kinds(schema: dict[str, Any]) -> list[str]:
    """Return the types that a schema says itself, without null, sorted."""
    given = schema.get("type")
    if given is None:
        if "properties" in schema:
            return ["object"]
        values = [schema["const"]] if "const" in schema else schema.get("enum") or ()
        given = [_NAMES.get(type(each), "") for each in values]
    return sorted({given} if isinstance(given, str) else set(given) - {_NULL})
