"""Values of Avro as plain JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.client.schemas import Schema
from odradek.client.schemas.plain_json import AvroOfJson, NotOfSchema, to_json

AVRO = AvroOfJson("http://127.0.0.1:1")


def there_and_back(kind: Any, value: Any) -> Any:
    schema = Schema(json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}))
    written = AVRO._encoder(AVRO.registry, schema)({"f": value})  # pyright: ignore[reportPrivateUsage]
    read = AVRO._decoder(AVRO.registry, schema, None)(memoryview(written))  # pyright: ignore[reportPrivateUsage]
    return json.loads(json.dumps(to_json(read)))["f"]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


INNER = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int", "default": 3}]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1),
        ("double", 1.5),
        ("boolean", True),
        (["null", "string"], None),
        (["null", "string"], "x"),
        (["int", "string"], "x"),
        ("bytes", {"base64": "/wA="}),
        ({"type": "fixed", "name": "F", "size": 2}, {"base64": "/wA="}),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
        ({"type": "array", "items": ["null", "int"]}, [1, None]),
        ({"type": "map", "values": INNER}, {"x": {"a": 1}}),
        (logical("bytes", "decimal", precision=9, scale=2), "12.34"),
        (logical("int", "date"), "2026-11-24"),
        (logical("int", "time-millis"), "10:00:00.001000"),
        (logical("long", "timestamp-micros"), "2026-11-24T10:00:00.000001+00:00"),
        (logical("long", "local-timestamp-millis"), "2026-11-24T10:00:00"),
        (logical("string", "uuid"), "12345678-1234-5678-1234-567812345678"),
        (["null", logical("long", "timestamp-millis")], "2026-11-24T10:00:00+00:00"),
    ],
)
def test_what_is_read_can_be_written_again(kind: Any, value: Any) -> None:
    assert there_and_back(kind, value) == value


def test_a_branch_can_be_named_and_defaults_be_left_out() -> None:
    assert there_and_back(["null", {"type": "map", "values": "int"}, INNER], {"I": {}}) == {"a": 3}
    assert there_and_back(["int", "long"], {"long": 5}) == 5
    assert there_and_back(logical("long", "timestamp-millis"), 0) == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("int", "1", "value.f is of type int, not '1'"),
        ("int", True, "is of type int, not True"),
        ("bytes", "x", "is bytes"),
        (INNER, {"b": 1}, "has no field 'b'"),
        (["null", "int"], "x", "value.f is of type int, not 'x'"),
        (["null", "int", "string"], [], "no branch takes"),
        (logical("int", "date"), "tomorrow", "is of type date, not 'tomorrow'"),
        (logical("bytes", "decimal", precision=9, scale=2), "x", "is of type decimal, not 'x'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(kind: Any, value: Any, why: str) -> None:
    with pytest.raises(NotOfSchema, match=why):
        there_and_back(kind, value)
