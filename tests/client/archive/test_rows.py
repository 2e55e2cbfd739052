"""Rows of a table: no record stops an archive, whatever its time, its headers and its size are."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

import pyarrow as pa
from odradek.client.archive.layout import SCHEMA, arrow_schema
from odradek.client.archive.rows import MAX_MS, TableRows
from odradek.client.arrow.batches import Section, scan
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.errors import CorruptCrc
from odradek.protocol.records.record import Record

pytestmark = pytest.mark.usefixtures("arrow_way")
NOW = 1_700_000_000_000


def section(*records: Record, base: int = 0) -> Section:
    data = bytearray(encode_batch(list(records)))
    data[:8] = base.to_bytes(8, "big")
    source, table, _ = scan(memoryview(data))
    return Section(source, table)


def rows_of(*sections: Section, start: int = 0, end: int = 1_000_000) -> list[dict[str, Any]]:
    making = TableRows(arrow_schema(SCHEMA), "t", 0, start, end)
    batches = [batch for each in sections for batch in making.feed(each)] + list(making.rest())
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema=arrow_schema(SCHEMA)).to_pylist()


def record(time_ms: int = NOW, key: bytes | None = b"k", value: bytes | None = b"v", headers: Any = ()) -> Record:
    return Record(-1, time_ms, key, value, headers)


def test_null_and_empty_stay_different() -> None:
    found = rows_of(section(record(key=None, value=b""), record(key=b"", value=None), record(headers=(("h", None),))))
    assert [(each["key"], each["value"]) for each in found] == [(None, b""), (b"", None), (b"k", b"v")]
    assert [each["headers"] for each in found] == [None, None, [{"key": "h", "value": None, "raw_key": None}]]


def test_headers_keep_their_order_duplicates_and_bytes_that_are_no_text() -> None:
    bad = b"\xff\xfe".decode("utf-8", "surrogateescape")
    (found,) = rows_of(section(record(headers=(("b", b"1"), ("a", None), ("b", b"\xff"), (bad, b"2")))))
    assert [(each["key"], each["value"], each["raw_key"]) for each in found["headers"]] == [
        ("b", b"1", None),
        ("a", None, None),
        ("b", b"\xff", None),
        ("\ufffd\ufffd", b"2", b"\xff\xfe"),
    ]


@pytest.mark.parametrize("ms", [MAX_MS + 1, 2**63 // 1000 - 1, 2**63 // 1000 + 5, 2**62])
def test_a_time_outside_of_the_calendar_is_moved_into_it_and_kept(ms: int) -> None:
    """One such record would stop an archive for good: neither the day nor 64 bits of microseconds hold it."""
    first = section(record(), record(ms, headers=(("h", b"1"),)), record())
    found = rows_of(first, section(record(), base=3))
    assert [each["offset"] for each in found] == [0, 1, 2, 3]
    assert [each["_timestamp_ms"] for each in found] == [None, ms, None, None]
    assert found[1]["timestamp"].year == 9999
    assert found[1]["headers"] == [{"key": "h", "value": b"1", "raw_key": None}]


@pytest.mark.parametrize("ms", [-1, 0, MAX_MS])
def test_times_at_the_bounds_are_themselves(ms: int) -> None:
    (found,) = rows_of(section(record(ms)))
    assert found["_timestamp_ms"] is None
    assert round(found["timestamp"].timestamp() * 1000) == ms


def test_a_batch_with_a_bad_time_keeps_to_the_range() -> None:
    found = rows_of(section(record(), record(), record(2**62), record(), record()), start=1, end=4)
    assert [each["offset"] for each in found] == [1, 2, 3]


def test_damaged_bytes_are_an_error_and_no_rows() -> None:
    damaged = section(record(), record(2**62))
    damaged.table[0, 9] ^= 1
    with pytest.raises(CorruptCrc):
        rows_of(damaged)
