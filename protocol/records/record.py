"""A record, and its bytes inside a v2 batch.

    length varint | attributes int8 (unused) | timestamp delta varlong | offset delta varint
    key length varint (-1: null), key | value length varint (-1: null), value
    header count varint, then for each: key length varint, key (UTF-8) | value length varint (-1: null), value

All varints are zigzag (KIP-98). Encoding is in here, decoding in `columns.py`: both are one straight loop.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

from ...kernel import door
from .errors import InvalidRecord, RecordTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Headers = tuple[tuple[str, bytes | None], ...]

# A timestamp that was not given; also what records of magic 0 have.
NO_TIMESTAMP = -1
# The largest max.decompressed.message.bytes, which bounds nothing: no array of Java has more.
NO_SIZE_LIMIT = 2**31 - 9

_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1

# An upper bound of what a record adds to its key, value and headers: length 5, attributes 1, timestamp 10, offset 5,
# two lengths 5 each, header count 5; and two lengths of 5 for each header.
RECORD_OVERHEAD_BYTES = 36
# The smallest record: length, attributes, timestamp, offset, two lengths and header count take a byte each.
MIN_RECORD_BYTES = 7
HEADER_OVERHEAD_BYTES = 10


class Record(NamedTuple):
    """One record as users see it. `offset` is absolute; -1 means "the next one" where records are encoded."""

    offset: int = -1
    timestamp_ms: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


# A named tuple made without its Python-level constructor: half the time of `Record(...)`.
new_record = cast(
    "Callable[[type[Record], tuple[object, ...]], Record]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)


def size_upper_bound(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """Return how many bytes the record takes at most in a v2 batch, for accumulators that fill a batch to a size."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 3 * len(name) + (len(content) if content else 0)  # UTF-8: 3 bytes a code unit
    return size


def read_long_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return (the unsigned varint at `position`, the position after it)."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 63 or (shift == 63 and data[position] > 1):
            raise InvalidRecord(f"the varint that ends at byte {position} has more than 64 bits")


