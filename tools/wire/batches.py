"""Record batches made byte by byte, so that a case can get any field wrong. CRC-32C comes from the package crc32c."""

from __future__ import annotations

import struct

from crc32c import crc32c

TIMESTAMP_MS = 1_700_000_000_000


def batch(
    values: list[bytes | None],
    *,
    key: bytes | None = b"k",
    base_offset: int = 0,
    magic: int = 2,
    attributes: int = 0,
    timestamp_ms: int = TIMESTAMP_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    crc_error: int = 0,
    count_error: int = 0,
    last_delta_error: int = 0,
    length_error: int = 0,
) -> bytes:
    """Return a v2 batch. Record i has the time `timestamp_ms + i`; `producer` is (id, epoch, sequence).

    Each *_error is added to the right value of its field.
    """
    body = b"".join(record(index, key, value) for index, value in enumerate(values))
    last = len(values) - 1
    after_crc = struct.pack(
        ">hiqqqhii",
        attributes,
        last + last_delta_error,
        timestamp_ms,
        timestamp_ms + last,
        *producer,
        len(values) + count_error,
    )
    crc = (crc32c(after_crc + body) + crc_error) & 0xFFFFFFFF
    length = 4 + 1 + 4 + len(after_crc) + len(body)
    return struct.pack(">qiibI", base_offset, length + length_error, -1, magic, crc) + after_crc + body


def record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00" + zigzag(delta) + zigzag(delta) + sized(key) + sized(value) + zigzag(0)
    return zigzag(len(body)) + body


def sized(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message_set(values: list[bytes], magic: int) -> bytes:
    """Return messages in the format before v2: magic 0, or 1 with timestamps."""
    from zlib import crc32

    out = b""
    for offset, value in enumerate(values):
        stamp = struct.pack(">q", TIMESTAMP_MS) if magic else b""
        body = (
            struct.pack(">bb", magic, 0) + stamp + struct.pack(">i", 1) + b"k" + struct.pack(">i", len(value)) + value
        )
        out += struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body
    return out
