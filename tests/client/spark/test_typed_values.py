"""Typed values: what each format makes of rows."""
# pyright: basic

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="typed values need pyarrow (extra `spark`)")

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")

import msgpack
import pyarrow as pa
import pyspark.sql.types as spark
from odradek.client.errors import InvalidOption, SerializationFailed
from odradek.client.spark.columns import Format
from odradek.client.spark.typed_values import decode, encode

MOMENT = datetime(2026, 11, 22, 10, 0, 0, 5000, UTC)
ROW = {
    "i": 5, "s": "é", "t": MOMENT, "d": date(2026, 11, 22), "b": b"\xff", "n": {"l": [1.5, None]}, "x": Decimal("1.20"),
}  # fmt: skip
KIND = pa.struct(
    [
        ("i", pa.int32()), ("s", pa.string()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("b", pa.binary()),
        ("n", pa.struct([("l", pa.list_(pa.float64()))])), ("x", pa.decimal128(5, 2)),
    ]
)  # fmt: skip


def unpacked(row: bytes | None) -> Any:
    return msgpack.unpackb(row or b"", timestamp=3)  # pyright: ignore[reportUnknownMemberType]


# -- Encoding


def test_rows_become_avro_that_the_reader_takes() -> None:
    pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
    names = {"i": "int", "s": ["null", "string"], "b": "bytes"}
    fields: list[Any] = [{"name": name, "type": kind} for name, kind in names.items()]
    fields += [
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "x", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    kind = pa.struct([each for each in KIND if each.name != "n"])
    row, null = encode("avro", pa.array([{name: ROW[name] for name in "istdbx"}, None], kind), schema)
    assert null is None
    wanted = Format("avro", avro_schema=schema)
    types = {"i": spark.IntegerType(), "s": spark.StringType(), "b": spark.BinaryType(), "t": spark.TimestampType()}
    types |= {"d": spark.DateType(), "x": spark.DecimalType(5, 2)}
    fields_of_spark = spark.StructType([spark.StructField(name, each) for name, each in types.items()])
    found = decode(pa.array([row], pa.binary()), wanted, fields_of_spark).array.to_pylist()
    assert found == [{name: ROW[name] for name in types}]
    with pytest.raises(SerializationFailed, match="a row cannot be written as avro"):
        encode("avro", pa.array([{"i": 5}], pa.struct([("i", pa.int32())])), schema)
    with pytest.raises(InvalidOption, match="the schema of Avro is not valid"):
        encode("avro", pa.array([ROW], KIND), '{"type": "nothing"}')


def test_rows_become_json() -> None:
    row, null = encode("json", pa.array([ROW, None], KIND))
    assert null is None
    assert row is not None
    assert "é".encode() in row
    assert json.loads(row) == {
        "i": 5, "s": "é", "t": "2026-11-22T10:00:00.005000+00:00", "d": "2026-11-22", "b": "/w==",
        "n": {"l": [1.5, None]}, "x": "1.20",
    }  # fmt: skip


def test_rows_become_msgpack() -> None:
    row, null = encode("msgpack", pa.array([ROW, None], KIND))
    assert null is None
    assert row is not None
    assert unpacked(row) == ROW | {"d": "2026-11-22", "x": "1.20"}
    naive = encode("msgpack", pa.array([datetime(2026, 1, 1)], pa.timestamp("us")))
    assert unpacked(naive[0]) == datetime(2026, 1, 1, tzinfo=UTC)


def test_maps_become_objects() -> None:
    assert encode("json", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))) == [b'{"a":1}']


def test_strings_become_bytes() -> None:
    assert encode("string", pa.array(["é", None, ""])) == ["é".encode(), None, b""]


@pytest.mark.parametrize(
    ("name", "column", "error", "said"),
    [
        ("string", pa.array([1]), InvalidOption, "needs a column of strings, not int64"),
        ("xml", pa.array(["a"]), InvalidOption, "format 'xml' is none of json, msgpack, string"),
        ("json", pa.array([float("nan")]), SerializationFailed, "a row cannot be written as json"),
    ],
)
def test_what_a_format_cannot_hold_is_an_error(name: str, column: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        encode(name, column)
