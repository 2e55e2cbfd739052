"""Avro compatibility: by the specification, and by fastavro, which reads exactly what the registry calls readable."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.registry.errors import RegistryError
from odradek.registry.formats import difference
from odradek.registry.formats.avro import parse
from odradek.registry.formats.avro_compatibility import differences


def kinds(reader: Any, writer: Any) -> list[str]:
    return [each.kind for each in differences(parse(json.dumps(reader)), parse(json.dumps(writer)))]


def record(*fields: dict[str, Any], **besides: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **besides}


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": "string"}


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        ("long", "int", []),
        ("int", "long", ["TYPE_MISMATCH"]),
        ("double", "long", []),
        ("string", "bytes", []),
        ("bytes", "string", []),
        (["null", "int"], "int", []),
        ("int", ["int"], []),
        ("int", ["null", "int"], ["MISSING_UNION_BRANCH"]),
        (["int", "string"], ["int"], []),
        (["int"], ["int", "string"], ["MISSING_UNION_BRANCH"]),
        (record(A, B | {"default": ""}), record(A), []),
        (record(A, B), record(A), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record(A), record(A, B), []),
        (record({"name": "x", "aliases": ["a"], "type": "int"}), record(A), []),
        (record(A, name="S"), record(A), ["NAME_MISMATCH"]),
        (record(A, name="S", aliases=["R"]), record(A), []),
        (record(A, namespace="other"), record(A), []),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            ["MISSING_ENUM_SYMBOLS"],
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            [],
        ),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            ["FIXED_SIZE_MISMATCH"],
        ),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, ["TYPE_MISMATCH"]),
    ],
)
def test_resolution(reader: Any, writer: Any, found: list[str]) -> None:
    assert kinds(reader, writer) == found


def test_recursion_ends() -> None:
    tree = record({"name": "next", "type": ["null", "R"], "default": None}, A)
    assert kinds(tree, tree) == []
    assert kinds(tree, record({"name": "next", "type": ["null", "R"], "default": None})) != []


def test_a_pair_that_failed_around_another_one_does_not_count_as_readable() -> None:
    """The list inside R was readable only while R was; outside of R it must be compared again."""
    items = {"name": "list", "type": {"type": "array", "items": "R"}}
    reader = {"type": "record", "name": "T", "fields": [{"name": "r", "type": record(items, B)}, items]}
    writer = {"type": "record", "name": "T", "fields": [{"name": "r", "type": record(items)}, items]}
    assert kinds(reader, writer) == ["READER_FIELD_MISSING_DEFAULT_VALUE"] * 2


def test_a_comparison_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference.Steps, "MAX_STEPS", 2)
    with pytest.raises(RegistryError, match="more than 2 steps"):
        kinds(record(A, B, {"name": "c", "type": "long"}), record(A, B, {"name": "c", "type": "int"}))


# -- Against fastavro

PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
ENUM = st.builds(
    lambda symbols: {"type": "enum", "name": "E", "symbols": sorted(symbols)},
    st.sets(st.sampled_from("ABC"), min_size=1),
)
FIXED = st.builds(lambda size: {"type": "fixed", "name": "F", "size": size}, st.integers(1, 3))
LEAVES = st.one_of(PRIMITIVES, ENUM, FIXED)


def unions(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def kind(each: Any) -> str:
        return each if isinstance(each, str) else each["type"]

    return st.lists(of, min_size=1, max_size=3, unique_by=kind)


SHAPES = st.one_of(
    LEAVES,
    unions(LEAVES),
    st.builds(lambda items: {"type": "array", "items": items}, LEAVES),
    st.builds(lambda values: {"type": "map", "values": values}, unions(PRIMITIVES)),
)


@st.composite
def fields(draw: st.DrawFn, name: str) -> dict[str, Any] | None:
    if draw(st.booleans()):
        return None
    if draw(st.booleans()):
        return {"name": name, "type": "int", "default": 1}
    return {"name": name, "type": draw(PRIMITIVES)}


RECORDS = st.builds(
    lambda found: record(*(each for each in found if each is not None)),
    st.tuples(fields("a"), fields("b"), fields("c")),
)

_PLAIN = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1 << 40,
    "float": 0.5,
    "double": 0.25,
    "bytes": b"b",
    "string": "s",
}


def examples(schema: Any) -> list[Any]:
    """Return values of a schema that go through each branch and each symbol of it."""
    if isinstance(schema, str):
        return [_PLAIN[schema]]
    if isinstance(schema, list):
        return [(_name(each), value) for each in schema for value in examples(each)]
    match schema["type"]:
        case "enum":
            return list(schema["symbols"])
        case "fixed":
            return [b"x" * schema["size"]]
        case "array":
            return [[value] for value in examples(schema["items"])]
        case "map":
            return [{"k": value} for value in examples(schema["values"])]
        case _:
            return [{each["name"]: examples(each["type"])[0] for each in schema["fields"]}]


def _name(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def reads(reader: Any, writer: Any) -> bool:
    """Tell whether fastavro reads all examples of the writer with the reader."""
    wrote, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    for value in examples(writer):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, wrote, value)
        buffer.seek(0)
        try:
            fastavro.schemaless_reader(buffer, wrote, read)
        except Exception:  # noqa: BLE001 - it has many ways to say no
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(reader=st.one_of(SHAPES, RECORDS), writer=st.one_of(SHAPES, RECORDS))
def test_fastavro_reads_what_is_compatible_and_nothing_else(reader: Any, writer: Any) -> None:
    assert reads(reader, writer) == (kinds(reader, writer) == [])
