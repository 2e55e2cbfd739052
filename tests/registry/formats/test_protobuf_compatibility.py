"""Confluent's rules for Protobuf, each in both directions."""

from __future__ import annotations

import pytest
from odradek.registry.formats import protobuf, protobuf_compatibility
from odradek.registry.formats.formats import PROTOBUF, Source, incompatibilities


def kinds(reader: str, writer: str) -> list[str]:
    files = [protobuf.parse(f'syntax = "proto3"; package p; {each}', {}) for each in (reader, writer)]
    return [each.kind for each in protobuf_compatibility.differences(files[0], files[1])]


def message(fields: str, name: str = "A") -> str:
    return f"message {name} {{ {fields} }}"


SCALAR, KIND = ["FIELD_SCALAR_KIND_CHANGED"], ["FIELD_KIND_CHANGED"]
NAMED, LABEL = ["FIELD_NAMED_TYPE_CHANGED"], ["FIELD_NUMERIC_LABEL_CHANGED"]
LOST = ["ONEOF_FIELD_REMOVED"]
B, C = message("", "B"), message("", "C")
# Of an old and a new text: why the new one cannot read the old one's data, and the other way round.
RULES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "the same": (message("int32 a = 1;"), message("int32 a = 1;"), [], []),
    "a field more": (message("int32 a = 1;"), message("int32 a = 1; B b = 2;") + B, [], ["MESSAGE_REMOVED"]),
    "a name": (message("int32 a = 1;"), message("int32 b = 1;"), [], []),
    "a number": (message("int32 a = 1;"), message("int32 a = 2;"), [], []),
    "numbers are one": (message("int32 a = 1; bool b = 2;"), message("uint64 a = 1; int64 b = 2;"), [], []),
    "bytes are strings": (message("bytes a = 1;"), message("string a = 1;"), [], []),
    "an enum is a number": (message("E a = 1; enum E { X = 0; }"), message("int32 a = 1;"), [], []),
    "fixed are one": (message("fixed32 a = 1; fixed64 b = 2;"), message("sfixed32 a = 1; sfixed64 b = 2;"), [], []),
    "another scalar": (message("int32 a = 1;"), message("sint32 a = 1;"), SCALAR, SCALAR),
    "another width": (message("float a = 1;"), message("double a = 1;"), SCALAR, SCALAR),
    "a scalar is no message": (message("B a = 1;") + B, message("int32 a = 1;") + B, KIND, KIND),
    "a map is no list": (
        message("map<string, B> a = 1;") + B, message("repeated B a = 1;") + B, KIND, KIND
    ),
    "a map's value": (
        message("map<string, int32> a = 1;"), message("map<string, string> a = 1;"), SCALAR, SCALAR
    ),
    "another message": (message("B a = 1;") + B + C, message("C a = 1;") + B + C, NAMED, NAMED),
    "messages in another order": (B + C, C + B, [], []),
    "a nested message": (message(B), message(""), ["MESSAGE_REMOVED"], []),
    "a message out of its message": (message(B), message("") + B, ["MESSAGE_REMOVED"], ["MESSAGE_REMOVED"]),
    "values of an enum": ("enum E { X = 0; }", "enum E { Y = 0; Z = 1; }", [], []),
    "a list of numbers": (message("int32 a = 1;"), message("repeated int32 a = 1;"), LABEL, LABEL),
    "a list of texts": (message("string a = 1;"), message("repeated string a = 1;"), [], []),
    "a list of messages": (message("B a = 1;") + B, message("repeated B a = 1;") + B, [], []),
    "the word optional": (message("int32 a = 1;"), message("optional int32 a = 1;"), [], []),
    "one field into a oneof": (message("int32 a = 1;"), message("oneof o { int32 a = 1; string b = 2; }"),
                               [], ["ONEOF_FIELD_REMOVED"]),
    "two fields into a oneof": (message("int32 a = 1; int32 b = 2;"), message("oneof o { int32 a = 1; int32 b = 2; }"),
                                ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"], []),
    "a field into a oneof that is there": (
        message("int32 a = 1; oneof o { int32 b = 2; }"), message("oneof o { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF"], [],
    ),
    "a field of a oneof": (message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; }"),
                           LOST, []),
    "a whole oneof": (message("int32 c = 3; oneof o { int32 a = 1; int32 b = 2; }"), message("int32 c = 3;"), [], []),
    "a oneof's name": (
        message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof p { int32 a = 1; int32 b = 2; }"), [], []
    ),
    "a oneof's name, and a type in it": (
        message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof p { int32 a = 1; string b = 2; }"),
        SCALAR, SCALAR,
    ),
    "a oneof's name, and a field less": (
        message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof p { int32 a = 1; }"), LOST, []
    ),
    "two oneofs into one": (
        message("oneof o { int32 a = 1; } oneof p { int32 b = 2; }"), message("oneof q { int32 a = 1; int32 b = 2; }"),
        ["FIELD_MOVED_TO_EXISTING_ONEOF"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_rule(rule: str) -> None:
    old, new, backward, forward = RULES[rule]
    assert (kinds(new, old), kinds(old, new)) == (backward, forward)


def source(text: str, **references: str) -> Source:
    return Source(PROTOBUF, text, {f"{name}.proto": each for name, each in references.items()})


def test_required_fields_neither_come_nor_go() -> None:
    without, with_one = source("message A {}"), source("message A { required int32 a = 1; }")
    [added] = incompatibilities(with_one, [without], "BACKWARD")
    assert "REQUIRED_FIELD_ADDED" in added and "path '#/A/1' in the new schema" in added
    [removed] = incompatibilities(without, [with_one], "BACKWARD")
    assert "REQUIRED_FIELD_REMOVED" in removed and "The new schema is missing" in removed
    both = incompatibilities(without, [with_one], "FULL")
    assert [each.split("'")[1] for each in both] == ["REQUIRED_FIELD_REMOVED", "REQUIRED_FIELD_ADDED"]
    optional = source("message A { optional int32 a = 1; }")
    assert "FIELD_NUMERIC_LABEL_CHANGED" in incompatibilities(optional, [with_one], "BACKWARD")[0]
    for kind in ("string", "A"):
        optional, required = (source(f"message A {{ {label} {kind} a = 1; }}") for label in ("optional", "required"))
        assert incompatibilities(optional, [required], "BACKWARD") == []
        assert "REQUIRED_FIELD_ADDED" in incompatibilities(required, [optional], "BACKWARD")[0]
    edition = source('edition = "2023"; message A { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }')
    assert "REQUIRED_FIELD_ADDED" in incompatibilities(edition, [without], "BACKWARD")[0]


GROUP = "message A { optional group Foo = 1 {} }"
MESSAGE = "message A { optional Foo foo = 1; message Foo {} }"
DELIMITED = 'edition = "2023"; message A { Foo foo = 1 [features.message_encoding = DELIMITED]; message Foo {} }'
EXTENDED = "message A { extensions 9; } extend A { optional string a = 9; }"


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (GROUP, MESSAGE, "FIELD_KIND_CHANGED"),
        (DELIMITED, MESSAGE, "FIELD_KIND_CHANGED"),
        (DELIMITED, GROUP, ""),
        (EXTENDED, EXTENDED.replace("string", "int32"), "FIELD_SCALAR_KIND_CHANGED"),
        (EXTENDED, "message A { optional int32 b = 9; }", "FIELD_SCALAR_KIND_CHANGED"),
        (EXTENDED, "message A { optional string b = 9; }", ""),
    ],
)
def test_groups_are_no_messages_and_extensions_are_fields(one: str, other: str, kind: str) -> None:
    for new, old in ((one, other), (other, one)):
        found = incompatibilities(source(new), [source(old)], "BACKWARD")
        assert [each.split("'")[1] for each in found] == [kind] * bool(kind)


