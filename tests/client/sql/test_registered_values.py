"""Values of a schema registry become Arrow by the schema's types: nothing passes through the text of JSON."""
# pyright: basic

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="pip install 'odradek[sql]'")
pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
pytest.importorskip("jsonschema", reason="JSON Schema needs jsonschema (extra `json-schema`)")

import pyarrow as pa
from odradek.client.schemas import Avro, JsonSchema, Reference, Schema, SchemaRegistry
from odradek.client.schemas.registered import frame
from odradek.client.schemas.schema_registry import Registered
from odradek.client.sql.registered_values import RegisteredValues

pytestmark = pytest.mark.usefixtures("arrow_way")


class Known(SchemaRegistry):
    """A registry that has one schema of values, and what it refers to."""

    def __init__(self, schema: Schema, **others: Schema) -> None:
        super().__init__("http://h")
        self.at_once = self
        self._schema, self._others = schema, others

    def schema(self, schema_id: int) -> Schema:
        return self._schema

    def latest(self, subject: str) -> Registered:
        return Registered(1, 1, self._schema)

    def version(self, subject: str, number: int) -> Registered:
        return Registered(2, number, self._others[subject])


def values_of(schema: Schema, *contents: Any, **others: Schema) -> tuple[RegisteredValues, Any]:
    """Return what reads the values of a topic, and their bytes."""
    made = Avro if schema.type == "AVRO" else JsonSchema
    registry = Known(schema, **others)
    writer = made(registry, schema).writer(1, schema)
    written = [each if each is None or isinstance(each, bytes) else writer(each) for each in contents]
    return RegisteredValues("t", "value", made(registry)), pa.array(written, pa.binary())


def record(*kinds: Any) -> Schema:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return Schema(json.dumps({"type": "record", "name": "R", "fields": fields}))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def test_avro_has_the_types_of_its_schema() -> None:
    schema = record(
        logical("bytes", "decimal", precision=20, scale=10), "bytes", logical("long", "timestamp-millis"),
        logical("int", "date"), {"type": "map", "values": logical("long", "local-timestamp-millis")},
    )  # fmt: skip
    raw = record("bytes", "bytes", "long", "int", {"type": "map", "values": "long"})
    zero = {"f0": b"\0", "f1": b"\xff", "f2": 253402300800000, "f3": 3_000_000, "f4": {"k": 1}}
    values, _ = values_of(schema)
    _, contents = values_of(raw, zero, {**zero, "f0": b"\x01", "f2": 2**63 - 1}, None, b"bad")
    found = dict(zip(values.schema.names, values.arrays(contents, values.schema.names), strict=True))
    assert [each.as_py() for each in found["f0"]] == [Decimal("0E-10"), Decimal("1E-10"), None, None]
    assert [each.as_py() for each in found["f1"]] == [b"\xff", b"\xff", None, None]
    assert found["f2"].type == pa.timestamp("us", tz="UTC")
    assert found["f2"].cast(pa.int64()).to_pylist() == [253402300800000_000, None, None, None]
    assert found["f3"].cast(pa.int32()).to_pylist() == [3_000_000, 3_000_000, None, None]
    assert found["f4"].type.item_type == pa.timestamp("us")
    assert found["_corrupt_record"].to_pylist() == [None, None, None, "YmFk"]
    assert json.loads(values.texts(contents)[0].as_py())["f2"] == 253402300800000


def test_one_value_that_does_not_fit_takes_no_other_away() -> None:
    schema = Schema(json.dumps({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}), "JSON")
    values, contents = values_of(schema, {"a": 1, "b": "x"}, {"a": 2**70, "b": "y"}, {"a": 3.0})
    a, b = values.arrays(contents, ["a", "b"])
    assert (a.to_pylist(), b.to_pylist()) == ([1, None, 3], ["x", "y", None])


def test_a_value_deeper_than_a_stack_is_a_bad_one_and_takes_no_other_away() -> None:
    schema = Schema(json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}), "JSON")
    deep = frame(1) + b'{"a":' * 500_000 + b"1" + b"}" * 500_000
    values, contents = values_of(schema, deep, {"n": 1})
    assert [json.loads(each) for each in values.texts(contents).to_pylist()] == [
        {"_corrupt_record": b64encode(deep).decode()}, {"n": 1},
    ]  # fmt: skip
    assert values.arrays(contents, ["n"])[0].to_pylist() == [None, 1]


TYPES = {
    "a": Schema('{"type":"record","name":"A","namespace":"x","fields":[{"name":"n","type":"int"}]}'),
    "b": Schema('{"type":"enum","name":"B","namespace":"x","symbols":["P","Q"]}'),
}
REFERENCES = (Reference("x.A", "a", 1), Reference("x.B", "b", 1))


@pytest.mark.parametrize(
    ("text", "written", "shown"),
    [
        ('["x.A","x.B"]', {"n": 1}, {"n": 1}),
        ('["null","x.B"]', "Q", "Q"),
        ('{"type":"array","items":"x.A"}', [{"n": 1}, {"n": 2}], [{"n": 1}, {"n": 2}]),
        ('{"type":"map","values":"x.B"}', {"k": "P"}, {"k": "P"}),
        ('[{"type":"array","items":"x.A"},"x.A"]', [{"n": 1}], [{"n": 1}]),
        ('"x.A"', {"n": 3}, {"n": 3}),
        ('{"type":"record","name":"R","fields":[{"name":"u","type":["x.A","x.B"]}]}', {"u": "P"}, {"u": "P"}),
    ],
)
def test_referenced_types_are_written_and_read(text: str, written: Any, shown: Any) -> None:
    values, contents = values_of(Schema(text, "AVRO", REFERENCES), written, **TYPES)
    assert [json.loads(each) for each in values.texts(contents).to_pylist()] == [shown]
    if values.is_typed:
        assert values.arrays(contents, ["_corrupt_record"])[0].to_pylist() == [None]


def test_a_schema_that_makes_no_columns_gives_json() -> None:
    for text in ('["x.A","x.B"]', '{"type":"bytes","logicalType":"decimal","precision":50}', '"string"'):
        assert not values_of(Schema(text, "AVRO", REFERENCES), **TYPES)[0].is_typed


def test_numbers_that_json_does_not_have_are_null() -> None:
    values, contents = values_of(record("double", "float"), {"f0": float("nan"), "f1": float("-inf")})
    assert values.texts(contents).to_pylist() == ['{"f0": null, "f1": null}']
    bad = JsonSchema(Known(Schema("{}", "JSON")))
    with pytest.raises(ValueError, match="no number of JSON"):
        bad.decode(frame(1) + b'{"a": NaN}')
