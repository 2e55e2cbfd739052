"""Record batches with any field wrong: a good one of `odradek.protocol`, changed, with a CRC of what it is then."""

from __future__ import annotations

import struct

from odradek.protocol.records import legacy
from odradek.protocol.records.batch import crc32c, encode_batch
from odradek.protocol.records.record import Record

TIMESTAMP_MS = 1_700_000_000_000
# The offsets of a batch's fields.
_LENGTH, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _TIMES, _COUNT, _RECORDS = 8, 16, 17, 21, 23, 27, 57, 61


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
    records = [Record(at, at, key, value) for at, value in enumerate(values or [b""])]
    names = ("producer_id", "producer_epoch", "base_sequence")
    data = bytearray(encode_batch(records, **dict(zip(names, producer, strict=True))))
    count = len(values)
    if not values:  # encode_batch makes none without records
        del data[_RECORDS:]
    length = len(data) - _LENGTH - 4
    for at, layout, *fields in (
        (0, ">q", base_offset),
        (_LENGTH, ">i", length + length_error),
        (_MAGIC, ">b", magic),
        (_ATTRIBUTES, ">h", attributes),
        (_LAST_DELTA, ">i", count - 1 + last_delta_error),
        (_TIMES, ">qq", timestamp_ms, timestamp_ms + count - 1),
        (_COUNT, ">i", count + count_error),
    ):
        struct.pack_into(layout, data, at, *fields)
    struct.pack_into(">I", data, _CRC, (crc32c(memoryview(data)[_ATTRIBUTES:]) + crc_error) & 0xFFFFFFFF)
    return bytes(data)


def message_set(values: list[bytes], magic: int) -> bytes:
    """Return messages in the format before v2: magic 0, or 1 with timestamps."""
    return legacy.encode_message_set([Record(at, TIMESTAMP_MS, b"k", each) for at, each in enumerate(values)], magic)