def test_another_package_is_another_schema() -> None:
    [found] = incompatibilities(source("package a; message A {}"), [source("package b; message A {}")], "BACKWARD")
    assert "PACKAGE_CHANGED" in found


def test_what_is_imported_is_compared_through_imports_of_imports() -> None:
    text = 'import "b.proto"; message A { optional b.B b = 1; }'
    b = 'import "c.proto"; package b; message B { repeated c.C c = 1; optional B b = 2; }'
    first, second = (
        source(text, c=f"package c; message C {{ optional {kind} a = 1; }}", b=b) for kind in ("int32", "string")
    )
    assert incompatibilities(first, [first], "FULL") == []
    [found] = incompatibilities(second, [first], "BACKWARD")
    assert "FIELD_SCALAR_KIND_CHANGED" in found and "#/C/1" in found
    # A package of another name is no other type, as long as its messages are the same.
    other = source(text.replace("b.B", "z.B"), c="package c; message C {}", b=b.replace("package b", "package z"))
    assert incompatibilities(other, [source(text, c="package c; message C {}", b=b)], "FULL") == []


def test_a_descriptor_follows_its_text() -> None:
    text = source("message A { optional int32 a = 1; map<string, A> b = 2; }")
    descriptor = source(text.serialized())
    assert incompatibilities(descriptor, [text], "FULL") == [] == incompatibilities(text, [descriptor], "FULL")


def test_a_long_chain_of_imported_types_is_compared_without_a_stack() -> None:
    chain = "".join(f"message M{each} {{ optional M{each + 1} m = 1; }}" for each in range(400)) + "message M400 {}"
    first, second = (source(f'import "c.proto"; message A {{ optional M0 m = {n}; }}', c=chain + more)
                     for n, more in ((1, ""), (1, " message More {}")))  # fmt: skip
    assert incompatibilities(second, [first], "FULL") == []
