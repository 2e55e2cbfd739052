"""Typed columns: what each format makes of bytes, good and bad, and that no bytes end the process."""
# pyright: basic
# ruff: noqa: E402

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="typed columns have Spark's types (extra `spark`)")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

import msgpack
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.arrow.batches import scan
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.schemas.typed_rows import MAX_DEPTH
from odradek.client.spark.columns import (
    BadRecord,
    Column,
    Format,
    OptionError,
    SchemaError,
    arrow_type,
    columns_of,
    default_ddl,
)
from odradek.client.spark.options import parse_options
from odradek.client.spark.rows import RowDecoder
from odradek.client.spark.typed_values import decode
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.seeds import examples
from pyspark.sql import types as spark

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
JSON = Format("json", schema="given")
MOMENT = datetime(2026, 11, 22, 10, 0, 0, 5000, UTC)


def struct(**fields: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in fields.items()])


KIND = struct(
    i=spark.IntegerType(),
    s=spark.StringType(),
    t=spark.TimestampType(),
    d=spark.DateType(),
    x=spark.DecimalType(5, 2),
    n=struct(l=spark.ArrayType(spark.DoubleType()), d=spark.ArrayType(spark.DateType())),
)
ROW = {
    "i": 5, "s": "é", "t": MOMENT, "d": date(2026, 11, 22), "x": Decimal("1.20"),
    "n": {"l": [1.5, None], "d": [date(2026, 1, 1)]},
}  # fmt: skip
TEXTS = ROW | {"t": MOMENT.isoformat().replace("+00:00", "Z"), "d": "2026-11-22", "x": "1.20"}
TEXTS["n"] = {"l": [1.5, None], "d": ["2026-01-01"]}
NONE = dict.fromkeys(ROW)


