"""The decoder, by the kernel and in Python, against `protocol.records`: the same rows from any bytes, or a typed error.

Sources end where an unreadable page begins, so a read behind their end kills the test run instead of passing by luck.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.arrow.batches import ScanEnd, next_offset, readable, scan
from odradek.client.arrow.decoder import TYPES, ArrowDecoder, schema_of
from odradek.protocol.errors import DecodeError
from odradek.protocol.records.batch import TimestampType, decode_batch, encode_batch, iter_headers, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import CorruptBatch, CorruptCrc, InvalidRecord, UnsupportedCodec, UnsupportedMagic
from odradek.protocol.records.record import Record
from odradek.tests.support.seeds import examples

pytestmark = pytest.mark.usefixtures("arrow_way")

ALL = tuple(TYPES)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOREVER = 2**62
# datetime ends in the year 9999; what lies beyond is compared as numbers.
LAST_MS = 253_402_300_799_999

binaries = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
headers = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=12)), max_size=3).map(tuple)
records = st.builds(Record, st.integers(1, 5), st.integers(-1, LAST_MS), binaries, binaries, headers)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some batches, with gaps between offsets, of any codec and timestamp type."""
    data, offset = b"", draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        numbered: list[Record] = []
        base = offset
        for record in draw(st.lists(records, min_size=1, max_size=8)):
            numbered.append(record._replace(offset=offset))
            offset += record.offset
        data += encode_batch(
            numbered,
            base_offset=base,
            compression=draw(st.sampled_from(Compression)),
            timestamp_type=draw(st.sampled_from(TimestampType)),
        )
    return data


def guarded(data: bytes) -> memoryview:
    """`data` in front of a page that nobody may read."""
    page = mmap.PAGESIZE
    pages = -(-len(data) // page)
    area = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + pages * page), page, 0) == 0
    view = memoryview(area)[pages * page - len(data) : pages * page]
    view[:] = data
    return view


def decoder(columns: tuple[str, ...] = ALL, start: int = 0, end: int = FOREVER, **rest: Any) -> ArrowDecoder:
    return ArrowDecoder(schema_of(columns), "topic", 7, start, end, **{"max_rows": 1000, **rest})


def rows_of(data: bytes, under_test: ArrowDecoder) -> list[dict[str, Any]]:
    source, table, _ = scan(guarded(data))
    batches = list(under_test.feed(source, table))
    rest = under_test.rest()
    batches += [] if rest is None else [rest]
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows
    return [row for batch in batches for row in batch.to_pylist()]


def expected(data: bytes, start: int = 0, end: int = FOREVER) -> Iterator[dict[str, Any]]:
    for position, header in iter_headers(data):
        for record in decode_batch(data, position, header, check=False):
            if start <= record.offset < end:
                yield {
                    "key": record.key,
                    "value": record.value,
                    "topic": "topic",
                    "partition": 7,
                    "offset": record.offset,
                    "timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
                    "timestampType": int(header.timestamp_type),
                    "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
                }


@given(logs(), st.integers(1, 10), st.sampled_from([0, 50, 200, 1 << 20]))
def test_rows_are_those_of_the_pure_decoder_however_small_the_arrow_batches(data: bytes, rows: int, size: int) -> None:
    assert rows_of(data, decoder(max_rows=rows, max_bytes=size)) == list(expected(data))


@given(logs(), st.data())
def test_any_columns_and_any_range_of_offsets(data: bytes, draw: st.DataObject) -> None:
    names = draw.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, unique=True))
    first, last = read_header(data).base_offset, next_offset(scan(memoryview(data))[1])
    start, end = sorted(draw.draw(st.tuples(st.integers(first, last), st.integers(first, last))))
    found = rows_of(data, decoder(tuple(names), start, end))
    assert found == [{name: row[name] for name in names} for row in expected(data, start, end)]


@given(logs(), st.data())
def test_a_torn_tail_is_left_for_the_next_fetch(data: bytes, draw: st.DataObject) -> None:
    cut = data[: draw.draw(st.integers(0, len(data)))]
    whole = list(iter_headers(cut))
    _, table, end = scan(guarded(cut))
    assert len(table) == len(whole)
    stands_at = whole[-1][0] + whole[-1][1].size_bytes if whole else 0
    assert end is (ScanEnd.END if stands_at == len(cut) else ScanEnd.TORN)
    assert rows_of(cut, decoder()) == list(expected(cut))


@settings(max_examples=examples(60))
@given(logs(), st.data())
def test_broken_bytes_are_a_typed_error_or_what_the_pure_decoder_says(data: bytes, draw: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        broken[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        found = raw_rows_of(bytes(broken), decoder(RAW, start=-FOREVER, check_crcs=False))
    except DecodeError:
        return
    assert found == list(raw_expected(bytes(broken), -FOREVER))


# Broken times and names have no Python value; they are compared as numbers and bytes.
RAW = ("key", "value", "offset", "timestamp", "headers")
RAW_TYPES = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))),
    ]
)


