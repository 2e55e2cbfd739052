"""A v2 batch with some of its records left out: what compaction writes in the place of the batch that it read.

Base offset, last offset delta, producer, sequence and leader epoch stay, so that no offset changes and a producer is
remembered by its last batch even when no record of it is left (a batch of 0 records, Kafka's too). Records that stay
keep their bytes, for nothing in them counts from anything that changes; only a delete horizon (KIP-534: bit 6, the base
timestamp is when the tombstones may go) has their timestamp deltas written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .batch import HEADER_SIZE, BatchHeader, TimestampType, with_body
from .compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from .errors import InvalidRecord
from .record import NO_TIMESTAMP, encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DELETE_HORIZON = 0x40


class Part(NamedTuple):
    """A record where it lies in its batch's decompressed body."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    has_value: bool  # Invariant: False for a tombstone
    start: int  # where its length begins
    rest: int  # where its offset delta begins, behind the timestamp's
    end: int


def body_of(batch: memoryview, header: BatchHeader, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the records' bytes of a whole batch, decompressed. Raises RecordError."""
    return decompress(header.compression, batch[HEADER_SIZE : header.size_bytes], limit)


def iter_parts(body: bytes, header: BatchHeader) -> Iterator[Part]:
    """Yield where each record lies in `body`; of its content only the key is copied. Raises InvalidRecord."""
    position, base_offset, base_timestamp = 0, header.base_offset, header.base_timestamp
    try:
        for _ in range(header.record_count):
            # Most varints are one byte: those cost no call.
            start = position
            number, position = body[position], position + 1
            if number > 0x7F:
                number, position = _varint(body, start)
            end = position + (number >> 1)
            position += 1  # behind the attributes, which nothing uses
            late, rest = body[position], position + 1
            if late > 0x7F:
                late, rest = _varint(body, position)
            delta, position = body[rest], rest + 1
            if delta > 0x7F:
                delta, position = _varint(body, rest)
            size, behind = body[position], position + 1
            if size > 0x7F:
                size, behind = _varint(body, position)
            position = behind
            key = None if size & 1 else body[position : (position := position + (size >> 1))]
            size = body[position]
            if number & 1 or end > len(body) or position >= end:
                raise InvalidRecord(f"a record of the batch at offset {base_offset} does not end where its length says")
            timestamp_ms = base_timestamp + ((late >> 1) ^ -(late & 1))
            yield Part(base_offset + (delta >> 1), timestamp_ms, key, not size & 1, start, rest, end)
            position = end
    except IndexError:
        raise InvalidRecord(f"a record goes beyond the {len(body)} bytes of its batch") from None
    if position != len(body):
        raise InvalidRecord(f"{len(body) - position} bytes are left after the {header.record_count} records of a batch")


def with_parts(
    header: BatchHeader, body: bytes, parts: Sequence[Part], delete_horizon_ms: int | None = None
) -> bytearray:
    """Return the batch with these of its records only: one at least, in order.

    `delete_horizon_ms`: when its tombstones may go, from now on; a batch that says so already keeps what it says.
    """
    if header.timestamp_type is TimestampType.CREATE_TIME:
        header = header._replace(max_timestamp=max(part.timestamp_ms for part in parts))
    if delete_horizon_ms is None:
        kept = b"".join([body[part.start : part.end] for part in parts])
    else:
        kept = b"".join([_rebased(body, part, delete_horizon_ms) for part in parts])
        attributes = header.attributes | _DELETE_HORIZON
        header = header._replace(attributes=attributes, base_timestamp=delete_horizon_ms)
    compression = header.compression
    return with_body(header._replace(record_count=len(parts)), compress(compression, kept), compression)


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without a record: its offsets, its producer and its sequence are what it still says."""
    attributes = header.attributes & ~_DELETE_HORIZON
    bare = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return with_body(bare, b"", Compression.NONE)


def _rebased(body: bytes, part: Part, base_timestamp: int) -> bytes:
    content = b"\0" + encode_varint(part.timestamp_ms - base_timestamp) + body[part.rest : part.end]
    return encode_varint(len(content)) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return (the varint at `position`, still zigzag, the position after it)."""
    number = data[position]
    if number < 0x80:
        return number, position + 1
    number, shift = number & 0x7F, 7
    while True:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position + 1
        shift += 7
        if shift > 63:  # a varlong has at most ten bytes
            raise InvalidRecord(f"varint before byte {position} is longer than ten bytes")
