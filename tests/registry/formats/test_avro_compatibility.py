"""Avro compatibility, by the specification."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
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


def test_an_enum_of_a_whole_schema_is_compared_in_linear_time() -> None:
    symbols = [f"S{number}" for number in range(30_000)]
    enum = {"type": "enum", "name": "E", "symbols": symbols}
    many = {"type": "array", "items": enum}
    begun_s = time.thread_time()
    parse(json.dumps(record({"name": "a", "type": many, "default": symbols[-1:] * len(symbols)})))
    assert kinds(enum, {**enum, "symbols": [*symbols, "T"]}) == ["MISSING_ENUM_SYMBOLS"]
    # Some milliseconds; to look for each symbol among all others took half a minute.
    assert time.thread_time() - begun_s < 10


def test_to_look_through_long_unions_counts_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference.Steps, "MAX_STEPS", 200)
    union = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(100)]
    with pytest.raises(RegistryError, match="more than 200 steps"):
        kinds(union, union)
    assert kinds(union[:20], union[:20]) == []
