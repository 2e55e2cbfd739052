"""What is written is read again, by us and by other people's decoders: every magic, every codec, any records."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator

from aiokafka.record.default_records import _DefaultRecordBatchPy as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records import batch, legacy, record
from odradek.protocol.records.batch import TimestampType
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import compiled_kernel, records_by
from odradek.tests.support.seeds import examples

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its resources in an old way
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

binary = st.one_of(st.none(), st.binary(max_size=40), st.integers(60, 9000).map(lambda n: b"x" * n))
far = st.sampled_from([2**62, 2**63 - 1]) | st.integers(0, 2**63 - 1)
near = st.integers(1_700_000_000_000, 1_700_000_100_000)
anytime = st.just(-1) | near | far
headers = st.lists(st.tuples(st.text(max_size=6), binary), max_size=3).map(tuple)
LEGACY = [codec for codec in Compression if codec <= Compression.LZ4]
few = functools.partial(settings, max_examples=examples(180))


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


def batches(records: list[Record], codecs: Iterable[Compression]) -> Iterator[tuple[Compression, bytes]]:
    """Yield a batch of the records by each codec, which is the same by Python and by the kernel, where there is one."""
    for codec in codecs:
        with records_by("Python"):
            data = batch.encode_batch(records, base_offset=records[0].offset, compression=codec)
            assert batch.decode_batch(data) == records, codec
        if not isinstance(compiled_kernel(), str):
            with records_by("kernel"):
                assert data == batch.encode_batch(records, base_offset=records[0].offset, compression=codec), codec
                assert batch.decode_batch(data) == records, codec
        yield codec, data


@few()
@given(records=record_lists())
def test_v2(records: list[Record]) -> None:
    for codec, data in batches(records, Compression):
        header = batch.read_header(data)
        assert (header.size_bytes, header.record_count, header.compression) == (len(data), len(records), codec)
        assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
        assert header.max_timestamp == max(r.timestamp_ms for r in records)
        assert len(data) <= batch.HEADER_SIZE + 64 + sum(record.size_upper_bound(*r[2:]) for r in records)


@few()
@given(records=record_lists(headers=st.just(())))
def test_message_sets(records: list[Record]) -> None:
    without_times = [r._replace(timestamp_ms=-1) for r in records]
    newest = max(r.timestamp_ms for r in records)
    at_append = [r._replace(timestamp_ms=newest) for r in records]
    for codec in LEGACY:
        for magic, expected in ((0, without_times), (1, records)):
            data = legacy.encode_message_set(records, magic, codec)
            assert (magic, codec, legacy.decode_message_set(data)) == (magic, codec, expected)
        data = legacy.encode_message_set(records, 1, codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
        assert (codec, legacy.decode_message_set(data)) == (codec, at_append if codec else records)


@few()
@given(records=record_lists(timestamps=near))
def test_others_read_our_batches(records: list[Record]) -> None:
    for codec, data in batches(records, Compression):
        theirs = [AiokafkaBatch(bytearray(data))]
        if codec is not Compression.SNAPPY:  # kafka-python lacks a library
            theirs += iter(KafkaPythonRecords(data).next_batch, None)
            assert len(theirs) == 2
        for each in theirs:
            assert each.validate_crc()
            assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in each] == records, codec


@few()
@given(records=record_lists(headers=st.just(()), timestamps=near))
def test_kafka_python_reads_our_message_sets(records: list[Record]) -> None:
    without_times = [r._replace(timestamp_ms=None) for r in records]
    # It reads no LZ4 of magic 0, whose frames have another checksum, and it lacks a library for Snappy.
    codecs = {0: (Compression.NONE, Compression.GZIP), 1: (Compression.NONE, Compression.GZIP, Compression.LZ4)}
    for magic, expected in ((0, without_times), (1, records)):
        for codec in codecs[magic]:
            reader = KafkaPythonRecords(legacy.encode_message_set(records, magic, codec))
            theirs = [r for part in iter(reader.next_batch, None) for r in part]
            found = [Record(r.offset, r.timestamp, r.key, r.value) for r in theirs]
            assert (magic, codec, found) == (magic, codec, expected)