def column(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


def decoded(values: list[bytes | None], wanted: Format = JSON, kind: spark.StructType = KIND) -> tuple[Any, list[int]]:
    found = decode(column(*values), wanted, kind)
    assert found.array.type == arrow_type(kind)
    found.array.validate(full=True)
    return found.array.to_pylist(), np.flatnonzero(found.bad).tolist()


def test_json_becomes_a_struct_nested_too() -> None:
    text = json.dumps(TEXTS | {"other": [1, {"a": None}]}, ensure_ascii=False).encode()
    pretty = json.dumps(TEXTS, indent=2).encode().replace(b"\n", b"\r\n")
    rows, bad = decoded([text, None, b"{}", pretty])
    assert rows == [ROW, None, NONE, ROW]
    assert bad == []


SIMPLE = struct(i=spark.IntegerType(), s=spark.StringType())


@pytest.mark.parametrize(
    "value",
    [
        b"", b" ", b"null", b"5", b"[]", b'"a"', b"{", b"}", b'{"i":1', b'{"i":1}}', b'{"i":"x"}', b'{"i":1.5}',
        b'{"s":5}',
        b'{"i":99999999999}', b'{"s":"\xff"}', b'{"i":1} {"i":2}', b'{"i":1}\nnull', b'{}\nnull\n{}', b'{"i":1}null',
        b'{"s":"a\nb"}', b'{"i":1,"i":2}', b'{"s":"\\ud83d"}', b"{]", b'{"z":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"z":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, b"\x00", b'{"i":nan}',
    ],
)  # fmt: skip
def test_what_is_no_json_of_the_type_is_bad_and_its_neighbours_are_not(value: bytes) -> None:
    good = b'{"i":1,"s":"a"}'
    rows, bad = decoded([good, value, good], kind=SIMPLE)
    assert rows == [{"i": 1, "s": "a"}, {"i": None, "s": None}, {"i": 1, "s": "a"}]
    assert bad == [1]


def test_json_may_be_as_deep_as_the_bound() -> None:
    rows, bad = decoded([b'{"i":1,"z":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"], kind=SIMPLE)
    assert (rows, bad) == ([{"i": 1, "s": None}], [])


pieces = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"null", b"1", b"\n", b" ", b'"i"', b'"s"', b'{"i":1}', b"\xff"]
)


@given(st.lists(st.none() | st.lists(pieces, max_size=12).map(b"".join), max_size=6))
@settings(max_examples=examples(150), deadline=None)
def test_any_bytes_are_rows_as_pythons_reader_has_them_or_bad(values: list[bytes | None]) -> None:
    rows, bad = decoded(values, kind=SIMPLE)
    assert len(rows) == len(values)
    for number, value in enumerate(values):
        if value is None:
            assert rows[number] is None
        elif number not in bad:
            expected = json.loads(value)
            assert rows[number] == {name: expected.get(name) for name in ("i", "s")}


def test_msgpack_becomes_a_struct() -> None:
    packed = msgpack.packb(TEXTS | {"t": MOMENT, "other": b"x"}, datetime=True)
    wrong = [b"\xc1", b"", b"\x05", packed + b"\x00", msgpack.packb({"i": "x"})]
    rows, bad = decoded([packed, None, *wrong], Format("msgpack"))
    assert rows == [ROW, None, NONE, NONE, NONE, NONE, NONE]
    assert bad == [2, 3, 4, 5, 6]


def test_a_number_that_its_type_would_change_makes_its_row_bad() -> None:
    cases = [
        (spark.IntegerType(), 10.6),
        (spark.LongType(), True),
        (spark.DoubleType(), True),
        (spark.FloatType(), False),
        (spark.DecimalType(5, 2), "1.239"),
        (spark.ArrayType(spark.StructType([spark.StructField("x", spark.IntegerType())])), [{"x": 1}, {"x": 0.5}]),
    ]
    for kind, value in cases:
        for packed, name in ((msgpack.packb({"a": value}), "msgpack"), (json.dumps({"a": value}).encode(), "json")):
            assert decoded([packed], Format(name), struct(a=kind)) == ([{"a": None}], [0]), (name, kind, value)
    assert decoded([msgpack.packb({"a": 10.0})], Format("msgpack"), struct(a=spark.IntegerType()))[0] == [{"a": 10}]


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_nulls_of_any_depth_stay_nulls(name: str) -> None:
    day = struct(d=spark.DateType(), x=spark.DecimalType(5, 2))
    kind = struct(l=spark.ArrayType(day), n=struct(n=day))
    filled = {"l": [None, {"d": None, "x": "1.5"}], "n": {"n": None}}
    rows: list[Any] = [{"l": None, "n": None}, filled, {"l": [], "n": {}}]
    encode = {"json": lambda row: json.dumps(row).encode(), "msgpack": msgpack.packb}[name]
    found, bad = decoded([None, *map(encode, rows)], Format(name), kind)
    expected = filled | {"l": [None, {"d": None, "x": Decimal("1.50")}]}
    assert (found, bad) == ([None, rows[0], expected, {"l": [], "n": {"n": None}}], [])


def test_avro_that_is_deeper_than_a_stack_is_bad_and_ends_no_process() -> None:
    pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
    node = {
        "type": "record",
        "name": "N",
        "fields": [{"name": "i", "type": "int"}, {"name": "n", "type": ["null", "N"]}],
    }
    wanted = Format("avro", avro_schema=json.dumps(node))
    rows, bad = decoded([b"\x02\x00", b"\x02\x02" * 100_000 + b"\x02\x00"], wanted, struct(i=spark.IntegerType()))
    assert (rows, bad) == ([{"i": 1}, {"i": None}], [1])


def test_avro_becomes_a_struct() -> None:
    fastavro: Any = pytest.importorskip("fastavro", reason="Avro needs fastavro (extra `avro`)")
    import io

    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "i", "type": "int"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"i": 5, "s": "é", "t": MOMENT})
    value = stream.getvalue()
    wanted = Format("avro", avro_schema=json.dumps(schema))
    kind = struct(s=spark.StringType(), t=spark.TimestampType())
    rows, bad = decoded([value, None, value[:-1], value + b"x"], wanted, kind)
    none = {"s": None, "t": None}
    assert rows == [{"s": "é", "t": MOMENT}, None, none, none]
    assert bad == [2, 3]


def test_strings_must_be_utf8() -> None:
    found = decode(column("é".encode(), None, b"\xff"), Format("string"), spark.StringType())
    assert found.array.to_pylist() == ["é", None, None]
    assert found.bad.tolist() == [False, False, True]


# -- The reader


