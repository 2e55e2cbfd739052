"""JSON Schemas that the registry calls compatible: the reader takes every value that the writer allows.

The judge is jsonschema, over many small values. A registry may refuse more than it must, but not less.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.registry.formats.json_compatibility import differences
from odradek.registry.formats.json_schema import parse
from odradek.tests.support.seeds import examples

jsonschema: Any = pytest.importorskip("jsonschema", reason="the judge is missing (extra `json-schema`)")

TYPES = st.sampled_from(["integer", "string", "null", "number"])
LEAVES = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "null"}),
    st.builds(lambda kinds: {"type": kinds}, st.lists(TYPES, min_size=1, unique=True)),
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(0, 3)),
    st.builds(lambda high: {"type": "integer", "exclusiveMaximum": high}, st.integers(0, 3)),
    st.builds(lambda size: {"type": "string", "maxLength": size}, st.integers(0, 2)),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from([1, 2, "a", None]), min_size=1, unique=True)),
    st.builds(lambda value: {"const": value}, st.sampled_from([1, "a"])),
)  # fmt: skip


def objects(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(properties: dict[str, Any], required: list[str], more: Any, patterns: dict[str, Any]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        schema |= {"additionalProperties": more} if more is not None else {}
        return schema | ({"patternProperties": patterns} if patterns else {})

    names = st.sampled_from(["a", "b"])
    return st.builds(
        made,
        st.dictionaries(names, of, max_size=2),
        st.lists(names, unique=True, max_size=2),
        st.one_of(st.none(), st.booleans(), of),
        st.dictionaries(st.sampled_from(["^a", "b$"]), of, max_size=1),
    )


def arrays(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(items: Any, first: list[Any], least: int, unique: bool) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array", "items": items}
        schema |= {"prefixItems": first} if first else {}
        schema |= {"minItems": least} if least else {}
        return schema | ({"uniqueItems": True} if unique else {})

    return st.builds(made, of | st.booleans(), st.lists(of, max_size=2), st.integers(0, 2), st.booleans())


def combined(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda name, parts: {name: parts}, st.sampled_from(["anyOf", "allOf"]), st.lists(of, min_size=1, max_size=2)
    )


SCHEMAS = st.recursive(LEAVES, lambda of: st.one_of(objects(of), arrays(of), combined(of)), max_leaves=6)
PLAIN: list[Any] = [None, True, 0, 1, 2, 3, 1.5, "", "a", "bb", "abc"]
VALUES: list[Any] = [
    *PLAIN,
    *([each] for each in (*PLAIN, {}, [])),
    *([each, each] for each in PLAIN),
    *([1, each] for each in PLAIN),
    *({name: each} for name in ("a", "b", "ab", "c") for each in (*PLAIN, [], {})),
    *({"a": one, "b": other} for one in PLAIN for other in PLAIN),
    {}, [], [[1]], {"a": {"a": 1}}, {"a": {"b": "a"}}, [{"a": 1}], {"a": [1]}, {"a": 1, "b": 1, "c": 1},
]  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(reader=SCHEMAS, writer=SCHEMAS)
def test_what_is_compatible_is_read(reader: Any, writer: Any) -> None:
    if differences(parse(json.dumps(reader), {}), parse(json.dumps(writer), {})):
        return
    wrote, read = (jsonschema.Draft202012Validator(each) for each in (writer, reader))
    for value in VALUES:
        if wrote.is_valid(value):
            assert read.is_valid(value), value


@settings(max_examples=examples(200), deadline=None)
@given(schema=SCHEMAS)
def test_a_schema_reads_its_own_values(schema: Any) -> None:
    assert differences(parse(json.dumps(schema), {}), parse(json.dumps(schema), {})) == []
