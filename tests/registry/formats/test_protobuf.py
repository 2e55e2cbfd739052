"""Protobuf: what is a .proto file or a descriptor, what is neither, and what its imports lead to."""

from __future__ import annotations

import gc
from base64 import b64encode

import pytest
from odradek.registry.errors import InvalidSchema
from odradek.registry.formats import protobuf, protobuf_text
from odradek.registry.formats.formats import PROTOBUF, Source


@pytest.mark.parametrize("text", ["this is not proto at all", "message", "message A {", "{}", ";", '{"type": "int"}',
    "message A { string }", "message A { string a = 1 }", "syntax = proto3;", "enum E { A; }", "a = 1;",
    "message A { string a = 1;;; } }", "service S { rpc M(A); }", "package 1a;", "bm90IHByb3RvIGF0IGFsbA==", "///",
    # Base64 of nothing, and of fields that no descriptor has.
    "", "eAE=", 'edition = "2023"; option features.field_presence = NONE; message A {}',
    'edition = "2023"; option features.field_presence = true; message A {}',
    # What the grammar takes, and Protobuf does not.
    'syntax = "proto5"; message A {}', "message A { optional B b = 1; }", "message A {} message A {}",
    "message A { optional int32 a = 0; }", "message A { optional int32 a = 1; optional int32 b = 1; }",
    f"message A {{ optional int32 a = {'9' * 5000}; }}", "message A { optional int32 a = 99999999999; }",
    'syntax = "proto3"; enum E { A = 1; }', "service S { rpc M(A) returns (A); }", 'edition = "1815"; message A {}',
    'import "x.proto"; message A {}', 'import "google/protobuf/os.proto"; message A {}', 'import "/etc/passwd";',
])  # fmt: skip
def test_what_is_no_protobuf_is_refused(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSchema):
        protobuf.parse(text, {})
    assert capfd.readouterr().err == ""


ALL = """
syntax = "proto3"; package a.b; import public "x.proto"; import "google/protobuf/timestamp.proto"; ;
import "google/type/date.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
option java_package = "c.d";
message A {
  // A comment.
  reserved 1, 40 to max; reserved "x"; map<string, .a.B> two_words = 2 [deprecated = true, json_name='z'];
  oneof o { int32 a = 3; B b = 5; } message B {} enum E { option allow_alias = true; X = 0; Y = -1 [(o) = 1]; Z = 0x0; }
  repeated B bs = 6; optional . a . B c = 7; google.protobuf.Timestamp t = 8; google.type.Date d = 9;
  confluent.type.Decimal e = 10 [(confluent.field_meta) = { params: [{ key: "precision" }] }]; optional int32 f = 11;
}
service S {
  rpc M (stream A) returns (.a.b.A) { option (google.api.http) = { get: '/v1' body: "*" }; }
  rpc N(A) returns (stream A);
}
"""


@pytest.mark.parametrize(
    "text",
    [
        ALL,
        'syntax = "proto2"; import "x.proto"; /* a; */ message A { // {\n'
        " required group G = 1 { optional int32 x = 2 [default = -1.5e3]; }"
        " extensions 100 to 199, 300; extend .a.B { optional int32 y = 101; } } extend A { optional string z = 100; }",
        "message A { oneof service { string a = 1; } message enum {} optional enum rpc = 3; } enum E { X = -1; }"
        " service rpc { rpc enum(A) returns (A); }",
        'edition = "2023"; option features.field_presence = EXPLICIT; message A { int32 a = 1; }',
        'import "x.proto"; import "y.proto"; message A { optional a.B b = 1; optional a.C c = 2; }',
        # What confluent-kafka for Python sends: a FileDescriptorProto.
        b64encode(b"\x0a\x07a.proto\x12\x01p\x22\x03\x0a\x01A\x62\x06proto3").decode(),
    ],
    ids=["proto3", "proto2", "names of kinds", "edition", "imports", "descriptor"],
)  # fmt: skip
def test_what_is_protobuf_is_taken_and_means_the_same_as_a_descriptor(text: str) -> None:
    references = {"x.proto": "package a; message B { extensions 100 to max; }",
                  "y.proto": 'import public "x.proto"; package a; message C { optional B b = 1; }'}  # fmt: skip
    assert Source(PROTOBUF, f" {text}\n", references).canonical() == text.strip()
    serialized = protobuf.serialized(text, references)
    assert protobuf.serialized(serialized, references) == serialized


