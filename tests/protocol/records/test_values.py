"""Values of records: the fast ways give what the slow ways give."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records.batch import (
    decode_batch,
    encode_batch,
    encode_value_batch,
    read_header,
    values_of,
    with_producer,
)
from odradek.protocol.records.columns import MAX_VALUES, decode_values, encode_values
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import InvalidRecord, RecordError
from odradek.protocol.records.record import Record

VALUES = st.lists(st.binary(max_size=80) | st.binary(min_size=1000, max_size=1100), min_size=1, max_size=200)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(-1),
        st.integers(0, 2**40),
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=150,
)


@given(VALUES, st.sampled_from(Compression))
def test_a_batch_of_values_is_a_batch_of_records(values: list[bytes], codec: Compression) -> None:
    batch = encode_value_batch(values, 77, codec)
    assert decode_batch(batch) == [Record(number, 77, None, value, ()) for number, value in enumerate(values)]
    assert values_of(batch, 0, read_header(batch)) == values


@pytest.mark.parametrize("count", [1, 64, 65, 8192, 8193, 20_000, MAX_VALUES])
def test_any_number_of_records_up_to_the_bound(count: int) -> None:
    values = [b"%d" % number for number in range(count)]
    batch = encode_value_batch(values, 0, Compression.NONE)
    records = [Record(-1, 0, None, value, ()) for value in values]
    assert batch == encode_batch(records)


def test_more_or_none_are_an_error() -> None:
    with pytest.raises(InvalidRecord):
        encode_values([b""] * (MAX_VALUES + 1))
    with pytest.raises(InvalidRecord):
        encode_value_batch([], 0, Compression.NONE)


@given(RECORDS)
def test_values_of_any_records(records: list[Record]) -> None:
    batch = encode_batch(records)
    assert values_of(batch, 0, read_header(batch)) == [record.value for record in records]


@given(st.binary(max_size=60), st.integers(0, 5), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3))
def test_broken_bytes_are_an_error_and_never_an_endless_loop(
    data: bytes, count: int, changes: list[tuple[int, int]]
) -> None:
    body = bytearray(encode_values([b"a", b"bc", b"d" * 100]) + data)
    for at, byte in changes:
        body[at % len(body)] = byte
    with suppress(RecordError):
        assert len(decode_values(bytes(body), count)) == count


@given(RECORDS, st.sampled_from(Compression))
def test_a_producer_takes_over_a_batch_with_its_records_codec_and_timestamps(
    records: list[Record], codec: Compression
) -> None:
    ids = {"producer_id": 5, "producer_epoch": 1}
    batch = encode_batch(records, base_offset=12, compression=codec, transactional=True, **ids)
    taken = with_producer(batch, 9, 2, 40)
    header = read_header(taken)
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (0, 9, 2, 40)
    assert header.compression is codec and not header.is_transactional
    assert [each._replace(offset=-1) for each in decode_batch(taken)] == records
