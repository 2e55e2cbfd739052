"""Property: fastavro reads data of one schema with another if and only if the registry says BACKWARD.

A reader is a writer after some changes, as schemas evolve, or a schema of its own. Schemas have every type: records
that hold themselves, unions, logical types, aliases, enums and fields with a default. Data go through each branch, each
symbol and each field of the writer.
"""
# pyright: basic

from __future__ import annotations

import copy
import io
import json
from typing import Any

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.schemas.avro import _parsed  # pyright: ignore[reportPrivateUsage]
from odradek.tests.registry.formats.test_avro_compatibility import kinds

UUID = "123e4567-e89b-12d3-a456-426614174000"
PRIMITIVES = {
    "null": [None],
    "boolean": [True],
    "int": [1],
    "long": [1 << 40],
    "float": [0.5],
    "double": [0.25],
    "bytes": [b"b"],
    "string": [UUID],
}
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
DEFAULTS = {"null": None, "boolean": False, "int": 0, "long": 0, "float": 0.0, "double": 0.0, "bytes": "", "string": ""}
LEVELS = 3


@st.composite
def enums(draw: st.DrawFn) -> dict[str, Any]:
    symbols = sorted(draw(st.sets(st.sampled_from("ABC"), min_size=1)))
    made = {"type": "enum", "name": "E", "symbols": symbols}
    return made | ({"default": draw(st.sampled_from(symbols))} if draw(st.booleans()) else {})


LEAVES = st.one_of(
    st.sampled_from(list(PRIMITIVES)),
    st.sampled_from(LOGICAL),
    enums(),
    st.builds(lambda size: {"type": "fixed", "name": "F", "size": size}, st.integers(1, 2)),
)