def read(mode: str, *values: bytes | None, kind: spark.StructType = SIMPLE) -> Any:
    wanted = Format("json", mode, "given")
    columns = (Column("value", kind, format=wanted), Column("partition", spark.IntegerType()))
    data = encode_batch([Record(-1, 5, None, value) for value in values], base_offset=7)
    decoder = RowDecoder(columns, OffsetRange("t", bytes(16), 0, 0, 100), max_rows=2)
    return pa.Table.from_batches(
        [*decoder.feed(*scan(memoryview(data))[:2]), *filter(None, [decoder.rest()])]
    ).to_pylist()


def test_bad_records_are_nulls_with_their_text_or_left_out_or_an_error() -> None:
    kind = struct(i=spark.IntegerType(), _corrupt_record=spark.StringType())
    values = (b'{"i":1}', b"{", None, b'{"i":2}')
    found = [row["value"] for row in read("PERMISSIVE", *values, kind=kind)]
    good = {"_corrupt_record": None}
    assert found == [{"i": 1} | good, {"i": None, "_corrupt_record": "{"}, None, {"i": 2} | good]
    assert [row["value"] for row in read("DROPMALFORMED", *values)] == [{"i": 1, "s": None}, None, {"i": 2, "s": None}]
    with pytest.raises(BadRecord, match="t-0 at offset 8: the value does not fit its schema"):
        read("FAILFAST", *values)


def test_the_schema_without_one_of_the_users_has_the_types() -> None:
    wanted = parse_options(BASE | {"valueFormat": "JSON", "valueSchema": "i INT", "keyFormat": "string"}).formats
    assert default_ddl(False, wanted).startswith("key string, value struct<i INT>, topic string")
    given = Format("json", schema=" STRUCT<i: INT>")
    assert "value STRUCT<i: INT>, topic" in default_ddl(False, {"value": given})
    schema = spark.StructType([spark.StructField("value", SIMPLE), spark.StructField("key", spark.StringType())])
    value, key = columns_of(schema, wanted)
    assert (value.kind, key.kind) == (SIMPLE, spark.StringType())


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("json", struct(b=spark.BinaryType()), "value.b has the type binary, which json values cannot have"),
        ("json", struct(n=struct(m=spark.MapType(spark.StringType(), spark.StringType()))), "value.n.m has the type"),
        ("msgpack", struct(l=spark.ArrayType(spark.VariantType())), "value.l.element has the type variant"),
        ("json", spark.StructType(), "value is a struct without fields"),
        ("json", spark.StructType([spark.StructField("i", spark.LongType(), False)]), "value.i is NOT NULL"),
        ("json", spark.BinaryType(), "with valueFormat=json column 'value' is a struct, not binary"),
        ("string", spark.BinaryType(), "with valueFormat=string column 'value' is a string, not binary"),
        ("json", struct(_corrupt_record=spark.StringType()), "_corrupt_record must be a string beside other fields"),
    ],
)
def test_types_that_a_format_does_not_have_are_named(name: str, kind: spark.DataType, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        columns_of(spark.StructType([spark.StructField("value", kind)]), {"value": Format(name, schema="given")})


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"valueFormat": "xml"}, "'xml' is none of json, msgpack, avro, string"),
        ({"valueFormat": "json"}, "'valueSchema': must be given for json"),
        ({"valueFormat": "string", "valueSchema": "a INT"}, "'valueSchema': is not for strings"),
        ({"keySchema": "a INT"}, "'keySchema': needs keyFormat"),
        ({"mode": "FAILFAST"}, "'mode': needs valueFormat or keyFormat"),
        ({"mode": "strict", "keyFormat": "string"}, "'strict' is none of PERMISSIVE"),
        ({"valueFormat": "avro", "valueSchema": "a INT"}, "'valueAvroSchema': must be given"),
        ({"valueFormat": "avro", "valueSchema": "a INT", "valueAvroSchema": "{"}, "'valueAvroSchema': is not JSON"),
        ({"valueFormat": "json", "valueSchema": "a INT", "valueAvroSchema": "{}"}, "AvroSchema': is not for json"),
    ],
)
def test_options_that_do_not_fit_are_named(texts: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_options(BASE | texts)
