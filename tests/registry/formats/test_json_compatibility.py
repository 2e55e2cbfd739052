"""Compatibility of JSON Schemas: each case with the name of its difference."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
from odradek.registry.errors import InvalidSchema, RegistryError
from odradek.registry.formats import json_text
from odradek.registry.formats.difference import Steps
from odradek.registry.formats.json_compatibility import differences
from odradek.registry.formats.json_schema import canonical, parse

INT, TEXT = {"type": "integer"}, {"type": "string"}


def kinds(reader: Any, writer: Any) -> list[str]:
    return [each.kind for each in differences(parse(json.dumps(reader), {}), parse(json.dumps(writer), {}))]


def test_half_a_character_is_compared_or_rejected() -> None:
    """JSON can name one half of a pair of UTF-16, and RE2 reads UTF-8 alone."""
    half = "\ud800"
    wide = {"type": "object", "patternProperties": {"^x.$": INT}}
    assert kinds(wide, thing({f"x{half}": INT})) == kinds(wide, thing({"xy": INT}))
    assert kinds(wide, thing({f"x{half}": TEXT})) == kinds(wide, thing({"xy": TEXT}))
    with pytest.raises(RegistryError, match="RE2 does not know it"):
        kinds({"type": "object", "patternProperties": {half: INT}}, thing({"a": INT}))


def thing(properties: dict[str, Any], **besides: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **besides}


def closed(properties: dict[str, Any], **besides: Any) -> dict[str, Any]:
    return thing(properties, additionalProperties=False, **besides)


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        ({"type": "number"}, INT, []),
        (INT, {"type": "number"}, ["TYPE_NARROWED"]),
        (TEXT, INT, ["TYPE_CHANGED"]),
        ({"type": ["string", "null"]}, TEXT, []),
        ({}, TEXT, []),
        (True, TEXT, []),
        (False, TEXT, ["TYPE_NARROWED"]),
        (TEXT, {}, ["TYPE_NARROWED"]),
        (TEXT | {"maxLength": 5}, TEXT | {"maxLength": 3}, []),
        (TEXT | {"maxLength": 3}, TEXT | {"maxLength": 5}, ["MAX_LENGTH_DECREASED"]),
        (TEXT | {"maxLength": 3}, TEXT, ["MAX_LENGTH_ADDED"]),
        (INT | {"minimum": 3}, INT | {"minimum": 1}, ["MINIMUM_INCREASED"]),
        (INT | {"multipleOf": 2}, INT | {"multipleOf": 4}, []),
        (INT | {"multipleOf": 4}, INT | {"multipleOf": 2}, ["MULTIPLE_OF_CHANGED"]),
        (TEXT | {"pattern": "a"}, TEXT, ["PATTERN_ADDED"]),
        ({"enum": [1, 2]}, {"enum": [1]}, []),
        ({"enum": [1]}, {"enum": [1, 2]}, ["ENUM_ARRAY_NARROWED"]),
        (closed({"a": INT, "b": INT}), closed({"a": INT}), []),
        (thing({"a": INT, "b": INT}), thing({"a": INT}), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (thing({"a": INT, "b": {}}), thing({"a": INT}), []),
        (thing({"a": INT}), thing({"a": INT, "b": INT}), []),
        (closed({"a": INT}), closed({"a": INT, "b": INT}), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (thing({"a": INT}, required=["a"]), thing({"a": INT}), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (thing({"a": INT | {"default": 1}}, required=["a"]), thing({"a": INT}), []),
        (closed({"a": INT}), thing({"a": INT}), ["ADDITIONAL_PROPERTIES_REMOVED"]),
        ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": INT}, []),
        ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, ["TYPE_CHANGED"]),
        ({"oneOf": [INT, TEXT]}, {"oneOf": [INT]}, []),
        ({"oneOf": [INT]}, {"oneOf": [INT, TEXT]}, ["SUM_TYPE_NARROWED"]),
        ({"anyOf": [INT, TEXT]}, TEXT, []),
        (TEXT, {"anyOf": [INT]}, ["TYPE_NARROWED"]),
        (TEXT, {"anyOf": [TEXT | {"maxLength": 1}, TEXT | {"minLength": 5}]}, []),
        (TEXT, {"allOf": [TEXT, {"maxLength": 1}]}, []),
        (TEXT | {"anyOf": [TEXT]}, {"anyOf": [TEXT]}, []),
        ({"allOf": [INT]}, {"allOf": [INT, {"minimum": 1}]}, []),
        ({"allOf": [INT, {"minimum": 1}]}, {"allOf": [INT]}, ["PRODUCT_TYPE_EXTENDED"]),
        ({"type": ["string", "integer"], "minimum": 0, "multipleOf": 2}, TEXT, []),
        ({"type": ["string", "null"], "maxLength": 9, "pattern": "a"}, {"type": "null"}, []),
        ({"type": ["string", "null"], "maxLength": 9}, {"type": ["null", "string"]}, ["MAX_LENGTH_ADDED"]),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"type": ["null", "string"]}, []),
        ({"oneOf": [TEXT | {"maxLength": 2}, {"type": "null"}]}, {"type": ["null", "string"], "maxLength": 2}, []),
        ({"anyOf": [TEXT, INT]}, {"type": ["null", "string"]}, ["COMBINED_TYPE_CHANGED"]),
    ],
)
def test_what_a_reader_takes(reader: Any, writer: Any, found: list[str]) -> None:
    assert kinds(reader, writer) == found


@pytest.mark.parametrize(
    ("schema", "drafts"),
    [
        # Draft 4 has no const, so that nothing is of the first, and everything of both parts of the second.
        ({"not": {"const": 1}}, (4, 7)),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, (4, 7)),
        # Draft 7 does not see what stands beside a $ref.
        ({"not": {"$ref": "#/definitions/a", "maxLength": 2}, "definitions": {"a": TEXT}}, (7, 2019)),
    ],
)
def test_a_text_means_what_its_draft_says(schema: dict[str, Any], drafts: tuple[int, int]) -> None:
    reader, writer = (schema | {"$schema": f"http://json-schema.org/draft-{draft:02}/schema#"} for draft in drafts)
    assert kinds(reader, writer)
    assert not kinds(writer, writer)
    assert not kinds(TEXT | {"pattern": "a", "$schema": reader["$schema"]}, TEXT | {"pattern": "a"})


def test_a_draft_of_thousands_of_digits_is_none() -> None:
    named = TEXT | {"$schema": "http://json-schema.org/draft-" + "7" * 5000}
    assert kinds(named, named) == []


def test_references_are_followed_and_recursion_ends() -> None:
    tree = {"$ref": "#/definitions/T", "definitions": {"T": thing({"next": {"$ref": "#/definitions/T"}, "a": INT})}}
    assert kinds(tree, tree) == []
    other = json.loads(json.dumps(tree).replace("integer", "string"))
    assert kinds(other, tree) == ["TYPE_CHANGED"]


def test_a_reference_is_a_document_of_its_own() -> None:
    schema = parse('{"$ref":"n.json#/$defs/a"}', {"n.json": '{"$defs":{"a":{"type":"string"}}}'})
    assert schema.root.resolved().value == TEXT
    assert canonical(schema) == '{"$ref":"n.json#/$defs/a"}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1", "is an object, true or false"),
        ('{"type":"text"}', "no type of JSON"),
        ('{"type":[["x"]]}', "no type of JSON"),
        ('{"properties":[]}', "properties is an object"),
        ('{"required":[1]}', "required is a list of names"),
        ('{"pattern":"("}', "no regular expression"),
        ('{"$ref":"#/definitions/x"}', "leads nowhere"),
        ('{"$ref":"http://example.com/x"}', "neither in the schema nor"),
        ('{"$ref":"#"}', "refers to itself"),
        ('{"items":[{"type":"x"}]}', "no type of JSON"),
    ],
)
def test_what_is_no_schema_is_told(text: str, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        parse(text, {})


def test_a_schema_that_a_comparison_makes_is_not_taken_for_another() -> None:
    """The addresses of such schemas are keys: each must live as long as the comparison."""
    names = [f"p{number}" for number in range(20)]
    reader = closed({name: {"$ref": "#/$defs/d"} for name in names}) | {"$defs": {"d": {"allOf": [TEXT]}}}
    writer = closed({name: (TEXT if number % 2 else INT) | {"title": name} for number, name in enumerate(names)})
    assert kinds(reader, writer) == ["PRODUCT_TYPE_EXTENDED"] * 10


def test_patterns_are_those_of_re2_and_of_python() -> None:
    for pattern in (r"^\p{L}+$", "(?<year>[0-9]{4})", "(?=a)b", "[[a]"):
        parse(json.dumps({"pattern": pattern}), {})
    for pattern in ("(", 5, "a" * 10_001):
        with pytest.raises(InvalidSchema, match="regular expression"):
            parse(json.dumps({"pattern": pattern}), {})


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({"enum": [1]}, "not \\[1\\]"),
        ({"x": {"properties": 3}}, "properties is an object"),
        ({"x": {"allOf": [{"type": "none"}]}}, "is no type"),
    ],
)
def test_what_a_reference_leads_to_is_a_schema(place: dict[str, Any], why: str) -> None:
    text = json.dumps(thing({"a": {"$ref": f"#/{next(iter(place))}"}}, **place))
    with pytest.raises(InvalidSchema, match=why):
        parse(text, {})


def test_a_multiple_may_be_larger_than_any_float() -> None:
    assert kinds({"multipleOf": 0.5}, {"multipleOf": 10**400}) == []
    assert kinds({"multipleOf": 1.5}, {"multipleOf": 10**400}) == ["MULTIPLE_OF_CHANGED"]


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_that_json_cannot_tell_again_is_refused(number: str) -> None:
    with pytest.raises(InvalidSchema, match="too large a number"):
        parse(f'{{"maximum":{number}}}', {})


def test_pairs_that_differ_are_forgotten_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "MAX_STEPS", 1_000_000)
    reader, writer = ({"anyOf": [{"const": sign * number} for number in range(1, 301)]} for sign in (1, -1))
    begun_s = time.thread_time()
    assert len(kinds(reader, writer)) == 100
    # To pass over all earlier pairs at each took longer.
    assert time.thread_time() - begun_s < 10


def test_searches_for_patterns_count_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "MAX_STEPS", 1_000)
    patterns = {"type": "object", "patternProperties": {f"^x{number}": TEXT for number in range(200)}}
    names = thing({f"y{number}": TEXT for number in range(200)})
    # 40,000 searches, without one more pair of types: larger schemas held the registry for minutes.
    with pytest.raises(RegistryError, match="takes more than 1000 steps"):
        kinds(patterns, names)


def test_a_search_counts_by_the_size_of_pattern_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "MAX_STEPS", 1_000)
    slow = {"type": "object", "patternProperties": {"(a|b|x{1,300}){1,3}y": TEXT}}
    assert kinds(slow, thing({"x" * 100: INT})) == ["PATTERN_PROPERTY_NARROWED"]
    with pytest.raises(RegistryError, match="takes more than 1000 steps"):
        kinds(slow, thing({"x" * 10_000: INT}))


def test_the_first_pattern_that_matches_covers_a_property() -> None:
    reader = {"type": "object", "patternProperties": {"^a": TEXT, "b": INT}}
    both = thing({"ab": TEXT, "cb": INT}, patternProperties=reader["patternProperties"])
    assert kinds(reader, both) == []
    assert "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" in kinds(reader, thing({"ab": INT}))


def test_what_true_does_not_fit_says_nothing_about_another_schema() -> None:
    names = {"D": closed({"a": INT}), "E": {"allOf": [{"$ref": "#/$defs/D"}]}, "O": {"oneOf": [{"$ref": "#/$defs/D"}]}}
    items = [{"$ref": f"#/$defs/{name}"} for name in "EOOE"]
    reader = {"$defs": names, "type": "array", "prefixItems": items}
    writer = {"type": "array", "prefixItems": [names["D"], names["D"], True, names["D"]]}
    # The pair of D and `true` was found again at the address of the last pair.
    assert kinds(reader, writer) == ["COMBINED_TYPE_CHANGED"]


def test_a_schema_has_a_bound_of_lists_and_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_CONTAINERS", 5)
    assert canonical(parse('{"enum":[[],{},[]]}', {}))
    with pytest.raises(InvalidSchema, match="more than 5 lists and objects"):
        parse('{"enum":[[],{},[],[]]}', {})


def test_without_re2_patterns_are_taken_as_python_reads_them_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RegistryError, match="needs google-re2"):
        kinds({"type": "object", "patternProperties": {"^a": INT}}, thing({"ab": INT}))
    parse(json.dumps({"pattern": "^a"}), {})
    with pytest.raises(InvalidSchema, match="no regular expression"):
        parse(json.dumps({"pattern": "("}), {})
