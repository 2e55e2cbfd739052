"""Rows as Spark expects them: what may not be null is not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the source needs pyarrow (extra `spark`)")

from odradek.client.arrow.batches import scan
from odradek.client.arrow.fetch import OffsetRange
from odradek.client.spark.columns import Column, HeaderNulls, SchemaError
from odradek.client.spark.rows import RowDecoder
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record


def rows_of(*columns: Column) -> list[dict[str, Any]]:
    data = encode_batch([Record(key=None, value=b"")])
    decoder = RowDecoder(columns, OffsetRange("t", bytes(16), 0, 0, 100), max_rows=10)
    assert list(decoder.feed(*scan(memoryview(data))[:2])) == []
    rest = decoder.rest()
    assert rest is not None
    found: list[dict[str, Any]] = rest.to_pylist()
    return found


def test_a_column_that_may_not_be_null_must_not_be() -> None:
    assert rows_of(Column("value", nullable=False)) == [{"value": b""}]
    with pytest.raises(SchemaError, match="column 'key' is NOT NULL"):
        rows_of(Column("key", nullable=False))
    with pytest.raises(SchemaError, match="column 'headers' is NOT NULL"):
        rows_of(Column("headers", False, HeaderNulls()))