def test_numbers_options_and_ranges_are_those_of_the_text() -> None:
    [message] = protobuf.parse(ALL, {"x.proto": "package a; message B {}"}).message_types_by_name.values()
    fields = {name: each.number for name, each in message.fields_by_name.items()}
    assert fields == {"two_words": 2, "a": 3, "b": 5, "bs": 6, "c": 7, "t": 8, "d": 9, "e": 10, "f": 11}
    assert [each.name for each in message.oneofs] == ["o", "_c", "_f"]
    assert message.fields_by_name["b"].message_type.full_name == "a.b.A.B"
    assert message.enum_types_by_name["E"].values_by_name["Y"].number == -1


def test_numbers_may_be_hexadecimal_and_octal_wherever_a_number_stands() -> None:
    text = """message A {
      reserved %s to %s; extensions %s to max; /* 0x1F */
      optional E a = %s [default = B, (o) = "0x1F 017"]; map<int32, float> b = %s; oneof o { F c = %s; }
      optional group G = %s { optional float x = 1 [default = 0.017, (o).p = { q: -%s }]; } message F {}
    } enum E { B = %s; C = -%s; reserved %s; } extend A { optional int32 d = %s; }"""
    numbers = (20, 30, 0o1000, 16, 255, 8, 31, 0o17, 0x1F, 0o10, 0o17, 0o1001)
    others = [f"0{each:o}" if index % 2 else f"0{'xX'[each % 2]}{each:X}" for index, each in enumerate(numbers)]
    decimal, written = (protobuf.identity(text % tuple(each), normalize=False) for each in (numbers, others))
    assert written == decimal
    for number in ("09", "0x", "0xG", "0b1", "0o7", f"0x{'F' * 5000}"):
        with pytest.raises(InvalidSchema):
            protobuf.parse(f"message A {{ optional int32 a = {number}; }}", {})


def test_spaces_and_comments_make_no_other_schema_and_options_do() -> None:
    first = protobuf.identity("message A { optional int32 a = 1; } // one", normalize=False)
    assert protobuf.identity("message A {\n  optional int32 a=1;\n}", normalize=False) == first
    assert protobuf.identity("message A { optional int32 a = 1 [deprecated = true]; }", normalize=False) != first
    turned = [
        f"message A {{ {a} {b} }}" for a, b in (("int32 a = 1;", "int32 b = 2;"), ("int32 b = 2;", "int32 a = 1;"))
    ]
    assert len({protobuf.identity(each, normalize=True) for each in turned}) == 1
    assert len({protobuf.identity(each, normalize=False) for each in turned}) == 2
    nested = [f"message B {{ {each} }}" for each in turned]
    assert len({protobuf.identity(each, normalize=True) for each in nested}) == 1
    # The number of a public import counts from the order in which they stand.
    public = [f'import public "{one}"; import "{other}"; message A {{}}' for one, other in ("ab", "ba")]
    assert len({protobuf.identity(each, normalize=True) for each in public}) == 2
    assert protobuf.identity('import "b"; import public "a"; message A {}', normalize=True) == protobuf.identity(
        public[0], normalize=True
    )


HOSTILE = {
    "deep": "message A {" * 10_000, "deep and whole": "message A {" * 300 + "}" * 300,
    "deep option": "option a = {a:" + "[{a:" * 20_000, "long": "message A {}" + " " * protobuf_text.MAX_CHARACTERS,
    "a megabyte": "message A {}" * 90_000, "references": "message A {}", "descriptor": "AAAA" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_large_or_too_deep_is_refused(name: str) -> None:
    references = {"x": " " * protobuf.MAX_CHARACTERS} if name == "references" else {}
    with pytest.raises(InvalidSchema, match=r"than \d+ (levels|characters|bytes)"):
        protobuf.parse(HOSTILE[name], references)


def test_a_parser_leaves_nothing_to_collect() -> None:
    protobuf_text.read("message First {}")
    gc.collect()
    protobuf_text.read("message A { reserved " + "1," * 1000 + "1; }")
    assert gc.collect() < 200
    with pytest.raises(InvalidSchema):
        protobuf_text.read("message A { reserved " + "1," * 1000 + "x; }")
    assert gc.collect() < 200 and gc.isenabled()
