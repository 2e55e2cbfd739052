"""JSON Schema as rows of a table, for Spark and SQL: the types of columns, values that fit them, and rows as JSON.

A column has a type of its own where the schema says one: an object with `properties`, an object whose
`additionalProperties` have one schema, an array whose items have one, a text, a number, a boolean. Whatever else a
schema can say (`oneOf` of several, `patternProperties`, tuples, a type inside of itself, no type at all) is a column of
text: a string stands as it is, any other value as its JSON. So does Spark's own `from_json`.

Every column may be null. `format` says nothing that values must keep to, so a `date-time` is a text.
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
from typing import Any

import pyarrow as pa

from .json_schema import JsonSchema, resolver_of, resource_of
from .schema_registry import Schema, SchemaRegistry
from .table_types import ColumnCount

# What is deeper is a column of text. Spark and DuckDB recurse over types.
MAX_LEVELS = 64
_NULL = "null"
_PLAIN = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): _NULL}


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
        return self._once(("root",), lambda: _root_of(self.registry, schema))

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
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value


def fitted(value: Any, kind: Any) -> Any:
    """Return a value of JSON as pyarrow takes it for a type. What does not fit is left to pyarrow."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: fitted(value.get(each.name), each.type) for each in kind}
    if pa.types.is_map(kind) and isinstance(value, dict):
        return {name: fitted(each, kind.item_type) for name, each in value.items()}
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(each, kind.value_type) for each in value]
    if pa.types.is_floating(kind) and type(value) is int:
        # JSON has one kind of numbers, and pyarrow takes no long ones for a double.
        return float(value)
    return value


# -- Schemas


def _root_of(registry: SchemaRegistry, schema: Schema) -> Node:
    contents, resolver = resolver_of(schema.text, registry.referenced(schema))
    return _Nodes().of(contents, resolver, ())


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
