"""What is written is read again, by us and by other people's decoders: every magic, every codec, any records."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchPy as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records import batch, legacy, record
from odradek.protocol.records.batch import TimestampType
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its resources in an old way
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

binary = st.one_of(st.none(), st.binary(max_size=40), st.integers(60, 9000).map(lambda n: b"x" * n))
far = st.integers(0, 2**63 - 1)
near = st.integers(1_700_000_000_000, 1_700_000_100_000)
anytime = st.just(-1) | near | far
headers = st.lists(st.tuples(st.text(max_size=6), binary), max_size=3).map(tuple)
LEGACY = [codec for codec in Compression if codec <= Compression.LZ4]
few = functools.partial(settings, max_examples=40)


@st.composite
def record_lists(
    draw: Callable, headers: st.SearchStrategy = headers, timestamps: st.SearchStrategy = anytime
) -> list[Record]:
    """Records with growing offsets, with gaps now and then, from an offset of any size."""
    offset = draw(st.sampled_from([0, 1, 127, 2**31, 2**50]))
    steps = st.sampled_from([1, 1, 1, 2, 64, 10_000])
    rows = draw(st.lists(st.tuples(steps, timestamps, binary, binary, headers), min_size=1, max_size=8))
    records = []
    for step, timestamp_ms, key, value, extra in rows:
        offset += step
        records.append(Record(offset, timestamp_ms, key, value, extra))
    return records


@pytest.mark.parametrize("codec", Compression)
@few()
@given(records=record_lists())
def test_v2(codec: Compression, records: list[Record]) -> None:
    data = batch.encode_batch(records, base_offset=records[0].offset, compression=codec)
    header = batch.read_header(data)
    assert batch.decode_batch(data) == records
    assert (header.size_bytes, header.record_count) == (len(data), len(records))
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(r.timestamp_ms for r in records)
    assert len(data) <= batch.HEADER_SIZE + 64 + sum(record.size_upper_bound(*r[2:]) for r in records)


@pytest.mark.parametrize("codec", LEGACY)
@pytest.mark.parametrize("magic", [0, 1])
@few()
@given(records=record_lists(headers=st.just(())))
def test_message_sets(magic: int, codec: Compression, records: list[Record]) -> None:
    data = legacy.encode_message_set(records, magic, codec)
    expected = records if magic else [r._replace(timestamp_ms=-1) for r in records]
    assert legacy.decode_message_set(data) == expected


@pytest.mark.parametrize("codec", LEGACY)
@few()
@given(records=record_lists(headers=st.just(())))
def test_message_sets_of_append_time(codec: Compression, records: list[Record]) -> None:
    data = legacy.encode_message_set(records, 1, codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    newest = max(r.timestamp_ms for r in records)
    assert legacy.decode_message_set(data) == [r._replace(timestamp_ms=newest) if codec else r for r in records]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.SNAPPY])  # it lacks a library
@few()
@given(records=record_lists(timestamps=near))
def test_kafka_python_reads_our_batches(codec: Compression, records: list[Record]) -> None:
    data = batch.encode_batch(records, base_offset=records[0].offset, compression=codec)
    [theirs] = list(iter(KafkaPythonRecords(data).next_batch, None))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@pytest.mark.parametrize("codec", Compression)
@few()
@given(records=record_lists(timestamps=near))
def test_aiokafka_reads_our_batches(codec: Compression, records: list[Record]) -> None:
    data = batch.encode_batch(records, base_offset=records[0].offset, compression=codec)
    theirs = AiokafkaBatch(bytearray(data))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(0, Compression.NONE), (1, Compression.NONE), (0, Compression.GZIP), (1, Compression.GZIP), (1, Compression.LZ4)],
)
@few()
@given(records=record_lists(headers=st.just(()), timestamps=near))
def test_kafka_python_reads_our_message_sets(magic: int, codec: Compression, records: list[Record]) -> None:
    reader = KafkaPythonRecords(legacy.encode_message_set(records, magic, codec))
    theirs = [r for part in iter(reader.next_batch, None) for r in part]
    expected = records if magic else [r._replace(timestamp_ms=None) for r in records]
    assert [Record(r.offset, r.timestamp, r.key, r.value) for r in theirs] == expected
