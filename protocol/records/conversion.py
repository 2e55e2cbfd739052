"""Between formats: message sets (magic 0, 1) made batches, batches made message sets, a batch given another codec.

    produced by an old client  set of messages, some of them wrappers  ->  one batch, its offsets 0, 1, 2 ...
    fetched by an old client   batches  ->  messages, or one wrapper for each batch that was compressed

What the other format cannot say is left out, as Kafka does: headers, control batches, timestamps at magic 0. A codec
that it cannot say (zstd) becomes gzip, which every client that ever was can read. Pure: bytes in, bytes out; whatever
comes in, what comes out is a value or a RecordError.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from . import batch, legacy
from .columns import decode_records
from .compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from .errors import InvalidRecord, RecordError, TruncatedBatch
from .record import NO_TIMESTAMP, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from .batch import BatchHeader

# The most records of one wrapper. A record takes some 300 bytes while it is converted.
WRAPPED_RECORDS = 100_000
# In the place of a codec that came after message sets.
LEGACY_COMPRESSION = {Compression.ZSTD: Compression.GZIP}


def up_converted(
    message_set: Buffer,
    compression: Compression | None = None,
    level: int | None = None,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Return one batch that holds the messages of a set, with offsets from 0 on instead of their own.

    `compression` None keeps the set's codec, the last one where several wrappers differ. Raises any RecordError:
    TruncatedBatch where the last message is cut off, InvalidRecord where there is none.
    """
    found = legacy.read_message_set(message_set, limit)
    size = memoryview(message_set).nbytes
    if found.size_bytes != size:
        raise TruncatedBatch(f"the last message of a set is cut off: {size - found.size_bytes} bytes of it are there")
    if not found.records:
        raise InvalidRecord("a message set without a message")
    records = [Record(-1, each.timestamp_ms, each.key, each.value) for each in found.records]
    codec = found.compression if compression is None else compression
    return bytearray(batch.encode_batch(records, compression=codec, level=level))


def recompressed(
    buffer: Buffer,
    header: BatchHeader,
    compression: Compression,
    level: int | None = None,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Return the batch at the beginning of `buffer` with its records in another codec; the records are not changed.

    They are read through, since the CRC that is written over them is ours. Raises any RecordError.
    """
    view = memoryview(buffer)[batch.HEADER_SIZE : header.size_bytes]
    body = decompress(header.compression, view, limit)
    # Keeps none, not even the last one: its value may be as large as the body.
    deque(decode_records(body, header.record_count, header.base_offset, header.base_timestamp), maxlen=0)
    return batch.with_body(header, compress(compression, body, level), compression)


class Converted(NamedTuple):
    """Batches as a message set."""

    data: bytes
    next_offset: int  # behind the last record that was looked at, whether it is in `data` or was left out
    ends_at_limit: bool


def down_converted(
    batches: Buffer, magic: int, from_offset: int, max_bytes: int, limit: int = MAX_DECOMPRESSED_BYTES
) -> Converted:
    """Return the records from `from_offset` on as a message set of `magic`, at most `max_bytes` of it.

    The first message comes whole even where it is larger; a wrapper is one message, and may begin with older ones. A
    last batch that is cut off is left out, and so is everything from a broken batch on unless that is the first:
    then its RecordError is raised.
    """
    pieces: list[bytes] = []
    size, next_offset = 0, from_offset
    for position, header in batch.iter_headers(batches):
        if header.is_control or header.last_offset < from_offset:
            next_offset = max(next_offset, header.next_offset)
            continue
        try:
            # Of one batch at a time: a fetch of many small compressed ones must not lie decompressed in memory.
            data, next_offset = _message_set(batches, position, header, magic, next_offset, max_bytes - size, limit)
        except RecordError:
            if not pieces:
                raise
            break
        if pieces and size + len(data) > max_bytes:
            return Converted(b"".join(pieces), header.base_offset, ends_at_limit=True)
        if data:
            pieces.append(data)
            size += len(data)
        if next_offset < header.next_offset:
            return Converted(b"".join(pieces), next_offset, ends_at_limit=True)
    return Converted(b"".join(pieces), next_offset, ends_at_limit=False)


def _message_set(
    batches: Buffer, position: int, header: BatchHeader, magic: int, from_offset: int, room: int, limit: int
) -> tuple[bytes, int]:
    """Return one batch as a message set, and the offset behind what is in it."""
    records = _legacy_records(batches, position, header, limit)
    compression = LEGACY_COMPRESSION.get(header.compression, header.compression)
    timestamp_type = header.timestamp_type if magic else batch.TimestampType.CREATE_TIME
    if compression:
        # A wrapper for so many records: all records of a batch may not fit into memory.
        parts = iter(lambda: list(islice(records, WRAPPED_RECORDS)), [])
        wrappers = [legacy.encode_message_set(part, magic, compression, None, timestamp_type) for part in parts]
        return b"".join(wrappers), header.next_offset
    kept: list[Record] = []
    size = 0
    for record in records:
        if record.offset < from_offset:
            continue
        size += legacy.message_bytes(record, magic)
        if kept and size > room:
            return legacy.encode_message_set(kept, magic, timestamp_type=timestamp_type), record.offset
        kept.append(record)
    return legacy.encode_message_set(kept, magic, timestamp_type=timestamp_type), header.next_offset


def _legacy_records(batches: Buffer, position: int, header: BatchHeader, limit: int) -> Iterator[Record]:
    for record in batch.iter_records(batches, position, header, check=True, limit=limit):
        yield record if record.timestamp_ms >= NO_TIMESTAMP else record._replace(timestamp_ms=NO_TIMESTAMP)
