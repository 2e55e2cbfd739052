"""Avro as columns: types, evolution, and what no column can have."""
# pyright: basic

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
pytest.importorskip("pyarrow", reason="tables need pyarrow (extra `tables`)")

from odradek.client.errors import InvalidOption
from odradek.client.schemas import Schema
from odradek.client.schemas.tables import TableAvro, ddl


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    named = [{"name": f"f{number}", "type": kind[0]} for number, kind in enumerate(fields)]
    for each, kind in zip(named, fields, strict=True):
        if len(kind) > 1:
            each["default"] = kind[1]
    return {"type": "record", "name": name, "fields": named}


def type_of(schema: Any) -> str:
    return ddl(TableAvro("http://h", schema).type)


def logical(kind: str, name: str, **more: Any) -> tuple[dict[str, Any]]:
    return ({"type": kind, "logicalType": name, **more},)


def test_types_of_columns() -> None:
    inner = record(("boolean",), name="I")
    schema = record(
        ("int",), (["null", "long"],), (["string", "null"],), ("bytes",), (["int", "long"],), (["float", "double"],),
        (inner,), ({"type": "array", "items": "I"},), ({"type": "map", "values": ["null", "int"]},),
        ({"type": "enum", "name": "E", "symbols": ["A"]},), ({"type": "fixed", "name": "F", "size": 2},),
        logical("bytes", "decimal", precision=9, scale=2), logical("int", "date"), logical("long", "timestamp-millis"),
        logical("long", "local-timestamp-micros"), logical("string", "uuid"), logical("int", "time-millis"),
    )  # fmt: skip
    kinds = [
        "INT", "BIGINT", "STRING", "BINARY", "BIGINT", "DOUBLE", "STRUCT<`f0`: BOOLEAN>",
        "ARRAY<STRUCT<`f0`: BOOLEAN>>", "MAP<STRING, INT>", "STRING", "BINARY", "DECIMAL(9, 2)", "DATE", "TIMESTAMP",
        "TIMESTAMP_NTZ", "STRING", "INT",
    ]  # fmt: skip
    assert type_of(schema) == f"STRUCT<{', '.join(f'`f{number}`: {kind}' for number, kind in enumerate(kinds))}>"
    assert type_of('"string"') == "STRING" and type_of({"type": "long"}) == "BIGINT"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record((["int", "string"],)), "the value.f0 is a union of several types"),
        (record((["null", "R"],)), "the value.f0 holds itself"),
        (record(({"type": "array", "items": record(name="I")},)), r"the value\.f0\[\] is a record without fields"),
        (record(("null",)), "the value.f0 is always null"),
    ],
)
def test_what_no_column_can_have_is_told_with_its_place(schema: Any, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        type_of(schema)


def read(writer: Any, reader: Any, value: Any) -> Any:
    """Return a value of one schema as another one has it."""
    avro = TableAvro("http://h", reader)
    schema = Schema(json.dumps(writer))
    written = avro._encoder(avro.registry, schema)(value)
    return avro._decoder(avro.registry, schema, avro._schema)(memoryview(written))


def test_a_record_without_a_field_has_its_default_or_null() -> None:
    old = record(("int",))
    new = record(("long",), ("string", "x"), ("string",), (["string", "null"],), (["int", "long"],))
    assert read(old, new, {"f0": 1}) == {"f0": 1, "f1": "x", "f2": None, "f3": None, "f4": None}
    assert read(new, old | {"fields": new["fields"][:1]}, {"f0": 2, "f2": "", "f3": None, "f4": 1}) == {"f0": 2}


def test_types_that_tables_do_not_have_become_plain_ones() -> None:
    text = "12345678-1234-5678-1234-567812345678"
    schema = record(logical("string", "uuid"), logical("int", "time-millis"))
    assert read(schema, schema, {"f0": text, "f1": 5}) == {"f0": text, "f1": 5}
