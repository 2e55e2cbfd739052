"""Message sets of magic 0 and 1: wrappers, offsets, torn tails, damage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records import batch, legacy
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.errors import (
    CorruptBatch,
    CorruptCompression,
    CorruptCrc,
    DecompressionLimit,
    InvalidRecord,
    RecordError,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
)
from odradek.protocol.records.record import Record

RECORDS = [Record(i, 1_700_000_000_000 + i, b"key", b"value %d" % i) for i in range(5)]


def wrap(inner: bytes, *, magic: int = 1, offset: int = 4, codec: Compression = Compression.GZIP) -> bytes:
    """A wrapper round any bytes."""
    packed = compress(codec, inner)
    data = bytearray(legacy.encode_message_set([Record(offset, 7, None, packed)], magic))
    data[17] |= codec
    data[12:16] = legacy.crc32(bytes(data[16:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_a_torn_last_message_is_left_out(magic: int, codec: Compression) -> None:
    first = legacy.encode_message_set(RECORDS[:2], magic, codec)
    last = legacy.encode_message_set(RECORDS[2:3], magic, codec)
    for size in range(len(last)):
        assert len(legacy.decode_message_set(first + last[:size])) == 2
    assert len(legacy.decode_message_set(first + last)) == 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_each_flipped_bit_is_noticed_or_leaves_the_message_out(magic: int, codec: Compression) -> None:
    data = legacy.encode_message_set(RECORDS[:1], magic, codec)
    for bit in range(8 * 8, len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert legacy.decode_message_set(damaged) == [], "only a length beyond the end looks like a torn tail"
            assert bit < 12 * 8
        except (CorruptCrc, CorruptBatch, UnsupportedMagic):
            pass


def test_truncation_at_every_byte_of_a_single_message_is_noticed() -> None:
    data = legacy.encode_message_set(RECORDS[:1], 1)
    for size in range(len(data)):
        with pytest.raises(TruncatedBatch):
            legacy.read_message(data[:size])


def test_inner_offsets_count_from_the_wrapper_at_magic_1() -> None:
    inner = legacy.encode_message_set([Record(0), Record(3), Record(4)], 1)
    assert [r.offset for r in legacy.decode_message_set(wrap(inner, offset=104))] == [100, 103, 104]


def test_inner_offsets_stand_for_themselves_at_magic_0() -> None:
    inner = legacy.encode_message_set([Record(0), Record(3), Record(4)], 0)
    assert [r.offset for r in legacy.decode_message_set(wrap(inner, magic=0, offset=104))] == [0, 3, 4]


def test_a_producer_that_leaves_the_wrapper_at_0_is_understood() -> None:
    inner = legacy.encode_message_set(RECORDS, 1)
    assert [r.offset for r in legacy.decode_message_set(wrap(inner, offset=0))] == [0, 1, 2, 3, 4]


def test_a_wrapper_in_a_wrapper_is_refused() -> None:
    for codec in (Compression.NONE, Compression.GZIP):
        inner = legacy.encode_message_set(RECORDS, 1, codec)
        if codec:
            with pytest.raises(InvalidRecord):
                legacy.decode_message_set(wrap(inner))
        else:
            assert len(legacy.decode_message_set(wrap(inner))) == 5


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (wrap(b""), InvalidRecord),
        (wrap(legacy.encode_message_set(RECORDS, 0)), InvalidRecord),
        (wrap(legacy.encode_message_set(RECORDS, 1)[:-1]), TruncatedBatch),
        (wrap(batch.encode_batch(RECORDS)), UnsupportedMagic),
        (wrap(b"", codec=Compression.NONE).replace(b"\x01\x00", b"\x01\x01", 1), CorruptCrc),
        (batch.encode_batch(RECORDS), UnsupportedMagic),
    ],
)
def test_impossible_messages_are_rejected(data: bytes, error: type[RecordError]) -> None:
    with pytest.raises(error):
        legacy.decode_message_set(data)


@pytest.mark.parametrize("bits", [4, 5, 6, 7])
def test_codecs_that_came_later_are_refused(bits: int) -> None:
    data = bytearray(legacy.encode_message_set(RECORDS[:1], 1))
    data[17] |= bits
    data[12:16] = legacy.crc32(bytes(data[16:])).to_bytes(4, "big")
    with pytest.raises(UnsupportedCodec):
        legacy.decode_message_set(data)


def test_the_bound_covers_all_wrappers_together() -> None:
    one = legacy.encode_message_set([Record(value=bytes(60_000))], 1, Compression.GZIP)
    assert len(legacy.decode_message_set(one, limit=100_000)) == 1
    with pytest.raises(DecompressionLimit):
        legacy.decode_message_set(one + one, limit=100_000)


def test_magic_0_has_kafkas_lz4_checksum_and_reads_the_right_one_too() -> None:
    old = legacy.encode_message_set(RECORDS, 0, Compression.LZ4)
    [wrapper] = legacy.iter_messages(old)
    assert wrapper.value is not None
    with pytest.raises(CorruptCompression):
        legacy.decompress(Compression.LZ4, wrapper.value)
    mended = legacy.lz4_header_checksum(wrapper.value, broken=False)
    right = bytearray(old)
    right[-len(mended) :] = mended
    right[12:16] = legacy.crc32(bytes(right[16:])).to_bytes(4, "big")
    assert legacy.decode_message_set(right) == legacy.decode_message_set(old)
    assert [r.value for r in legacy.decode_message_set(old)] == [r.value for r in RECORDS]


def test_headers_are_left_out_as_the_format_has_none() -> None:
    data = legacy.encode_message_set([Record(0, 1, b"k", b"v", (("h", b"x"),))], 1)
    assert legacy.decode_message_set(data) == [Record(0, 1, b"k", b"v")]


@pytest.mark.parametrize(
    ("records", "magic", "codec", "error"),
    [
        ([], 1, Compression.GZIP, InvalidRecord),
        ([Record(3), Record(3)], 1, Compression.NONE, InvalidRecord),
        ([Record(timestamp_ms=-5)], 1, Compression.NONE, InvalidRecord),
        ([Record()], 2, Compression.NONE, UnsupportedMagic),
        ([Record()], 1, Compression.ZSTD, UnsupportedCodec),
    ],
)
def test_records_that_the_format_cannot_hold(
    records: list[Record], magic: int, codec: Compression, error: type[RecordError]
) -> None:
    with pytest.raises(error):
        legacy.encode_message_set(records, magic, codec)


def test_an_empty_set_is_empty() -> None:
    assert legacy.encode_message_set([], 1) == b""
    assert legacy.decode_message_set(b"") == []


@given(st.binary(max_size=60), st.integers(0, 1), st.integers(0, 7))
def test_any_body_decodes_or_raises_a_record_error(body: bytes, magic: int, attributes: int) -> None:
    message = bytes((magic, attributes)) + body
    data = bytes(8) + (len(message) + 4).to_bytes(4, "big") + legacy.crc32(message).to_bytes(4, "big") + message
    with contextlib.suppress(RecordError):
        legacy.decode_message_set(data)
