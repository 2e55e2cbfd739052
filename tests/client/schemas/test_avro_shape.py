"""What a schema lets data do to its reader."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.client.schemas.avro import Shape, shape_of


def record(name: str, *kinds: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def chain(length: int) -> list[dict[str, Any]]:
    return [
        record("R0", "int"),
        *(record(f"R{number}", f"R{number - 1}", f"R{number - 1}") for number in range(1, length)),
    ]


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ("int", Shape.PLAIN),
        (["null", "string"], Shape.PLAIN),
        (record("A", {"type": "bytes", "logicalType": "decimal", "precision": 4}), Shape.PLAIN),
        ({"type": "array", "items": ["null", "int"]}, Shape.PLAIN),
        ({"type": "map", "values": "null"}, Shape.PLAIN),
        (chain(50), Shape.PLAIN),
        (record("A", ["null", "A"]), Shape.DEEP),
        (record("A", {"type": "array", "items": "A"}), Shape.DEEP),
        (record("A", {"type": "map", "values": ["int", record("B", "A")]}), Shape.DEEP),
        (chain(500), Shape.DEEP),
        ({"type": "array", "items": "null"}, Shape.EMPTY_ITEMS),
        (record("A", {"type": "array", "items": record("B", "null")}), Shape.EMPTY_ITEMS),
        (record("A", record("B"), {"type": "array", "items": "B"}), Shape.EMPTY_ITEMS),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, Shape.EMPTY_ITEMS),
    ],
)
def test_shapes(schema: Any, shape: Shape) -> None:
    fastavro: Any = pytest.importorskip("fastavro")
    assert shape_of(fastavro.parse_schema(schema)) is shape


def test_a_record_of_records_of_nothing_is_asked_once_each() -> None:
    fastavro: Any = pytest.importorskip("fastavro")
    kinds = [record("R0"), *(record(f"R{number}", f"R{number - 1}", f"R{number - 1}") for number in range(1, 60))]
    assert shape_of(fastavro.parse_schema([*kinds, {"type": "array", "items": "R59"}])) is Shape.EMPTY_ITEMS
