"""Protobuf: what is a .proto file or a descriptor, and what is neither."""

from __future__ import annotations

from base64 import b64encode

import pytest
from odradek.registry.errors import InvalidSchema
from odradek.registry.formats import protobuf


@pytest.mark.parametrize("text", ["this is not proto at all", "message", "message A {", "{}", ";", '{"type": "int"}',
    "message A { string }", "message A { string a = 1 }", "syntax = proto3;", "enum E { A; }", "a = 1;",
    "message A { string a = 1;;; } }", "service S { rpc M(A); }", "package 1a;", "bm90IHByb3RvIGF0IGFsbA==", "///",
])  # fmt: skip
def test_what_is_no_protobuf_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        protobuf.canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; package a.b; import public "x.proto"; option java_package = "c.d";'
        "message A { reserved 1, 4 to max; reserved \"x\"; map<string, .a.B> m = 2 [deprecated = true, json_name='z'];"
        " oneof o { int32 a = 3; B b = 5; } message B {} enum E { option allow_alias = true; X = 0; Y = -1 [(o) = 1]; }"
        " repeated B bs = 6; optional .a.b.C c = 0x7; }"
        "service S { rpc M (stream A) returns (.a.A) { option (google.api.http) = { get: '/v1' body: \"*\" }; }"
        " rpc N(A) returns (stream A); }",
        'syntax = "proto2"; /* a; */ message A { // {\n'
        " required group G = 1 { optional int32 x = 2 [default = -1.5e3]; }"
        " extensions 100 to 199; extend B { optional int32 y = 101; } } extend A { optional string z = 100; }",
        "message A { oneof service { string a = 1; } message enum { A rpc = 1; } } extend google.rpc.Status {"
        " optional string note = 100; } enum E { X = - 1; } service rpc { rpc enum(A) returns (A); }",
        'edition = "2023"; option features.field_presence = EXPLICIT; message A {}',
        # What confluent-kafka for Python sends: a FileDescriptorProto.
        b64encode(b"\x0a\x07a.proto\x12\x01p\x22\x08\x0a\x01A\x12\x03\x0a\x01x\x62\x06proto3").decode(),
    ],
    ids=["proto3", "proto2", "names of kinds", "edition", "descriptor"],
)  # fmt: skip
def test_what_is_protobuf_is_taken(text: str) -> None:
    assert protobuf.canonical(text) == text
