"""JSON Schema as columns: types, values that fit them, rows as JSON, and what is text because no column can have it."""
# pyright: basic

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("jsonschema", reason="JSON Schema needs jsonschema (extra `json-schema`)")
pytest.importorskip("pyarrow", reason="tables need pyarrow (extra `tables`)")

from odradek.client.errors import InvalidOption
from odradek.client.schemas import Schema, SchemaRegistry
from odradek.client.schemas.json_schema import BadJson
from odradek.client.schemas.tables import MAX_LEVELS, TableJson, ddl, fitted


def type_of(schema: Any) -> str:
    return ddl(TableJson("http://h", json.dumps(schema)).type)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "format": "date-time"}, "STRING"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": ["null", "number"]}, "DOUBLE"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"enum": ["a", "b", None]}, "STRING"),
        ({"const": 1}, "BIGINT"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "MAP<STRING, BIGINT>"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "BIGINT"),
        ({"allOf": [{"$ref": "#/$defs/d"}], "$defs": {"d": {"type": "boolean"}}}, "BOOLEAN"),
        (of(a={"$ref": "#/definitions/d"}) | {"definitions": {"d": of(b={"type": "integer"})}},
         "STRUCT<`a`: STRUCT<`b`: BIGINT>>"),
        (of(a={"type": "integer"}) | {"additionalProperties": {"type": "string"}}, "STRUCT<`a`: BIGINT>"),
        ({"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}]}, "STRUCT<`a`: BIGINT>"),
        ({"$id": "http://x/y", "$ref": "#/$defs/d", "$defs": {"d": {"$id": "z", "$ref": "#/$defs/e",
          "$defs": {"e": {"type": "integer"}}}}}, "BIGINT"),
        (of(**{"a`b, c": {"type": "integer"}}), "STRUCT<`a``b, c`: BIGINT>"),
    ],
)  # fmt: skip
def test_types_of_columns(schema: Any, kind: str) -> None:
    assert type_of(schema) == kind


@pytest.mark.parametrize(
    "schema",
    [
        True, {}, {"type": "null"}, {"type": "object"}, {"type": ["string", "integer"]}, {"enum": [1, "a"]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"allOf": [of(a={}), of(b={})]},
        {"type": "object", "patternProperties": {"^a": {}}}, of(a={}) | {"patternProperties": {"^b": {}}},
        of(**{"": {}}),
        {"type": "array"}, {"type": "array", "prefixItems": [{}]}, {"$ref": "#/nothing"}, {"$ref": "http://x/"},
        {"type": "object", "additionalProperties": False},
    ],
)  # fmt: skip
def test_what_no_column_can_have_is_text(schema: Any) -> None:
    assert type_of(schema) == "STRING"


def test_a_type_that_holds_itself_is_text_inside_itself() -> None:
    assert type_of(of(value={"type": "integer"}, next={"$ref": "#"})) == "STRUCT<`value`: BIGINT, `next`: STRING>"
    deep: Any = {"type": "integer"}
    for _ in range(70):
        deep = of(a=deep)
    assert type_of(deep).count("STRUCT") == MAX_LEVELS + 1


def test_a_schema_that_doubles_with_each_step_is_refused() -> None:
    steps = {f"d{n}": of(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(40)}
    with pytest.raises(InvalidOption, match="more than 10000 columns"):
        type_of({"$ref": "#/$defs/d0", "$defs": steps | {"d40": {"type": "integer"}}})


def test_references_are_followed() -> None:
    class Known(SchemaRegistry):
        def referenced(self, schema: Schema) -> dict[str, str]:
            return {"carrier.json": json.dumps(of(code={"type": "string"}))}

    schema = Schema(json.dumps(of(by={"$ref": "carrier.json"})), "JSON")
    assert ddl(TableJson(Known("http://h"), schema).type) == "STRUCT<`by`: STRUCT<`code`: STRING>>"


def test_values_fit_their_columns() -> None:
    schema = of(
        number={"type": "integer"}, share={"type": "number"}, any={}, tags={"type": "array", "items": {}},
        counts={"type": "object", "additionalProperties": {"type": "number"}},
    )  # fmt: skip
    kind = TableJson("http://h", json.dumps(schema)).type
    value = {"share": 1 << 60, "any": {"é": 1}, "tags": ["a", 1, None], "counts": {"x": 1}, "more": 1}
    assert fitted(value, kind) == {
        "number": None, "share": float(1 << 60), "any": '{"é": 1}', "tags": ["a", "1", None], "counts": {"x": 1.0},
    }  # fmt: skip


def test_a_row_is_written_without_nulls_that_nobody_requires() -> None:
    schema = of(
        carrier={"type": ["null", "string"]}, number={"type": "integer"}, at={"type": "string"},
        legs={"type": "array", "items": of(x={"type": "integer"})},
    ) | {"required": ["carrier"]}  # fmt: skip
    table = TableJson("http://h", json.dumps(schema))
    write = table.writer(7, table._schema)
    row = {"carrier": None, "number": None, "at": None, "legs": [{"x": None}, {"x": 1}]}
    assert write(row) == b'\0\0\0\0\7{"carrier":null,"legs":[{},{"x":1}]}'
    assert write({"carrier": "UA", "at": datetime(2026, 11, 24, tzinfo=UTC)}).endswith(b'"2026-11-24T00:00:00+00:00"}')
    assert write({"carrier": "UA", "at": date(2026, 11, 24)}).endswith(b'"2026-11-24"}')
    with pytest.raises(BadJson, match="number"):
        write({"carrier": "UA", "number": Decimal("1.5")})
    with pytest.raises(BadJson):
        write({"number": 1})


def test_a_table_goes_to_other_processes() -> None:
    table = TableJson("http://h", json.dumps(of(a={"type": "integer"})))
    assert pickle.loads(pickle.dumps(table)).type == table.type
