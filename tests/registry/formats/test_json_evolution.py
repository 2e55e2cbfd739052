"""JSON Schemas that changed a little: what the registry calls compatible, no value disproves.

Unlike in `test_json_soundness`, the reader is the writer after a few changes, as schemas evolve, with all keywords.
"""
# pyright: basic

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.registry.errors import InvalidSchema
from odradek.registry.formats.json_compatibility import differences
from odradek.registry.formats.json_schema import parse
from odradek.tests.registry.formats.test_json_soundness import VALUES
from odradek.tests.support.seeds import examples

jsonschema: Any = pytest.importorskip("jsonschema", reason="the judge is missing (extra `json-schema`)")

SCALARS: list[Any] = [0, 1, True, False, 1.0, None, "a", "b", ""]
MORE: list[Any] = [
    *VALUES, False, 1.0, [True], [1.0], [True, 1], [1, True], [False, 0], {"a": True}, {"a": False, "b": 1.0},
    {"a": {"a": True}}, {"a": {"c": 1}}, {"a": {"a": {"a": 1}}}, {"b": {"a": "b"}}, {"ab": 1, "a": "a"}, {"ab": "a"},
    {"a": {"b": {"a": 1}}, "b": True}, {"c": 1, "a": 1}, {"c": True}, ["a", "b", "a"], [[], []], [1, 2, 3],
    [{"a": 1}, 1],
]  # fmt: skip
DRAFTS = [
    *(f"http://json-schema.org/draft-0{number}/schema#" for number in (6, 7)),
    "https://json-schema.org/draft/2019-09/schema",
]


class Maker:
    """Makes schemas of chance, and changes them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def schema(self, depth: int) -> Any:
        if self.chance.random() < 0.1:
            return self.chance.choice([True, True, False, {}])
        made: dict[str, Any] = {}
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            made |= self.keyword(depth)
        return made

    def keyword(self, depth: int) -> dict[str, Any]:
        one, chance = self.schema, self.chance
        leaf = chance.choice([self.type, self.values, self.bound, self.reference])
        if depth <= 0 or chance.random() < 0.4:
            return leaf()
        name = chance.choice([
            "properties", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "not",
            "items", "prefixItems", "contains", "anyOf", "oneOf", "oneOf", "allOf", "if", "propertyNames", "required",
            "dependentRequired", "dependentSchemas", "uniqueItems", "unevaluatedItems",
        ])  # fmt: skip
        match name:
            case "properties":
                return {name: {chance.choice("abc"): one(depth - 1) for _ in range(2)}}
            case "patternProperties":
                return {name: {chance.choice(["^a", "b", "^a$"]): one(depth - 1) for _ in range(2)}}
            case "prefixItems" | "anyOf" | "oneOf" | "allOf":
                return {name: [one(depth - 1) for _ in range(chance.choice([1, 2, 2]))]}
            case "if":
                return {each: one(depth - 1) for each in ("if", *chance.sample(["then", "else"], 1))}
            case "required":
                return {name: chance.sample("ab", 1)}
            case "dependentRequired":
                return {name: {"a": ["b"]}}
            case "dependentSchemas":
                return {name: {"a": one(depth - 1)}}
            case "uniqueItems":
                return {name: True}
            case "contains":
                return {name: one(depth - 1)} | chance.choice([{}, {"minContains": 0}, {"maxContains": 1}])
            case _:
                return {name: one(depth - 1)}

    def type(self) -> dict[str, Any]:
        kinds = ["integer", "string", "null", "number", "boolean", "object", "array"]
        return {"type": self.chance.choice([self.chance.choice(kinds), self.chance.sample(kinds, 2)])}

    def values(self) -> dict[str, Any]:
        chosen = self.chance.choice
        return chosen([{"const": chosen(SCALARS)}, {"enum": self.chance.sample(SCALARS, 2)}])

    def bound(self) -> dict[str, Any]:
        names = ["minimum", "maximum", "exclusiveMaximum", "maxLength", "minLength", "maxItems", "minProperties"]
        return self.chance.choice(
            [{self.chance.choice(names): self.chance.randrange(3)}, {"multipleOf": self.chance.choice([1, 2, 0.5])}]
        )

    def reference(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.chance.choice('PQ')}"}

    def document(self) -> dict[str, Any]:
        made = self.schema(3)
        made = made if isinstance(made, dict) else {"allOf": [made]}
        made = made | {"$defs": {"P": self.schema(1), "Q": self.schema(2)}}
        return made | ({"$schema": self.chance.choice(DRAFTS)} if self.chance.random() < 0.15 else {})

    def changed(self, document: dict[str, Any]) -> dict[str, Any]:
        made = copy.deepcopy(document)
        for _ in range(self.chance.choice([1, 1, 2])):
            place = self.chance.choice(list(places(made)))
            self.change(place)
        return made | ({"$schema": self.chance.choice(DRAFTS)} if self.chance.random() < 0.1 else {})

    def change(self, place: dict[str, Any]) -> None:
        names = [name for name in place if name not in ("$defs", "$schema")]
        action = self.chance.choice(["add", "remove", "replace", "inner"])
        if action == "add" or not names:
            place |= self.keyword(1)
            return
        name = self.chance.choice(names)
        if action == "inner" and isinstance(place[name], dict):
            inner = place[name]
            inner[self.chance.choice(list(inner) or ["a"])] = self.schema(1)
            if name in ("properties", "patternProperties", "dependentSchemas"):
                return
        del place[name]
        if action != "remove":
            place |= self.keyword(1)


def places(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas in a schema that are objects."""
    if isinstance(schema, list):
        for each in schema:
            yield from places(each)
    if isinstance(schema, dict):
        yield schema
        for name, each in schema.items():
            if name in ("properties", "patternProperties", "$defs", "dependentSchemas"):
                for one in each.values():
                    yield from places(one)
            elif name not in ("const", "enum", "dependentRequired"):
                yield from places(each)