def record_ends(data: bytes | memoryview, position: int, count: int) -> list[int]:
    """Return where each of `count` records ends, the first of which is at `position`: a walk by their lengths alone.

    Raises InvalidRecord, IndexError. The last end may lie beyond the data.
    """
    ends: list[int] = []
    for _ in range(count):
        if (number := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            number += (byte << 7) - 0x80
            position += 2
        else:
            number, position = read_long_varint(data, position)
        if number & 1:
            raise InvalidRecord("a record has a negative length")
        position += number >> 1
        ends.append(position)
    return ends


def sized(records: Iterator[Record], data: bytes, most_bytes: int) -> Iterator[Record]:
    """Yield the records that `data` holds. Raises RecordTooLarge at one with more bytes behind its length."""
    position = 0
    for record in records:
        number, position = read_long_varint(data, position)
        if number >> 1 > most_bytes:
            raise _too_large(number >> 1, most_bytes)
        position += number >> 1
        yield record


def _too_large(size: int, most_bytes: int) -> RecordTooLarge:
    return RecordTooLarge(f"a record of {size} bytes: {most_bytes} is the most")


def check_sizes(data: bytes, count: int, most_bytes: int) -> None:
    """Raise RecordTooLarge where one of the first `count` records has more bytes behind its length; InvalidRecord."""
    position = 0
    try:
        for _ in range(count):
            number, position = read_long_varint(data, position)
            if number >> 1 > most_bytes:
                raise _too_large(number >> 1, most_bytes)
            position += number >> 1
    except IndexError as error:
        raise InvalidRecord("the records end before the batch says") from error


def decode_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """Return (the headers at `position`, the position after them). Raises InvalidRecord, IndexError."""
    number, position = read_long_varint(data, position)
    count = (number >> 1) ^ -(number & 1)
    # Each takes two bytes or more, so a count that the data cannot hold is refused before the loop.
    if not 0 <= count <= (len(data) - position) // 2:
        raise InvalidRecord(f"a record says that it has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        if (number := data[position]) < 0x80:
            position += 1
        else:
            number, position = read_long_varint(data, position)
        if number & 1:
            raise InvalidRecord("a record's header has no key")
        # surrogateescape keeps keys that are not UTF-8: they come out as they went in when a batch is written again.
        name = data[position : (position := position + (number >> 1))].decode("utf-8", "surrogateescape")
        if (number := data[position]) < 0x80:
            position += 1
        else:
            number, position = read_long_varint(data, position)
        if number & 1:
            headers.append((name, None))
        else:
            headers.append((name, data[position : (position := position + (number >> 1))]))
    if position > len(data):
        raise InvalidRecord(f"a record goes beyond the {len(data)} bytes of its batch")
    return tuple(headers), position


def encode_varint(number: int) -> bytes:
    """Return the zigzag varint of a signed 64-bit number; what is beyond wraps, as Java's differences do."""
    number = ((number + 2**63) & (2**64 - 1)) - 2**63
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_NULL = encode_varint(-1)


@lru_cache(maxsize=1)
def _short_varints() -> list[bytes]:
    """Return the varints of 0 to 8191: nearly all lengths and deltas of a batch. The first use takes 1 ms."""
    one = [bytes((number << 1,)) for number in range(64)]
    return one + [bytes((number << 1 & 0x7F | 0x80, number >> 6)) for number in range(64, 8192)]


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> tuple[bytes, int, int, int]:
    """Return (bytes, count, last offset delta, largest timestamp) of `records`, whose offsets must grow.

    An offset of -1 stands for the one after the record before (the first: `base_offset`). Raises InvalidRecord.
    """
    if door.compiled is not None:
        found = door.compiled.encode_records(records, base_offset, base_timestamp)
        if found is not None:
            return found
    out: list[bytes] = []
    append, join, small, varint = out.append, b"".join, _short_varints(), encode_varint
    zero, null, none = small[0], _NULL, b""
    count, delta, max_timestamp = 0, -1, NO_TIMESTAMP
    for offset, timestamp_ms, key, value, headers in records:
        count += 1
        if offset < 0:
            delta += 1
        elif offset - base_offset > delta:
            delta = offset - base_offset
        else:
            raise InvalidRecord(f"offset {offset} does not grow (base offset {base_offset})")
        if timestamp_ms > max_timestamp:
            max_timestamp = timestamp_ms
        elif timestamp_ms < NO_TIMESTAMP:
            raise InvalidRecord(f"timestamp {timestamp_ms} is negative")
        late = timestamp_ms - base_timestamp
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        body = join(
            (
                zero,  # attributes
                small[late] if 0 <= late < 8192 else varint(late),
                small[delta] if delta < 8192 else varint(delta),
                null if key_size < 0 else small[key_size] if key_size < 8192 else varint(key_size),
                key or none,
                null if value_size < 0 else small[value_size] if value_size < 8192 else varint(value_size),
                value or none,
                _encode_headers(headers, small) if headers else zero,
            )
        )
        size = len(body)
        append(small[size] if size < 8192 else varint(size))
        append(body)
    if max_timestamp > _MAX_INT64 or delta > _MAX_INT32:
        raise InvalidRecord(f"offset delta {delta} or timestamp {max_timestamp} does not fit the format")
    return join(out), count, delta, max_timestamp


def _encode_headers(headers: Headers, small: list[bytes]) -> bytes:
    out = [encode_varint(len(headers))]
    for name, content in headers:
        try:
            key = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"header key {name!r} is not text: {error.reason}") from error
        out.append(small[len(key)] if len(key) < 8192 else encode_varint(len(key)))
        out.append(key)
        if content is None:
            out.append(_NULL)
        else:
            out.append(small[len(content)] if len(content) < 8192 else encode_varint(len(content)))
            out.append(content)
    return b"".join(out)
