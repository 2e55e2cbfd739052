"""The four codecs of Kafka, on whole buffers: gzip, snappy in Java's (xerial) framing, LZ4 frames, zstd.

Every decompression is bounded: it stops with `DecompressionLimit` as soon as the output passes `limit`, whatever a
header promises, so a few hundred bytes from the network cannot become gigabytes. Broken data is `CorruptCompression`,
never a codec's own exception. Libraries are imported at first use: a broker that only passes batches on loads none.

xxHash32 is the checksum in the header of an LZ4 frame, to mend or to keep KAFKA-3160's mistake. cramjam checks headers
but lends its hash to nobody. Headers have at most 18 bytes with the magic number, so this needs no speed; 16 bytes and
more (a header with content size and dictionary id) take the four-lane loop.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from functools import lru_cache, partial
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import CorruptCompression, DecompressionLimit, UnsupportedCodec

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

# The default bound of one batch, decompressed. Kafka sets none; the largest request that a default broker accepts is
# 100 MiB (socket.request.max.bytes), and a batch that grows well beyond that is an attack or a mistake.
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

# How much the streaming zstd decoder is fed at a time. Four bytes can repeat one byte over a block of 128 KiB, so this
# many can overshoot `limit` by 32 MiB at worst before it is looked at. A small limit is fed less at a time.
ZSTD_FEED_BYTES = 1024
_ZSTD_BLOCK_BYTES = 128 * 1024
_ZSTD_LEAST_FEED_BYTES = 16

# The first piece that a gzip member is fed; each next one is twice as long. The decoder copies what is left of a piece
# when a member ends, so this bounds the copying for a stream of very many short members.
GZIP_FEED_BYTES = 512

# zstd's own default level, and how many compression contexts a thread keeps: nobody mixes more levels than that.
ZSTD_LEVEL = 3
MAX_KEPT_COMPRESSORS = 8

# Java's SnappyOutputStream starts each stream with this magic, version 1 and compatible version 1, then blocks of
# (int32 length, raw snappy). librdkafka and Go clients send either this or one raw block.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024

LZ4_MAGIC = b"\x04\x22\x4d\x18"
# A frame of independent blocks of at most 64 KiB, without checksums and content size, and the checksum of these flags.
# Java reads independent blocks only, and older clients know no content size.
LZ4_HEADER = LZ4_MAGIC + b"\x60\x40\x82"
LZ4_BLOCK_BYTES = 64 * 1024
# In the length of a block: the block is stored as it is.
_LZ4_STORED = 1 << 31
# Levels below these are one fast way of compressing; those above the highest are the highest.
_LZ4_FIRST_HIGH_LEVEL, _LZ4_HIGHEST_LEVEL = 3, 12
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A zstd stream may begin with frames to skip: 0x5? in front of these.
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"


class Compression(IntEnum):
    """The codec in bits 0-2 of the attributes of a batch or a legacy message."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed; `level` is the codec's own scale (None: its default; snappy has no levels)."""
    return _codec(codec)[0](data, level)