def raw_rows_of(data: bytes, under_test: ArrowDecoder) -> list[tuple[Any, ...]]:
    source, table, end = scan(guarded(data))
    if end is ScanEnd.OLD_MAGIC:
        raise UnsupportedMagic("as the pure decoder says")
    assert list(under_test.feed(source, table)) == []
    rest = under_test.rest()
    return [] if rest is None else [tuple(row.values()) for row in rest.cast(RAW_TYPES).to_pylist()]


def raw_expected(data: bytes, start: int) -> Iterator[tuple[Any, ...]]:
    for position, header in iter_headers(data):
        for record in decode_batch(data, position, header, check=False):
            if start <= record.offset < FOREVER:
                named = [{"key": n.encode("utf-8", "surrogateescape"), "value": v} for n, v in record.headers]
                yield record.key, record.value, record.offset, record.timestamp_ms * 1000, named or None


@given(st.binary(max_size=300))
def test_garbage_is_a_typed_error_or_nothing(data: bytes) -> None:
    try:
        _, table, _ = scan(guarded(data))
    except DecodeError:
        return
    assert len(table) == len(list(iter_headers(data)))


def test_one_row_may_be_larger_than_an_arrow_batch() -> None:
    values = [b"a", b"b" * 5000, b"c"]
    data = encode_batch([Record(value=value, key=value) for value in values])
    assert [row["value"] for row in rows_of(data, decoder(max_bytes=100))] == values


def test_arrow_batches_are_full_before_they_are_handed_out() -> None:
    data = encode_batch([Record(value=b"%d" % number) for number in range(10)])
    source, table, _ = scan(memoryview(data))
    under_test = decoder(max_rows=4)
    assert [batch.num_rows for batch in under_test.feed(source, table)] == [4, 4]
    rest = under_test.rest()
    assert rest is not None
    assert rest.num_rows == 2
    assert under_test.rest() is None
    assert [batch.num_rows for batch in under_test.feed(source, table)] == [4, 4], "it goes on behind its rest"
    again = under_test.rest()
    assert again is not None and again.column("value").to_pylist() == [b"8", b"9"]
    assert rest.column("value").to_pylist() == [b"8", b"9"]


def test_arrow_batches_stay_as_they_are_when_the_source_is_used_again() -> None:
    data = bytearray(encode_batch([Record(value=b"kept", headers=(("h", b"kept"),))]))
    source, table, _ = scan(memoryview(data))
    under_test = decoder()
    assert list(under_test.feed(source, table)) == []
    data[:] = bytes(len(data))
    rest = under_test.rest()
    assert rest is not None
    assert rest.to_pylist()[0]["value"] == b"kept"
    assert rest.to_pylist()[0]["headers"] == [{"key": "h", "value": b"kept"}]


def test_a_flipped_bit_is_found_by_the_crc() -> None:
    data = bytearray(encode_batch([Record(value=b"value")]))
    data[-3] ^= 1
    with pytest.raises(CorruptCrc):
        rows_of(bytes(data), decoder())


@pytest.mark.parametrize(
    ("at", "number", "error"),
    [(16, 3, UnsupportedMagic), (11, 48, CorruptBatch), (22, 5, UnsupportedCodec), (60, 2, InvalidRecord)],
    ids=["magic", "length", "codec", "count"],
)
def test_headers_that_cannot_be_are_refused(at: int, number: int, error: type[DecodeError]) -> None:
    data = bytearray(encode_batch([Record(value=b"value")]))
    data[at] = number
    with pytest.raises(error):
        rows_of(bytes(data), decoder(check_crcs=False))


@pytest.mark.parametrize("columns", [ALL, ("offset",)])
def test_a_time_that_no_timestamp_holds_is_refused_whatever_the_columns(columns: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRecord, match="does not fit into 64 bits of microseconds"):
        rows_of(encode_batch([Record(timestamp_ms=2**62)]), decoder(columns))


def test_old_message_formats_are_told_apart_from_torn_batches() -> None:
    from odradek.protocol.records.legacy import encode_message_set

    data = encode_message_set([Record(0, 0, None, b"old")], magic=1)
    _, table, end = scan(memoryview(data))
    assert (len(table), end) == (0, ScanEnd.OLD_MAGIC)


def test_control_batches_and_aborted_transactions_are_not_readable() -> None:
    def batch(base: int, producer: int, **rest: Any) -> bytes:
        return encode_batch(
            [Record(value=b"")], base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=0, **rest
        )

    data = (
        batch(0, 1, transactional=True)
        + batch(1, 2, transactional=True)
        + batch(2, 1)  # the same producer, outside of a transaction
        + batch(3, 1, transactional=True, control=True)
        + batch(4, 1, transactional=True)
        + batch(5, 2, transactional=True, control=True)
    )
    _, table, _ = scan(memoryview(data))

    def offsets(start: int, end: int, aborted: list[tuple[int, int]]) -> list[int]:
        return readable(table, start, end, aborted)[:, 2].tolist()

    assert offsets(0, 6, []) == [0, 1, 2, 4]
    assert offsets(0, 6, [(0, 1)]) == [1, 2, 4]
    assert offsets(0, 6, [(1, 2), (0, 1)]) == [2, 4]
    assert offsets(1, 4, []) == [1, 2]
