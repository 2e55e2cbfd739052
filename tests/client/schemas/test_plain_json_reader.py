"""One reader for every record of a registry: Avro and JSON Schema become plain JSON, others are bad."""

from __future__ import annotations

import pytest

pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
pytest.importorskip("jsonschema", reason="JSON Schema needs jsonschema (extra `json-schema`)")

from odradek.client.core.serialization import SchemaMissing
from odradek.client.schemas import Schema, SchemaRegistry
from odradek.client.schemas.json_schema import BadJson
from odradek.client.schemas.plain_json import PlainReader
from odradek.client.schemas.registered import BadFrame, frame

SCHEMAS = {
    1: Schema('"bytes"'),
    2: Schema('{"type": "integer"}', "JSON"),
    3: Schema('syntax = "proto3";', "PROTOBUF"),
}


class Known(SchemaRegistry):
    """A registry that has the answers already."""

    def __init__(self) -> None:
        super().__init__("http://h")
        self.at_once = self

    def schema(self, schema_id: int) -> Schema:
        return SCHEMAS[schema_id]


def test_each_record_is_read_by_its_own_schema() -> None:
    reader = PlainReader(Known())
    assert reader.read(frame(1) + b"\x06abc") == ("AVRO", {"base64": "YWJj"})
    assert reader.read(frame(2) + b"5") == ("JSON", 5)
    assert reader.decode_at_once(frame(2) + b"5", "t", "value") == 5


def test_other_records_are_bad() -> None:
    for reader, content in (
        (PlainReader(Known()), frame(3) + b"x"), (PlainReader(Known(), "AVRO"), frame(2) + b"5"),
        (PlainReader(Known()), b"{}"),
    ):  # fmt: skip
        with pytest.raises(BadFrame):
            reader.read(content)
    with pytest.raises(BadJson):
        PlainReader(Known()).read(frame(2) + b'"x"')
    assert PlainReader(Known(), validate=False).read(frame(2) + b'"x"') == ("JSON", "x")


def test_a_schema_that_is_not_known_is_to_be_asked_for() -> None:
    with pytest.raises(SchemaMissing):
        PlainReader("http://h").read(frame(1) + b"\x06abc")