def decompress(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return `data` decompressed, at most `limit` bytes.

    Raises UnsupportedCodec, CorruptCompression, or DecompressionLimit.
    """
    return _codec(codec)[1](data, limit)


def exceeds(codec: int, data: Buffer, limit: int) -> bool:
    """Return whether `data` decompresses to more than `limit` bytes. Broken data does not.

    Finding out costs no more than decompressing `limit` bytes (with zstd, 512 KiB more).
    """
    try:
        decompress(codec, data, limit)
    except DecompressionLimit:
        return True
    except (CorruptCompression, UnsupportedCodec):
        return False
    return False


def begins_as(codec: int, head: bytes | memoryview) -> bool:
    """Return whether data that begin with `head` (four bytes) may be of this codec. Raw snappy may begin with any."""
    head = bytes(head[:4])
    match codec:
        case Compression.GZIP:
            return head[:2] == GZIP_MAGIC
        case Compression.LZ4:
            return head == LZ4_MAGIC
        case Compression.ZSTD:
            return head == ZSTD_MAGIC or (head[1:] == ZSTD_SKIPPABLE and head[0] >> 4 == 5)
        case _:
            return True


def _codec(codec: int) -> tuple[Callable[[Buffer, int | None], bytes], Callable[[Buffer, int], bytes]]:
    try:
        return _CODECS[codec]
    except KeyError:
        raise UnsupportedCodec(f"compression codec {codec} does not exist") from None


@lru_cache(maxsize=2)
def _cramjam(codec: str) -> Any:
    return getattr(import_module("cramjam"), codec)


def _check_limit(size: int, limit: int) -> None:
    if size > limit:
        raise DecompressionLimit(f"decompresses to more than {limit} bytes")


# -- none ------------------------------------------------------------------------------------------


def _as_it_is(data: Buffer, _: int | None) -> bytes:
    return bytes(data)


# -- gzip ------------------------------------------------------------------------------------------


def _gzip_compress(data: Buffer, level: int | None) -> bytes:
    stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return stream.compress(data) + stream.flush()


def _gzip_decompress(data: Buffer, limit: int) -> bytes:
    """Decompress one member or more. The time is linear in the bytes, however many members they are."""
    view = memoryview(data)
    pieces: list[bytes] = []
    total, position, end = 0, 0, len(view)
    stream, feed = zlib.decompressobj(31), GZIP_FEED_BYTES
    try:
        while position < end:
            fed = view[position : position + feed]
            piece = stream.decompress(fed, limit - total + 1)
            total += len(piece)
            _check_limit(total, limit)
            if piece:
                pieces.append(piece)
            position += len(fed)
            feed *= 2
            if stream.eof:
                position -= len(stream.unused_data)
                if position < end:
                    stream, feed = zlib.decompressobj(31), GZIP_FEED_BYTES
    except zlib.error as error:
        raise CorruptCompression(f"gzip: {error}") from error
    if not stream.eof:
        raise CorruptCompression("gzip stream ends early")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# -- snappy ----------------------------------------------------------------------------------------


def _snappy_compress(data: Buffer, level: int | None) -> bytes:
    raw = _cramjam("snappy").compress_raw
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(raw(view[start : start + XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _snappy_decompress(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(view, limit)
    pieces: list[bytes] = []
    total, position, end = 0, len(XERIAL_HEADER), len(view)
    while position < end:
        if bytes(view[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:  # streams one after the other are one
            position += len(XERIAL_HEADER)
            continue
        length = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if not 0 < length <= end - position:
            raise CorruptCompression(f"snappy block of {length} bytes where {max(end - position, 0)} are left")
        piece = _snappy_block(view[position : position + length], limit - total)
        total += len(piece)
        pieces.append(piece)
        position += length
    if position != end:
        raise CorruptCompression("snappy stream ends inside its header")
    return b"".join(pieces)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    """Decompress one raw block. Its length stands in front, so the bound is checked before anything is allocated."""
    snappy = _cramjam("snappy")
    try:
        size: int = snappy.decompress_raw_len(block)
        _check_limit(size, limit)
        return bytes(snappy.decompress_raw(block, output_len=size))
    except DecompressionLimit:
        raise
    except Exception as error:
        raise CorruptCompression(f"snappy: {error}") from error


# -- lz4 -------------------------------------------------------------------------------------------


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    if level is not None and level >= _LZ4_FIRST_HIGH_LEVEL:
        # cramjam's blocks have no levels. Its frames have, with a checksum in each block.
        stream = _cramjam("lz4").Compressor(min(level, _LZ4_HIGHEST_LEVEL), content_checksum=False, block_linked=False)
        stream.compress(data)
        return bytes(stream.finish())
    compress_block, view = _cramjam("lz4").compress_block, memoryview(data)
    pieces: list[Buffer] = [LZ4_HEADER]
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        raw = view[start : start + LZ4_BLOCK_BYTES]
        packed = compress_block(raw, store_size=False)
        if len(packed) < len(raw):
            pieces += len(packed).to_bytes(4, "little"), packed
        else:
            pieces += (len(raw) | _LZ4_STORED).to_bytes(4, "little"), raw
    pieces.append(bytes(4))
    return b"".join(pieces)


def _lz4_decompress(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    end, most = _lz4_frame(view)
    out = bytearray(min(most, limit + 1))
    try:
        size: int = _cramjam("lz4").decompress_into(view[:end], out)
    except Exception as error:
        # The buffer is too small only for what passes the limit: more than `most` bytes no valid frame has.
        if most > limit and "whole buffer" in str(error):
            raise DecompressionLimit(f"decompresses to more than {limit} bytes") from None
        raise CorruptCompression(f"lz4: {error}") from error
    _check_limit(size, limit)
    return bytes(memoryview(out)[:size])


def _lz4_frame(view: memoryview) -> tuple[int, int]:
    """Return where the frame ends that begins here, and the most bytes that its blocks can hold."""
    if len(view) < len(LZ4_HEADER) or bytes(view[: len(LZ4_MAGIC)]) != LZ4_MAGIC:
        raise CorruptCompression("lz4: no frame begins here")
    flags, most = view[4], 0
    block_bytes = 1 << 8 + 2 * (view[5] >> 4 & 7)
    # Bit 3: a content size of 8 bytes. Bit 0: a dictionary id of 4. Bits 4 and 2: checksums of blocks and of it all.
    position = 7 + (flags & 0x08) + 4 * (flags & 1)
    while length := int.from_bytes(view[position : position + 4], "little"):
        position += 4 + (length & ~_LZ4_STORED) + (flags & 0x10) // 4
        most += block_bytes
    position += 4 + (flags & 0x04)
    if position > len(view):
        raise CorruptCompression("lz4 frame ends early")
    return position, most


def lz4_header_checksum(data: Buffer, *, broken: bool) -> bytearray:
    """Return the LZ4 frame `data` with its header checksum made right, or made wrong in the way of magic 0.

    Kafka up to 0.9 computed the checksum over the frame's magic number too (KAFKA-3160). Message sets of magic 0 keep
    that mistake for ever: they are written with it for old readers, and read with any checksum.
    """
    frame = bytearray(data)
    if len(frame) < 7 or not frame.startswith(LZ4_MAGIC):
        raise CorruptCompression("not an LZ4 frame")
    # FLG's bit 3 says that 8 bytes of content size follow BD, bit 0 that 4 bytes of a dictionary id do.
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    if len(frame) <= end:
        raise CorruptCompression("lz4 frame ends early")
    frame[end] = xxh32(bytes(frame[0 if broken else 4 : end])) >> 8 & 0xFF
    return frame


# -- zstd ------------------------------------------------------------------------------------------


class _Zstd(NamedTuple):
    """What a library of zstd offers."""

    # Level -> what compresses into one frame.
    compressor: Callable[[int], Callable[[Buffer], bytes]]
    # A new decompressor of one frame.
    stream: Callable[[], Any]
    error: type[Exception]


def _zstd() -> _Zstd:
    """Return Python's own zstd, which 3.14 brings, or that of the package zstandard."""
    library: Any
    try:
        library = import_module("compression.zstd")
    except ModuleNotFoundError:
        library = import_module("zstandard")

        def compressor(level: int) -> Callable[[Buffer], bytes]:
            return library.ZstdCompressor(level=level).compress

        return _Zstd(compressor, library.ZstdDecompressor().decompressobj, library.ZstdError)

    def own_compressor(level: int) -> Callable[[Buffer], bytes]:
        return partial(library.ZstdCompressor(level).compress, mode=library.ZstdCompressor.FLUSH_FRAME)

    return _Zstd(own_compressor, library.ZstdDecompressor, library.ZstdError)


class _Contexts(local):
    """zstd's kept contexts, of each thread its own: two threads in one context corrupt memory (the lock is let go)."""

    def __init__(self) -> None:
        self.zstd = _zstd()
        # Invariant: by level, at most MAX_KEPT_COMPRESSORS.
        self.compressors: dict[int, Callable[[Buffer], bytes]] = {}


@lru_cache(maxsize=1)
def _contexts() -> _Contexts:
    return _Contexts()


def _zstd_compress(data: Buffer, level: int | None) -> bytes:
    level = ZSTD_LEVEL if level is None else level
    compressors = _contexts().compressors
    if level not in compressors:
        if len(compressors) == MAX_KEPT_COMPRESSORS:
            compressors.clear()
        compressors[level] = _contexts().zstd.compressor(level)
    return compressors[level](data)


def _zstd_decompress(data: Buffer, limit: int) -> bytes:
    """Decompress one or more frames, as streams: producers leave the content size out, and it is never trusted."""
    view = memoryview(data)
    zstd = _contexts().zstd
    stream = zstd.stream()
    pieces: list[bytes] = []
    total, position = 0, 0
    feed = min(ZSTD_FEED_BYTES, max(_ZSTD_LEAST_FEED_BYTES, 4 * limit // _ZSTD_BLOCK_BYTES))
    try:
        while position < len(view):
            piece: bytes = stream.decompress(view[position : position + feed])
            position += feed
            total += len(piece)
            _check_limit(total, limit)
            pieces.append(piece)
            if stream.eof:
                position = min(position, len(view)) - len(stream.unused_data)
                if position < len(view):
                    stream = zstd.stream()
    except zstd.error as error:
        raise CorruptCompression(f"zstd: {error}") from error
    if not stream.eof:
        raise CorruptCompression("zstd frame ends early")
    return b"".join(pieces)


_CODECS: dict[int, tuple[Callable[[Buffer, int | None], bytes], Callable[[Buffer, int], bytes]]] = {
    Compression.NONE: (_as_it_is, _as_it_is),
    Compression.GZIP: (_gzip_compress, _gzip_decompress),
    Compression.SNAPPY: (_snappy_compress, _snappy_decompress),
    Compression.LZ4: (_lz4_compress, _lz4_decompress),
    Compression.ZSTD: (_zstd_compress, _zstd_decompress),
}


_PRIME_1 = 2654435761
_PRIME_2 = 2246822519
_PRIME_3 = 3266489917
_PRIME_4 = 668265263
_PRIME_5 = 374761393
_MASK = 0xFFFFFFFF


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK


def xxh32(data: bytes) -> int:
    """Return the unsigned xxHash32, seed 0, of `data`."""
    position = 0
    if len(data) >= 16:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate((lanes[lane] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
                position += 4
        total = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = _PRIME_5
    total = (total + len(data)) & _MASK
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        total = _rotate((total + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        position += 4
    for byte in data[position:]:
        total = _rotate((total + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    total = (total ^ total >> 15) * _PRIME_2 & _MASK
    total = (total ^ total >> 13) * _PRIME_3 & _MASK
    return total ^ total >> 16
