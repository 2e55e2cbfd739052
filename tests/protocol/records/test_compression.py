"""The codecs: both ways, bounded, and never anything but a typed error for broken data."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import subprocess
import sys
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.records import compression
from odradek.protocol.records.compression import (
    GZIP_FEED_BYTES,
    Compression,
    begins_as,
    compress,
    decompress,
    exceeds,
    lz4_header_checksum,
    xxh32,
)
from odradek.protocol.records.errors import CorruptCompression, DecompressionLimit, RecordError, UnsupportedCodec
from odradek.tests.support.seeds import examples

CODECS = [codec for codec in Compression if codec]
SAMPLES = [b"", b"a", b"hello " * 30_000, bytes(range(256)) * 300]


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert isinstance(packed, bytes)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed)) == data
    assert decompress(codec, packed, limit=len(data)) == data


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=100))
def test_what_a_codec_writes_begins_as_that_codec(codec: Compression, data: bytes) -> None:
    assert begins_as(codec, compress(codec, data))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_what_no_codec_wrote_begins_as_none_but_snappy(codec: Compression) -> None:
    others = [compress(other, b"data") for other in CODECS if other is not codec]
    for head in (b"", b"\x1f", b"\x04\x22\x4d", b"plain", *others):
        assert not begins_as(codec, head)
        assert begins_as(Compression.SNAPPY, head)


def test_a_zstd_stream_may_begin_with_a_frame_to_skip() -> None:
    assert begins_as(Compression.ZSTD, b"\x5a\x2a\x4d\x18" + compress(Compression.ZSTD, b"data"))
    assert not begins_as(Compression.ZSTD, b"\x6a\x2a\x4d\x18")


@pytest.mark.parametrize(("codec", "low", "high"), [(1, 1, 9), (3, 1, 12), (4, 1, 9)])
def test_levels_are_the_codecs_own(codec: int, low: int, high: int) -> None:
    words = [b"%x" % (n * n) for n in range(500)]
    data = b" ".join(random.Random(7).choices(words, k=20_000))
    quick, small = compress(codec, data, low), compress(codec, data, high)
    assert len(small) < len(quick) < len(data)
    assert decompress(codec, quick) == decompress(codec, small) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_stops_at_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(40_000_000))
    with pytest.raises(DecompressionLimit):
        decompress(codec, bomb, limit=1_000_000)


def test_a_zstd_bomb_without_a_size_in_its_header_stops_too() -> None:
    stream = zstandard.ZstdCompressor(level=19).compressobj()
    bomb = stream.compress(bytes(40_000_000)) + stream.flush()
    with pytest.raises(DecompressionLimit):
        decompress(Compression.ZSTD, bomb, limit=1_000_000)


def test_a_snappy_block_that_promises_too_much_allocates_nothing() -> None:
    with pytest.raises(DecompressionLimit):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(10))


@pytest.mark.parametrize("codec", CODECS)
def test_truncation_at_every_byte_is_noticed(codec: Compression) -> None:
    packed = compress(codec, b"some data, " * 3 + bytes(range(100)))
    whole = decompress(codec, packed)
    for size in range(len(packed)):
        try:
            short = decompress(codec, packed[:size])
        except CorruptCompression:
            continue
        # Snappy's framing has no end mark: whole blocks alone are a whole, shorter stream.
        assert codec is Compression.SNAPPY and short != whole


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(60))
@given(data=st.binary(max_size=60), at=st.integers(0, 200), flip=st.integers(1, 255))
def test_broken_data_raises_nothing_but_a_record_error(codec: Compression, data: bytes, at: int, flip: int) -> None:
    damaged = bytearray(compress(codec, data))
    damaged[at % len(damaged)] ^= flip
    for broken in (bytes(damaged), data):
        with contextlib.suppress(RecordError):
            decompress(codec, broken, limit=10_000)


@pytest.mark.parametrize("codec", CODECS)
def test_threads_do_not_share_a_codecs_state(codec: Compression) -> None:
    samples = [bytes([n]) * 50_000 + random.Random(n).randbytes(50_000) for n in range(8)]

    def there_and_back(data: bytes) -> bool:
        return all(decompress(codec, compress(codec, data, level)) == data for level in (1, 2, 3, 4, 5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, samples))


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    with pytest.raises(UnsupportedCodec):
        compress(codec, b"")
    with pytest.raises(UnsupportedCodec):
        decompress(codec, b"")


# -- what other writers make of the formats


def test_snappy_is_written_as_java_does_and_read_in_either_framing() -> None:
    data = b"0123456789" * 10_000
    framed = compress(Compression.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    (first,) = struct.unpack_from(">i", framed, 16)
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + first]) == 32 * 1024
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_streams_one_after_the_other_are_one() -> None:
    assert (
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"a") + compress(Compression.SNAPPY, b"b")) == b"ab"
    )
    assert decompress(Compression.GZIP, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    frames = zstandard.compress(b"a" * 5000) + zstandard.compress(b"b" * 5000)
    assert decompress(Compression.ZSTD, frames) == b"a" * 5000 + b"b" * 5000


def test_lz4_frames_have_independent_blocks_of_64_kib_and_no_content_size() -> None:
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, bytes(100)))
    assert (info["block_linked"], info["content_size"], info["block_size"]) == (False, 0, 65536)


def test_lz4_of_other_settings_is_read() -> None:
    data = b"abc" * 100_000
    for linked in (False, True):
        packed = lz4.frame.compress(data, block_linked=linked, store_size=True, content_checksum=True)
        assert decompress(Compression.LZ4, packed) == data


@pytest.mark.parametrize("level", [None, 1, 3, 9, 12, 17])
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_other_people_read_lz4_of_every_level(level: int | None, data: bytes) -> None:
    assert lz4.frame.decompress(compress(Compression.LZ4, data, level)) == data


def test_lz4_at_a_high_level_is_smaller() -> None:
    text = b"".join(b'{"id": %d, "name": "n%d"}' % (each, each * 7919 % 1000) for each in range(5000))
    assert len(compress(Compression.LZ4, text, 9)) < 0.9 * len(compress(Compression.LZ4, text, 1))


def test_what_follows_an_lz4_frame_is_not_part_of_it() -> None:
    for checksum in (False, True):
        frame = lz4.frame.compress(b"hello " * 30_000, content_checksum=checksum, block_checksum=checksum)
        assert decompress(Compression.LZ4, frame + b"rest") == b"hello " * 30_000
        assert decompress(Compression.LZ4, frame + frame) == b"hello " * 30_000


@given(cut=st.integers(0, 200), flipped=st.integers(0, 2000))
def test_a_damaged_lz4_frame_is_corrupt_or_within_its_limit(cut: int, flipped: int) -> None:
    frame = bytearray(compress(Compression.LZ4, b"hello " * 30_000))
    frame[flipped // 8 % len(frame)] ^= 1 << flipped % 8
    for damaged in (bytes(frame), bytes(frame[:cut])):
        with contextlib.suppress(CorruptCompression, DecompressionLimit):
            assert len(decompress(Compression.LZ4, damaged, limit=200_000)) <= 200_000


def test_pythons_own_zstd_serves_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", own)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    compression._contexts.cache_clear()
    try:
        for data in SAMPLES:
            for level in (None, -5, 19):
                packed = compress(Compression.ZSTD, data, level)
                assert decompress(Compression.ZSTD, packed + packed, limit=2 * len(data)) == data + data
            with pytest.raises(DecompressionLimit):
                decompress(Compression.ZSTD, packed + packed, limit=len(data) - 1 if data else -1)
        with pytest.raises(CorruptCompression, match="zstd"):
            decompress(Compression.ZSTD, packed[:-1])
        with pytest.raises(CorruptCompression, match="zstd"):
            decompress(Compression.ZSTD, b"nothing of the kind")
    finally:
        compression._contexts.cache_clear()


@pytest.mark.parametrize("store_size", [False, True])
def test_the_lz4_header_checksum_is_broken_and_mended(store_size: bool) -> None:
    frame = lz4.frame.compress(b"hello", store_size=store_size)
    broken = lz4_header_checksum(frame, broken=True)
    assert broken != frame
    with pytest.raises(CorruptCompression):
        decompress(Compression.LZ4, broken)
    assert lz4_header_checksum(broken, broken=False) == frame
    for short in (b"", b"\x04\x22\x4d\x18", b"hello hello", frame[: 14 if store_size else 6]):
        with pytest.raises(CorruptCompression):
            lz4_header_checksum(short, broken=False)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_known_values(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


def test_no_codec_library_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys; from odradek.protocol.records import batch, legacy, control;"
        "batch.decode_batch(batch.encode_batch([batch.Record()]));"
        "assert not {'cramjam', 'lz4', 'zstandard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_time_for_a_gzip_of_many_members_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    copied_bytes = 0
    make = zlib.decompressobj

    class Counting:
        """A decompressor that counts what it copies: a piece that it is fed, and what is left of the piece."""

        def __init__(self, *args: int) -> None:
            self._stream = make(*args)

        def decompress(self, data: bytes, limit: int) -> bytes:
            nonlocal copied_bytes
            piece = self._stream.decompress(data, limit)
            copied_bytes += len(data) + len(self._stream.unused_data)
            return piece

        @property
        def eof(self) -> bool:
            return self._stream.eof

        @property
        def unused_data(self) -> bytes:
            return self._stream.unused_data

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    members = gzip.compress(b"") * 5_000 + gzip.compress(bytes(100_000))
    assert decompress(Compression.GZIP, members) == bytes(100_000)
    assert copied_bytes <= 5_001 * 2 * GZIP_FEED_BYTES


@pytest.mark.parametrize("codec", CODECS)
def test_whether_data_exceeds_a_limit_is_found_without_decompressing_all_of_it(codec: Compression) -> None:
    data = compress(codec, bytes(10_000_000))
    tracemalloc.start()
    try:
        assert exceeds(codec, data, 64 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert not exceeds(codec, data, 10_000_000)
    assert not exceeds(codec, data[:-4], 10_000_000)
