"""The v2 batch as a broker handles it: looked at, checked, patched in place, cut off, damaged."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import batch
from odradek.protocol.records.batch import BatchHeader, TimestampType
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import (
    CorruptBatch,
    CorruptCrc,
    DecompressionLimit,
    InvalidRecord,
    RecordError,
    TruncatedBatch,
    UnknownMagic,
    UnsupportedCodec,
    UnsupportedMagic,
)
from odradek.protocol.records.record import Record

RECORDS = [Record(i, 1_700_000_000_000 + i, b"key", b"value %d" % i, (("h", b"x"),)) for i in range(5)]


def header(**changes: int) -> BatchHeader:
    return batch.read_header(batch.encode_batch(RECORDS))._replace(**changes)


def rewrite(data: bytes, position: int, layout: str, *values: int) -> bytes:
    """`data` with something else at `position`, and the CRC made right again."""
    out = bytearray(data)
    struct.pack_into(layout, out, position, *values)
    struct.pack_into(">I", out, 17, batch.crc32c(memoryview(out)[21:]))
    return bytes(out)


# -- looking


def test_header_fields_in_wire_order() -> None:
    data = batch.encode_batch(
        RECORDS,
        compression=Compression.GZIP,
        producer_id=77,
        producer_epoch=2,
        base_sequence=9,
        partition_leader_epoch=4,
        transactional=True,
    )
    seen = batch.read_header(b"??" + data, 2)
    assert seen.size_bytes == len(data)
    assert (seen.base_offset, seen.last_offset, seen.next_offset, seen.record_count) == (0, 4, 5, 5)
    assert (seen.producer_id, seen.producer_epoch, seen.base_sequence, seen.last_sequence) == (77, 2, 9, 13)
    assert (seen.base_timestamp, seen.max_timestamp) == (1_700_000_000_000, 1_700_000_000_004)
    assert (seen.partition_leader_epoch, seen.magic, seen.compression) == (4, 2, Compression.GZIP)
    assert (seen.is_transactional, seen.is_control, seen.has_delete_horizon) == (True, False, False)
    assert seen.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-1, 5, -1)],
)
def test_the_last_sequence_wraps_as_javas(base: int, delta: int, last: int) -> None:
    assert header(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_a_header_can_be_read_without_its_records_but_not_from_less() -> None:
    data = batch.encode_batch(RECORDS)
    assert batch.read_header(data[:61]).size_bytes == len(data)
    for size in range(61):
        with pytest.raises(TruncatedBatch):
            batch.read_header(data[:size])


@pytest.mark.parametrize(
    ("magic", "error"),
    [(-1, UnknownMagic), (0, UnsupportedMagic), (1, UnsupportedMagic), (3, UnknownMagic), (127, UnknownMagic)],
)
def test_other_magics_are_refused(magic: int, error: type[RecordError]) -> None:
    data = bytearray(batch.encode_batch(RECORDS))
    data[16] = magic & 0xFF
    with pytest.raises(UnsupportedMagic) as caught:
        batch.read_header(data)
    assert type(caught.value) is error


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_an_impossible_length_is_rejected(length: int) -> None:
    data = rewrite(batch.encode_batch(RECORDS), 8, ">i", length)
    with pytest.raises(CorruptBatch):
        batch.read_header(data)
    if length < 14:
        with pytest.raises(CorruptBatch):
            batch.peek(data)


def test_peek_tells_size_and_magic_of_anything() -> None:
    data = batch.encode_batch(RECORDS, base_offset=0)
    assert batch.peek(b"-" + data, 1) == (0, len(data), 2)
    with pytest.raises(TruncatedBatch):
        batch.peek(data[:16])
    with pytest.raises(UnsupportedMagic):
        batch.peek(data[:16] + b"\x03")


def test_a_fetch_is_walked_batch_by_batch_and_its_torn_tail_is_left() -> None:
    parts = [batch.encode_batch(RECORDS[: n + 1]) for n in range(4)]
    fetched = b"".join(parts)
    starts = [0, len(parts[0]), len(parts[0]) + len(parts[1]), len(fetched) - len(parts[3])]
    for end in range(len(fetched) + 1):
        whole = [start for start, part in zip(starts, parts, strict=True) if start + len(part) <= end]
        assert [position for position, _ in batch.iter_headers(fetched[:end])] == whole
        assert [position for position, _ in batch.iter_headers(fetched, 0, end)] == whole
    assert [position for position, _ in batch.iter_headers(fetched, starts[2])] == starts[2:]


# -- checking


def test_each_flipped_bit_after_the_length_is_noticed() -> None:
    data = batch.encode_batch(RECORDS, compression=Compression.LZ4)
    for bit in range(16 * 8, len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UnsupportedMagic if bit // 8 == 16 else CorruptCrc):
            batch.decode_batch(damaged)


def test_each_flipped_bit_of_the_length_is_noticed() -> None:
    data = batch.encode_batch(RECORDS)
    for bit in range(8 * 8, 12 * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptBatch, TruncatedBatch)):
            batch.decode_batch(damaged)


@pytest.mark.parametrize("codec", Compression)
def test_truncation_at_every_byte_is_noticed(codec: Compression) -> None:
    data = batch.encode_batch(RECORDS, compression=codec)
    for size in range(len(data)):
        with pytest.raises(TruncatedBatch):
            batch.decode_batch(data[:size])
        with pytest.raises(TruncatedBatch):
            batch.decode_batch(data[:size], check=False)


@pytest.mark.parametrize("codec", Compression)
def test_records_cut_short_under_a_right_crc_are_noticed(codec: Compression) -> None:
    data = batch.encode_batch(RECORDS, compression=codec)
    for size in range(61, len(data)):
        with pytest.raises((InvalidRecord, CorruptBatch)):
            batch.decode_batch(rewrite(data[:size], 8, ">i", size - 12))


@given(st.binary(max_size=200), st.integers(0, 6), st.integers(0, 5))
def test_any_bytes_decode_or_raise_a_record_error(body: bytes, codec: int, count: int) -> None:
    data = batch.encode_batch([Record()])[:61] + body
    data = rewrite(rewrite(rewrite(data, 8, ">i", len(data) - 12), 21, ">h", codec), 57, ">i", count)
    try:
        batch.decode_batch(data, limit=1 << 20)
    except RecordError as error:
        assert isinstance(error.code, ErrorCode)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"base_offset": 1}, InvalidRecord),
        ({"last_offset_delta": -1}, InvalidRecord),
        ({"last_offset_delta": -1, "record_count": 0}, InvalidRecord),
        ({"record_count": 0}, InvalidRecord),
        ({"record_count": -5, "last_offset_delta": -6}, InvalidRecord),
        ({"record_count": 4}, InvalidRecord),
        ({"record_count": 6}, InvalidRecord),
        ({"attributes": 0x20}, InvalidRecord),
        ({"producer_id": 0}, InvalidRecord),
        ({"producer_id": 5, "base_sequence": -3}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCodec),
        ({"attributes": 7}, UnsupportedCodec),
    ],
)
def test_batches_that_a_broker_accepts_from_no_client(changes: dict[str, int], error: type[RecordError]) -> None:
    batch.check_shape(header())
    batch.check_shape(header(producer_id=0, producer_epoch=0, base_sequence=0))
    with pytest.raises(error):
        batch.check_shape(header(**changes))


def test_errors_carry_the_code_for_the_wire() -> None:
    assert InvalidRecord.code is TruncatedBatch.code is UnsupportedMagic.code is ErrorCode.INVALID_RECORD
    assert CorruptCrc.code is UnknownMagic.code is DecompressionLimit.code is ErrorCode.CORRUPT_MESSAGE
    assert UnsupportedCodec.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# -- changing in place


def test_assigning_an_offset_leaves_the_crc_right() -> None:
    data = bytearray(b"before" + batch.encode_batch(RECORDS) + b"after")
    known = batch.assign(data, 6, batch.read_header(data, 6), 2**40, 12)
    seen = batch.read_header(data, 6)
    assert known == seen and type(known) is BatchHeader
    assert (seen.base_offset, seen.partition_leader_epoch) == (2**40, 12)
    assert [r.offset for r in batch.decode_batch(data, 6)] == [2**40 + i for i in range(5)]
    assert data.startswith(b"before") and data.endswith(b"after")


def test_append_time_replaces_every_timestamp_and_can_be_taken_back() -> None:
    data = bytearray(batch.encode_batch(RECORDS, compression=Compression.ZSTD, transactional=True, producer_id=1))
    known = batch.set_max_timestamp(data, 0, batch.read_header(data), TimestampType.LOG_APPEND_TIME, 42)
    seen = batch.read_header(data)
    assert known == seen and type(known) is BatchHeader
    assert (seen.timestamp_type, seen.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 42)
    assert (seen.compression, seen.is_transactional) == (Compression.ZSTD, True)
    assert {r.timestamp_ms for r in batch.decode_batch(data)} == {42}
    seen = batch.set_max_timestamp(data, 0, seen, TimestampType.CREATE_TIME, 43)
    assert batch.decode_batch(data) == RECORDS
    with pytest.raises(TruncatedBatch):
        batch.set_max_timestamp(data[:-1], 0, seen, TimestampType.CREATE_TIME, 43)


# -- records


def test_offsets_are_given_out_where_records_have_none() -> None:
    data = batch.encode_batch([Record(), Record(offset=7), Record()], base_offset=3)
    assert [r.offset for r in batch.decode_batch(data)] == [3, 7, 8]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [Record(5), Record(5)],
        [Record(2)],
        [Record(timestamp_ms=-2)],
        [Record(timestamp_ms=2**63)],
        [Record(3), Record(3 + 2**31)],
        [Record(headers=(("\ud800", None),))],
    ],
)
def test_records_that_make_no_batch_are_refused(records: list[Record]) -> None:
    with pytest.raises(InvalidRecord):
        batch.encode_batch(records, base_offset=3)


def test_the_bound_on_decompression_holds() -> None:
    for codec in Compression:
        data = batch.encode_batch([Record(value=bytes(100_000))], compression=codec)
        if codec:
            with pytest.raises(DecompressionLimit):
                batch.decode_batch(data, limit=50_000)
        assert len(batch.decode_batch(data, limit=110_000)) == 1


def test_records_come_one_at_a_time_and_the_crc_is_checked_first() -> None:
    data = bytearray(batch.encode_batch(RECORDS))
    records = batch.iter_records(data)
    assert next(records) == RECORDS[0]
    data[-1] ^= 1
    with pytest.raises(CorruptCrc):
        batch.iter_records(data)


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    data = batch.encode_batch(RECORDS)[:61]
    assert batch.decode_batch(rewrite(rewrite(data, 8, ">i", 49), 57, ">i", 0)) == []


def test_header_keys_that_are_not_text_survive_being_written_again() -> None:
    data = batch.encode_batch([Record(0, 0, None, None, (("k\udcff", b"v"),))])
    assert b"k\xff" in data
    assert batch.encode_batch(batch.decode_batch(data)) == data


def counting(
    count: int, records: list[Record], compression: Compression = Compression.NONE
) -> tuple[bytes, BatchHeader]:
    """A batch whose header counts otherwise than it holds."""
    data = batch.encode_batch(records, compression=compression)
    return data, batch.read_header(data)._replace(record_count=count, last_offset_delta=count - 1)


SIZES = st.lists(st.integers(0, 300) | st.sampled_from([8_180, 16_500]), min_size=1, max_size=20)


@given(SIZES, st.integers(-3, 3))
def test_few_records_are_counted_and_many_must_have_room(sizes: list[int], error: int) -> None:
    data, header = counting(max(1, len(sizes) + error), [Record(value=b"v" * size) for size in sizes])
    is_wrong, is_walked = header.record_count != len(sizes), header.record_count <= batch.MAX_WALKED_RECORDS
    if is_wrong and (is_walked or header.record_count * 7 > len(data) - batch.HEADER_SIZE):
        with pytest.raises(InvalidRecord, match="records"):
            batch.check_body(data, 0, header)
    else:
        batch.check_body(data, 0, header)


@pytest.mark.parametrize("count", [19, 1_000, 2**31 - 1])
def test_records_without_room_are_rejected_however_many_they_are(count: int) -> None:
    data, header = counting(count, [Record(value=b"v")] * 16)
    with pytest.raises(InvalidRecord):
        batch.check_body(data, 0, header)


def test_the_records_of_a_compressed_batch_are_not_counted() -> None:
    data, header = counting(2, [Record(value=b"v")], Compression.GZIP)
    batch.check_body(data, 0, header)


@given(st.binary(min_size=7, max_size=200), st.integers(1, 16))
def test_any_body_passes_or_is_an_invalid_record(body: bytes, count: int) -> None:
    data, header = counting(count, [Record()])
    header = header._replace(batch_length=batch.HEADER_SIZE - batch.LOG_OVERHEAD + len(body))
    try:
        batch.check_body(data[: batch.HEADER_SIZE] + body, 0, header)
    except InvalidRecord:
        return
    assert count * 7 <= len(body)
