"""Arrow columns become the record batches that one record after the other would become, by the compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.producer.partitioner import murmur2
from odradek.client.spark.sink_sender import OpenBatches, Rows
from odradek.protocol.records.batch import check_crc, check_shape, decode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import records_by
from odradek.tests.support.seeds import examples

pytestmark = pytest.mark.usefixtures("arrow_way")

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000
PARTITIONS = 3
RECORD_OVERHEAD_BYTES = 48
# Small batches, so that many are full, and some rows fit into none.
LIMIT_BYTES = RECORD_OVERHEAD_BYTES + 60

ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=45),
        st.none() | st.integers(-1, PARTITIONS),
        st.none() | st.integers(NOW_MS - 10**9, NOW_MS + 10**9),
        st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=9)), max_size=2),
    ),
    max_size=40,
)


@pytest.fixture(scope="module", autouse=True)
def arrow_way() -> Iterator[None]:
    """Encode by the kernel: without it rows go through a producer (tests/client/spark/test_sink.py)."""
    with records_by("kernel"):
        yield


def encoded(rows: Rows, sticky: int, codec: Compression = Compression.NONE) -> tuple[dict[int, list[bytes]], list[int]]:
    """Return the batches of each partition, and the rows that were to be sent alone."""
    opened = OpenBatches(PARTITIONS, LIMIT_BYTES, codec)
    opened.sticky = sticky
    batches: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    alone: list[int] = []

    def take(partition: int) -> None:
        taken = opened.take(partition)
        if taken is not None:
            batches[partition].append(taken)

    for stop in opened.append(rows):
        if stop.is_alone:
            alone.append(stop.row)
        if stop.partition >= 0:
            take(stop.partition)
    for partition in batches:
        take(partition)
    return batches, alone


@settings(max_examples=examples(60))
@given(
    ROWS,
    st.integers(0, PARTITIONS - 1),
    st.sampled_from(list(Compression)),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
def test_rows_become_the_records_of_their_partitions_in_order(
    rows: list[Any], sticky: int, codec: Compression, left_out: int, is_large: bool, with_headers: bool
) -> None:
    kinds = pa.large_binary() if is_large else pa.binary(), pa.binary(), pa.int32(), pa.int64(), HEADERS
    # A slice has its first row in the middle of its buffers.
    keys, values, partitions, times, headers = (
        pa.array([row[index] for row in rows], kind)[left_out:] for index, kind in enumerate(kinds)
    )
    rows = rows[left_out:]
    batches, alone = encoded(
        Rows(values, keys, partitions, times, NOW_MS, headers if with_headers else None), sticky, codec
    )
    expected: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
    for number, (key, value, partition, time_ms, named) in enumerate(rows):
        named = tuple(named or ()) if with_headers else ()
        if partition is None:
            partition = sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
        is_known = 0 <= partition < PARTITIONS
        size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        size += sum(2 + len(name.encode()) + len(content or b"") for name, content in named)
        if not is_known or size > LIMIT_BYTES:
            assert number in alone
            continue
        assert number not in alone
        expected[partition].append(Record(-1, NOW_MS if time_ms is None else time_ms, key, value, named))
    for partition, made in batches.items():
        for batch in made:
            header = read_header(batch)
            check_crc(batch, 0, header)
            check_shape(header)
            assert header.max_timestamp == max(record.timestamp_ms for record in decode_batch(batch))
        found = [record._replace(offset=-1) for batch in made for record in decode_batch(batch)]
        assert found == expected[partition]


def test_text_and_missing_columns_are_taken() -> None:
    batches, alone = encoded(Rows(pa.array(["ä", None, ""]), None, None, None, NOW_MS), 2)
    assert alone == []
    (batch,) = batches[2]
    assert [record.value for record in decode_batch(batch)] == ["ä".encode(), None, b""]
    empty, _ = encoded(Rows(pa.array([], pa.string()), None, None, None, NOW_MS), 0)
    assert not any(empty.values())