def kind_of(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema["type"]


def unions(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=1, max_size=3, unique_by=kind_of)


def shapes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.one_of(
        inner,
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
    )
    return st.one_of(plain, unions(plain))


@st.composite
def records(draw: st.DrawFn, name: str, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A record whose field `next` may hold the record itself."""
    fields = [draw(fields_of(each, inner)) for each in draw(st.sets(st.sampled_from("abc")))]
    if draw(st.booleans()):
        fields.append({"name": "next", "type": ["null", name], "default": None})
    return {"type": "record", "name": name, "fields": sorted(fields, key=lambda each: each["name"])}


@st.composite
def fields_of(draw: st.DrawFn, name: str, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    kind = draw(inner)
    if isinstance(kind, str) and draw(st.booleans()):
        return {"name": name, "type": kind, "default": DEFAULTS[kind]}
    return {"name": name, "type": kind}


SHAPES = shapes(LEAVES)
INNER = records("N", shapes(LEAVES))
SCHEMAS = st.one_of(SHAPES, records("R", st.one_of(SHAPES, INNER)))


def once_named(schema: Any, seen: set[str]) -> Any:
    """Return a schema that says each type with a name once, and then its name alone."""
    if isinstance(schema, list):
        made = [once_named(each, seen) for each in schema]
        return [each for index, each in enumerate(made) if each not in made[:index]]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema:
        if schema["name"] in seen:
            return schema["name"]
        seen.add(schema["name"])
    made = dict(schema)
    if "fields" in made:
        made["fields"] = [each | {"type": once_named(each["type"], seen)} for each in made["fields"]]
    for part in ("items", "values"):
        if part in made:
            made[part] = once_named(made[part], seen)
    return made


# -- Changes

WIDER = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "bytes": ["string"],
    "string": ["bytes"],
}


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """A schema after some changes, each of which may or may not let it read the one before."""
    made = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 3))):
        made = draw(changed_once(made))
    return made


@st.composite
def changed_once(draw: st.DrawFn, schema: Any) -> Any:
    if isinstance(schema, list):
        return draw(changed_union(schema))
    kind = kind_of(schema)
    if isinstance(schema, dict) and kind in ("record", "enum", "fixed") and draw(st.booleans()):
        return renamed(schema) | ({"aliases": [schema["name"]]} if draw(st.booleans()) else {})
    if kind == "record":
        return draw(changed_record(schema))
    if kind == "enum":
        return draw(enums()) | {"name": schema["name"], "aliases": schema.get("aliases", [])}
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {**schema, part: draw(changed_once(schema[part]))}
    others = [*WIDER.get(kind, ()), ["null", schema] if kind != "null" else ["null", "int"]]
    return draw(st.sampled_from([schema, kind if kind in PRIMITIVES else schema, *others, "long"]))


def renamed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a type under another name, which it also holds itself by."""
    name = f"{schema['name']}2"
    if schema["type"] != "record":
        return {**schema, "name": name}
    own = {"name": "next", "type": ["null", name], "default": None}
    return {**schema, "name": name, "fields": [own if each["name"] == "next" else each for each in schema["fields"]]}


@st.composite
def changed_union(draw: st.DrawFn, schema: list[Any]) -> Any:
    others = [each for each in PRIMITIVES if each not in map(kind_of, schema)]
    match draw(st.integers(0, 3)):
        case 0:
            return [*schema, draw(st.sampled_from(others))]
        case 1 if len(schema) > 1:
            return schema[:-1]
        case 2:
            return list(reversed(schema))
        case _:
            return schema[0]


@st.composite
def changed_record(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    fields = list(schema["fields"])
    at = draw(st.integers(0, max(len(fields) - 1, 0)))
    what = draw(st.integers(0, 4))
    if not fields or what == 0:
        new = {"name": "d", "type": "int"} | ({"default": 1} if draw(st.booleans()) else {})
        fields = [each for each in fields if each["name"] != "d"] + [new]
    elif what == 1:
        del fields[at]
    elif what == 2 and fields[at]["name"] != "next":
        fields[at] = {**fields[at], "name": "z", "aliases": [fields[at]["name"]] if draw(st.booleans()) else []}
        fields = [each for index, each in enumerate(fields) if index == at or each["name"] != "z"]
    elif what == 3:
        fields.reverse()
    elif fields[at]["name"] != "next":
        fields[at] = {"name": fields[at]["name"], "type": draw(changed_once(fields[at]["type"]))}
    return {**schema, "fields": fields}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    writer = draw(SCHEMAS)
    reader = draw(SCHEMAS) if draw(st.integers(0, 4)) == 0 else draw(changed(writer))
    return once_named(reader, set()), once_named(writer, set())


# -- Data


def examples(schema: Any, named: dict[str, Any], levels: int = LEVELS) -> list[Any]:
    """Return values of a schema that go through each branch, each symbol and each field of it."""
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    if isinstance(schema, list):
        return [(branch_of(each, named), value) for each in schema for value in examples(each, named, levels)]
    if "name" in schema:
        named = named | {schema["name"]: schema}
    match schema["type"]:
        case "enum":
            return list(schema["symbols"])
        case "fixed":
            return [b"x" * schema["size"]]
        case "array":
            return [[value] for value in examples(schema["items"], named, levels)]
        case "map":
            return [{"k": value} for value in examples(schema["values"], named, levels)]
        case "record":
            return record_examples(schema, named, levels)
        case primitive:
            return PRIMITIVES[primitive]


def record_examples(schema: dict[str, Any], named: dict[str, Any], levels: int) -> list[Any]:
    if not levels:
        return []
    values: dict[str, list[Any]] = {}
    for each in schema["fields"]:
        values[each["name"]] = examples(each["type"], named, levels - 1 if each["name"] == "next" else levels)
        register(each["type"], named)
    first = {name: found[0] for name, found in values.items()}
    return [first | {name: value} for name, found in values.items() for value in found] or [{}]


def register(schema: Any, named: dict[str, Any]) -> None:
    """Note the types with a name inside of a schema."""
    if isinstance(schema, list):
        for each in schema:
            register(each, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for part in ("items", "values"):
            register(schema.get(part), named)
        for each in schema.get("fields", ()):
            register(each["type"], named)


def branch_of(schema: Any, named: dict[str, Any]) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def reads(reader: Any, writer: Any) -> bool:
    """Tell whether fastavro reads all examples of the writer with the reader."""
    # As the client has them parsed: fastavro itself forgets the types with a name in a union.
    wrote, read = (_parsed(json.dumps(each), {}) for each in (writer, reader))
    named: dict[str, Any] = {}
    register(writer, named)
    for value in examples(writer, named):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, wrote, value)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, wrote, read)
        except Exception:  # noqa: BLE001 - it has many ways to say no
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_fastavro_reads_what_is_compatible_and_nothing_else(pair: tuple[Any, Any]) -> None:
    reader, writer = pair
    assert reads(reader, writer) == (kinds(reader, writer) == [])