def validator(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    kind.check_schema(schema)
    return kind(schema)


def disproof(reader: Any, writer: Any) -> Any:
    """Return a value in a list that the writer allows and the reader does not, although they are compatible."""
    try:
        wrote, read = validator(writer), validator(reader)
        parsed = parse(json.dumps(reader), {}), parse(json.dumps(writer), {})
    except (InvalidSchema, jsonschema.SchemaError):
        return None
    if differences(*parsed):
        return None
    return next(([value] for value in MORE if wrote.is_valid(value) and not read.is_valid(value)), None)


@settings(max_examples=examples(100), deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_value_disproves_what_is_compatible(chance: random.Random) -> None:
    maker = Maker(chance)
    writer = maker.document()
    reader = maker.changed(writer)
    assert disproof(reader, writer) is None, (reader, writer)
    assert disproof(writer, reader) is None, (writer, reader)


A, B = {"type": "integer"}, {"type": "string"}


def of(target: Any, **words: Any) -> dict[str, Any]:
    return words | {"$defs": {"P": target}}


P = {"$ref": "#/$defs/P"}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (of(A, **{"not": P}), of(B, **{"not": P})),
        (of(A, contains=P), of(B, contains=P)),
        (of(A, propertyNames=P), of(B, propertyNames=P)),
        (of(A, dependentSchemas={"a": {"allOf": [P]}}), of(B, dependentSchemas={"a": {"allOf": [P]}})),
        (of({}, **{"if": B, "then": {"not": P}}), of(False, **{"if": B, "then": {"not": P}})),
        (of({}, **P, type="string"), of({}, **P)),
        (of(A, **P, minimum=2), of(A, **P, minimum=1)),
        ({"properties": {"a": A}, "unevaluatedProperties": False},
         {"properties": {"a": A, "b": A}, "unevaluatedProperties": False}),
        ({"allOf": [{"properties": {"a": A}}], "unevaluatedProperties": False},
         {"allOf": [{"properties": {"b": A}}], "unevaluatedProperties": False}),
        ({"prefixItems": [A], "unevaluatedItems": False}, {"prefixItems": [A, A], "unevaluatedItems": False}),
        ({"not": {"const": True}}, {"not": {"const": 1}}),
        ({"if": {"const": 0}, "then": False}, {"if": {"const": False}, "then": False}),
        ({"patternProperties": {"^a": {}, "b": A}}, {"properties": {"ab": B}, "additionalProperties": False}),
        ({"properties": {"ab": {}}, "patternProperties": {"b": A}},
         {"properties": {"ab": B}, "patternProperties": {"b": {}}, "additionalProperties": False}),
        ({"oneOf": [A, {"type": "number"}]}, {"type": "integer"}),
        ({"oneOf": [{"minimum": 1}, {"maximum": 1}]}, {"anyOf": [{"minimum": 1}, {"maximum": 1}]}),
        ({"const": 1, "enum": [2]}, {"const": 1}),
        ({"contains": A}, {"contains": A, "minContains": 0}),
    ],
)  # fmt: skip
def test_what_a_value_would_disprove_is_not_compatible(reader: Any, writer: Any) -> None:
    assert differences(parse(json.dumps(reader), {}), parse(json.dumps(writer), {}))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (of(A, **P, description="new"), of(A, **P)),
        (of(A, **P, minimum=1), of(A, **P, minimum=2)),
        (of(A, **{"not": P}), of(A, **{"not": P})),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, {"oneOf": [{"type": "null"}, A]}),
        ({"oneOf": [{"properties": {"k": {"const": "a"}, "x": {}}, "required": ["k"]},
                    {"properties": {"k": {"const": "b"}}, "required": ["k"]}], "type": "object"},
         {"oneOf": [{"properties": {"k": {"const": "a"}, "x": A}, "required": ["k"]},
                    {"properties": {"k": {"const": "b"}}, "required": ["k"]}], "type": "object"}),
        ({"enum": [1, 2]}, {"const": 1.0}),
        ({"type": "string"}, {"enum": ["a", "b"]}),
    ],
)  # fmt: skip
def test_what_no_value_can_disprove_is_compatible(reader: Any, writer: Any) -> None:
    assert not differences(parse(json.dumps(reader), {}), parse(json.dumps(writer), {}))


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, {"allOf": [{"$ref": "#"}]}, {"not": {"$ref": "#"}},
        {"properties": {"a": {"$ref": "#/properties/a", "type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref": "#/$defs/a"}}}},
    ],
)  # fmt: skip
def test_a_schema_that_leads_to_itself_is_none(schema: Any) -> None:
    with pytest.raises(InvalidSchema, match="refers to itself"):
        parse(json.dumps(schema), {})
