"""Which columns a schema may ask for, and that Arrow's schema of them is what Spark expects."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

from odradek.client.arrow.batches import scan  # noqa: E402
from odradek.client.arrow.fetch import OffsetRange  # noqa: E402
from odradek.client.spark.columns import (  # noqa: E402
    TYPES,
    Column,
    SchemaError,
    columns_of,
    default_ddl,
)
from odradek.client.spark.rows import RowDecoder  # noqa: E402
from odradek.protocol.records.batch import encode_batch  # noqa: E402
from odradek.protocol.records.record import Record  # noqa: E402
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SPARK_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def schema(*names: str, nullable: bool = True) -> StructType:
    return StructType([StructField(name, SPARK_TYPES[name], nullable) for name in names])


def test_any_columns_in_any_order() -> None:
    assert columns_of(schema("offset", "value")) == (Column("offset", LongType()), Column("value", BinaryType()))
    assert [column.name for column in columns_of(schema(*reversed(SPARK_TYPES)))] == list(reversed(TYPES))


def test_headers_are_there_when_asked_for() -> None:
    assert "headers" not in default_ddl(False)
    assert "headers array<struct<key:string,value:binary>>" in default_ddl(True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([StructField("values", BinaryType())], "no column 'values'"),
        ([StructField("value", StringType())], "column 'value' is binary, not string"),
        ([StructField("offset", IntegerType())], "column 'offset' is bigint, not int"),
        ([StructField("key", BinaryType()), StructField("key", BinaryType())], "'key' twice"),
        ([], "no columns"),
    ],
)
def test_what_a_topic_does_not_have_is_refused(fields: list[StructField], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        columns_of(StructType(fields))


# -- Rows: what may not be null is not


def rows_of(*columns: Column) -> list[dict[str, Any]]:
    data = encode_batch([Record(key=None, value=b"")])
    decoder = RowDecoder(columns, OffsetRange("t", bytes(16), 0, 0, 100), max_rows=10)
    assert list(decoder.feed(*scan(memoryview(data))[:2])) == []
    rest = decoder.rest()
    assert rest is not None
    found: list[dict[str, Any]] = rest.to_pylist()
    return found


def test_a_column_that_may_not_be_null_must_not_be() -> None:
    assert rows_of(Column("value", BinaryType(), nullable=False)) == [{"value": b""}]
    with pytest.raises(SchemaError, match="column 'key' is NOT NULL"):
        rows_of(Column("key", BinaryType(), nullable=False))
    with pytest.raises(SchemaError, match="column 'headers' is NOT NULL"):
        rows_of(Column("headers", HEADERS, nullable=False))
