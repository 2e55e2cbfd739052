"""The bytes of records that have only values, and the values of any records: both for millions of short lines.

The format is that of `record.py`. Encoding takes no step of Python per record: all that stands around a value follows
from its length and its place in the batch, so it comes out of tables. Decoding takes short records without keys and
headers apart by a regular expression, which is twice as fast as a loop; it skips what is not the value of all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from ...kernel import door
from .errors import InvalidRecord
from .record import Record, encode_records, encode_varint, read_long_varint

# Longer values gain nothing from tables: copying them is the work.
_LONGEST_IN_TABLES = 1024
# The offset deltas of one table have varints of one size.
_DELTAS = (range(64), range(64, 8192), range(8192, 1 << 16))
# More records than a batch of the usual sizes has.
MAX_VALUES = _DELTAS[-1].stop


def encode_values(values: Sequence[bytes]) -> bytes:
    """Return the records of these values, without keys, headers and differences in time. At least one value.

    Raises InvalidRecord for more than MAX_VALUES.
    """
    sizes = list(map(len, values))
    if len(values) > MAX_VALUES:
        raise InvalidRecord(f"{len(values)} values are too many for one batch")
    if max(sizes) > _LONGEST_IN_TABLES:
        return encode_records([Record(value=value, timestamp_ms=0) for value in values], 0, 0)[0]
    pieces: list[bytes] = []
    for size, deltas in enumerate(_DELTAS, 1):
        part = sizes[deltas.start : deltas.stop]
        if part:
            heads, lengths = _tables(size)
            numbers = _varints(size)[: len(part)]
            lines = values[deltas.start : deltas.stop]
            records = zip(map(heads.__getitem__, part), numbers, map(lengths.__getitem__, part), lines, strict=True)
            pieces.extend(chain.from_iterable(records))
    # Each head begins with the header count of the record before.
    return b"".join(pieces)[1:] + b"\0"


@lru_cache(maxsize=3)
def _tables(delta_bytes: int) -> tuple[list[bytes], list[bytes]]:
    """Return by size of the value what comes before the offset delta, and what lies between it and the value."""
    heads: list[bytes] = []
    lengths: list[bytes] = []
    for size in range(_LONGEST_IN_TABLES + 1):
        length = encode_varint(size)
        body = 2 + delta_bytes + 1 + len(length) + size + 1
        heads.append(b"\0" + encode_varint(body) + b"\0\0")
        lengths.append(encode_varint(-1) + length)
    return heads, lengths


@lru_cache(maxsize=3)
def _varints(size: int) -> list[bytes]:
    """Return the varints of this size that are not negative, put together from their bytes: the lowest comes first."""
    # Zigzag doubles a number, so its first byte has six bits of it, and the others seven.
    if size == 1:
        return [bytes((byte,)) for byte in range(0, 128, 2)]
    lowest = [bytes((byte,)) for byte in range(128, 256, 2)]
    highest = [bytes((byte,)) for byte in range(1, len(_DELTAS[size - 1]) // 64 // 128 ** (size - 2) + 1)]
    between = [bytes((byte,)) for byte in range(128, 256)]
    tails = highest if size == 2 else [middle + high for high in highest for middle in between]
    return [low + tail for tail in tails for low in lowest]


@lru_cache(maxsize=1)
def _short_records() -> re.Pattern[bytes]:
    """Return what matches a record of at most 63 bytes without key and headers. Its group is the value with its length.

    No part can match in two ways, so the time is linear whatever the bytes are.
    """
    varint = rb"[\x80-\xff]*+[\0-\x7f]"
    values = b"|".join(re.escape(encode_varint(size)) + b".{%d}" % size for size in range(64))
    return re.compile(rb"[\0-\x7f]\0" + varint + varint + rb"\x01(" + values + rb")\0", re.DOTALL)


def decode_values(data: bytes, count: int) -> list[bytes | None]:
    """Return the values of the `count` records that fill `data`. Raises InvalidRecord."""
    if door.compiled is not None and (found := door.compiled.decode_values(data, count)) is not None:
        return found
    parts = _short_records().split(data) if len(data) < 80 * count else [data]
    if len(parts) == 2 * count + 1 and not any(parts[::2]):
        return [value[1:] for value in parts[1::2]]
    return _decode_any(data, count)


def _decode_any(data: bytes, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    append, position = values.append, 0
    try:
        for _ in range(count):
            if (number := data[position]) < 0x80:
                position += 1
            elif (byte := data[position + 1]) < 0x80:
                number += (byte << 7) - 0x80
                position += 2
            else:
                number, position = read_long_varint(data, position)
            end = position + (number >> 1) if not number & 1 else -1
            position += 2
            while data[position - 1] >= 0x80:  # the last byte of the timestamp delta
                position += 1
            position += 1
            while data[position - 1] >= 0x80:  # the last byte of the offset delta
                position += 1
            if (number := data[position]) < 0x80:
                position += 1
            else:
                number, position = read_long_varint(data, position)
            if not number & 1:
                position += number >> 1
            if (number := data[position]) < 0x80:
                position += 1
            elif (byte := data[position + 1]) < 0x80:
                number += (byte << 7) - 0x80
                position += 2
            else:
                number, position = read_long_varint(data, position)
            if number & 1:
                append(None)
            else:
                append(data[position : (position := position + (number >> 1))])
            if position >= end:
                raise InvalidRecord("a record does not end where its length says")
            position = end
    except IndexError:
        position = -1
    if position != len(data):
        raise InvalidRecord(f"the {count} records do not fill the {len(data)} bytes of their batch")
    return values
