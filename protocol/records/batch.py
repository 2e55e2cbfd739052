"""A record batch of magic 2 (KIP-98), the unit of producing, storing and fetching.

    base offset int64 | length int32 (of all that follows) | partition leader epoch int32 | magic int8 = 2
    | CRC-32C uint32 | attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
    | producer id int64 | producer epoch int16 | base sequence int32 | record count int32    61 bytes; then the records

    attributes: bits 0-2 codec | 3 LogAppendTime | 4 transactional | 5 control
                | 6 base timestamp is a delete horizon (KIP-534)

The CRC covers everything from the attributes on, so that a broker assigns offset and leader epoch without touching it:
`assign` patches 12 bytes in place, and a batch is never decoded on its way through. Positions are byte offsets into the
buffer, lengths are bytes. Whatever the bytes are, what comes out is a value or a `RecordError`.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple, cast

from .columns import Columns, R, RowReader, Shape, decode_columns, decode_records, decode_values, encode_values
from .compression import MAX_DECOMPRESSED_BYTES, Compression, begins_as, compress, decompress
from .crc import crc32c
from .errors import (
    CorruptBatch,
    CorruptCompression,
    CorruptCrc,
    InvalidRecord,
    TruncatedBatch,
    UnknownMagic,
    UnsupportedCodec,
    UnsupportedMagic,
)
from .record import MIN_RECORD_BYTES, NO_SIZE_LIMIT, Record, encode_records, record_ends, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

MAGIC = 2
HEADER_SIZE = 61
# Base offset and length, in front of every batch and legacy message; the length field does not count them.
LOG_OVERHEAD = 12
# The smallest message that ever was: magic 0 with null key and null value.
MIN_MESSAGE_BYTES = 14

# The broker walks the records of an uncompressed batch that has at most this many. A record takes 0.12 us: 16 take 2%
# of a request, but the 10,000 of a batch of 1 MB would take 1.2 ms, three times as long as its CRC and write together.
MAX_WALKED_RECORDS = 16

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

_CRC_AT = 17
_CRC_FROM = 21
_MAX_TIMESTAMP_AT = 35

# Bits of the attributes.
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
CODEC_MASK = 0x07
_DELETE_HORIZON = 0x40

_HEADER = Struct(">qiibIhiqqqhii")
_PEEK = Struct(">qiib")
# Base offset, length, magic and last offset delta of the batch at a position: what a walk needs. No check is made.
peek_span: Callable[[Buffer, int], tuple[int, int, int, int]] = Struct(">qi4xb6xi").unpack_from
_ASSIGN_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_INT64 = Struct(">q")


class TimestampType(IntEnum):
    """Whose clock the timestamps are: the producer's, or the broker's when it appended (`message.timestamp.type`)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes in front of a batch, in wire order. `crc` is unsigned, timestamps are milliseconds."""

    base_offset: int
    batch_length: int  # Invariant: >= 49
    partition_leader_epoch: int
    magic: int  # Invariant: 2
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Of the whole batch with its header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Of its last record; kept when compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The lowest offset at which the next batch can start."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raises UnsupportedCodec."""
        codec = self.attributes & CODEC_MASK
        if codec > Compression.ZSTD:
            raise UnsupportedCodec(f"batch at offset {self.base_offset}: compression codec {codec} does not exist")
        return _COMPRESSIONS[codec]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock `max_timestamp` is."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records (see control.py), which no consumer gets."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """`base_timestamp` is when its tombstones may go (KIP-534); the records' deltas still count from it."""
        return self.attributes & _DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record: after 2^31 - 1 comes 0. -1 where the batch has none."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


_COMPRESSIONS = tuple(Compression)

# A named tuple made without its Python-level constructor: half the time of `BatchHeader(*fields)`.
_new_header = cast(
    "Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)


# -- looking ---------------------------------------------------------------------------------------


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`. The rest of the batch need not be there.

    Raises TruncatedBatch (fewer than 61 bytes), UnsupportedMagic, CorruptBatch (a length too small to be one).
    """
    try:
        fields = _HEADER.unpack_from(buffer, position)
    except StructError:
        raise TruncatedBatch(f"no room for the {HEADER_SIZE} bytes of a batch header at {position}") from None
    if fields[3] != MAGIC:
        error = UnsupportedMagic if 0 <= fields[3] < MAGIC else UnknownMagic
        raise error(f"batch at {position} (offset {fields[0]}) has magic {fields[3]}, not {MAGIC}")
    if fields[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"batch at {position} (offset {fields[0]}) says that it has {fields[1]} bytes")
    return _new_header(BatchHeader, fields)


def peek(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Return (base offset, size in bytes with its first 12, magic) of the batch or legacy message at `position`.

    For a legacy message "base offset" is its own. Raises TruncatedBatch (fewer than 17 bytes), CorruptBatch
    (an impossible length), UnknownMagic.
    """
    try:
        offset, length, _, magic = _PEEK.unpack_from(buffer, position)
    except StructError:
        raise TruncatedBatch(f"no room for the {_PEEK.size} first bytes of a batch at {position}") from None
    if length < MIN_MESSAGE_BYTES:
        raise CorruptBatch(f"batch at {position} (offset {offset}) says that it has {length} bytes")
    if not 0 <= magic <= MAGIC:
        raise UnknownMagic(f"batch at {position} (offset {offset}) has magic {magic}")
    return offset, length + LOG_OVERHEAD, magic


def iter_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buffer[position:end]`.

    Stops before a batch that is cut off by the end: a fetch may end so. The caller sees it by comparing positions.
    Raises UnsupportedMagic and CorruptBatch as `read_header` does.
    """
    view = memoryview(buffer)
    end = len(view) if end is None else min(end, len(view))
    while position + HEADER_SIZE <= end:
        header = read_header(view, position)
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


# -- checking --------------------------------------------------------------------------------------


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the CRC of the batch at `position` with the one in its header. Raises CorruptCrc, TruncatedBatch."""
    view = memoryview(buffer)
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(view):
        raise TruncatedBatch(f"batch at {position} ends at {end}, the buffer at {len(view)}")
    computed = crc32c(view[position + _CRC_FROM : end])
    if computed != header.crc:
        raise CorruptCrc(
            f"batch at {position} (offset {header.base_offset}): CRC {header.crc:#010x}, computed {computed:#010x}"
        )


def check_shape(header: BatchHeader) -> None:
    """Refuse what a broker takes from no client, in the order and with the codes of Kafka's LogValidator.

    Raises InvalidRecord (INVALID_RECORD) or UnsupportedCodec (UNSUPPORTED_COMPRESSION_TYPE).
    """
    base_offset, _, _, _, _, attributes, delta, _, _, producer_id, _, base_sequence, count = header
    if base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {base_offset}")
    if delta < 0:
        raise InvalidRecord(f"the batch's last offset delta is {delta}")
    if count <= 0:
        raise InvalidRecord(f"the batch says that it has {count} records")
    if count != delta + 1:
        raise InvalidRecord(f"the batch says that it has {count} records, but its last offset delta is {delta}")
    if attributes & CONTROL:
        raise InvalidRecord("clients write no control batches")
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecord(f"producer {producer_id} gives no sequence ({base_sequence})")
    if attributes & CODEC_MASK:
        _ = header.compression


def is_boastful(header: BatchHeader) -> bool:
    """Return whether a compressed batch says that it has more records than bytes: only reading them tells."""
    return header.attributes & CODEC_MASK != 0 and header.record_count > header.size_bytes - HEADER_SIZE


def check_body(buffer: bytes | memoryview, position: int, header: BatchHeader) -> None:
    """Reject a batch whose body cannot be what its header says; nothing is decompressed.

    A compressed body begins as its codec's streams do. Any other holds as many records as the header counts: they are
    walked by their lengths where they are few, and must have room where they are many. Raises InvalidRecord,
    CorruptCompression, UnsupportedCodec.
    """
    at, count = position + HEADER_SIZE, header.record_count
    if header.attributes & CODEC_MASK:
        if not begins_as(header.compression, buffer[at : at + 4]):
            codec = header.compression.name.lower()
            raise CorruptCompression(f"the batch says {codec}, but its records are no such stream")
        return
    end = position + LOG_OVERHEAD + header.batch_length
    if count * MIN_RECORD_BYTES > end - at:
        raise InvalidRecord(f"the batch says that it has {count} records, in {end - at} bytes")
    if count > MAX_WALKED_RECORDS:
        return
    try:
        fits = record_ends(buffer, at, count)[-1] == end
    except IndexError:
        fits = False
    if not fits:
        raise InvalidRecord(f"the batch says that it has {count} records, but its bytes hold others")


# -- changing in place -----------------------------------------------------------------------------


def assign(buffer: Buffer, position: int, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Give the batch at `position` its offset and leader epoch, in place, and return its new header.

    `header` is the present one. The CRC covers neither.
    """
    _ASSIGN_OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)
    return _new_header(BatchHeader, (base_offset, header[1], leader_epoch, *header[3:]))


def set_max_timestamp(
    buffer: Buffer, position: int, header: BatchHeader, timestamp_type: TimestampType, timestamp_ms: int
) -> BatchHeader:
    """Set type and largest timestamp of the batch at `position`, in place, and its CRC; return its new header.

    `header` is the present one. With LOG_APPEND_TIME this gives every record that timestamp. Raises TruncatedBatch.
    """
    end = position + header.size_bytes
    view = memoryview(buffer)
    if end > len(view):
        raise TruncatedBatch(f"batch at {position} ends at {end}, the buffer at {len(view)}")
    attributes = header.attributes & ~LOG_APPEND_TIME | timestamp_type << 3
    _INT16.pack_into(view, position + _CRC_FROM, attributes)
    _INT64.pack_into(view, position + _MAX_TIMESTAMP_AT, timestamp_ms)
    crc = crc32c(view[position + _CRC_FROM : end])
    _UINT32.pack_into(view, position + _CRC_AT, crc)
    fields = (*header[:4], crc, attributes, *header[6:8], timestamp_ms, *header[9:])
    return _new_header(BatchHeader, fields)


def with_body(header: BatchHeader, body: Buffer, compression: Compression) -> bytearray:
    """Return the batch of `header` with its records' bytes replaced: `body` is compressed with `compression` already.

    All else stays but for length and CRC.
    """
    attributes = header.attributes & ~CODEC_MASK | compression
    size = HEADER_SIZE + memoryview(body).nbytes
    out = bytearray(size)
    _HEADER.pack_into(out, 0, *header._replace(batch_length=size - LOG_OVERHEAD, attributes=attributes))
    memoryview(out)[HEADER_SIZE:] = body
    _UINT32.pack_into(out, _CRC_AT, crc32c(memoryview(out)[_CRC_FROM:]))
    return out


def with_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> bytes:
    """Return the batch as this producer sends it: at offset 0, in or outside of a transaction, with a new CRC.

    Records, codec and timestamps stay. The batch must be one that a client may send.
    """
    header = read_header(batch)
    sent = header._replace(
        base_offset=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        attributes=transactional << 4,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return bytes(with_body(sent, memoryview(batch)[HEADER_SIZE:], header.compression))


# -- records ---------------------------------------------------------------------------------------


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Return the batch of `records`: one at least, their offsets growing from `base_offset`, -1 for the next.

    With LOG_APPEND_TIME all records read back with the largest of their timestamps. Raises InvalidRecord.
    """
    records = records if isinstance(records, (list, tuple)) else list(records)
    if not records:
        raise InvalidRecord("a batch has at least one record")
    base_timestamp = records[0].timestamp_ms
    body, count, last_offset_delta, max_timestamp = encode_records(records, base_offset, base_timestamp)
    if compression:
        body = compress(compression, body, level)
    attributes = compression | timestamp_type << 3 | transactional << 4 | control << 5
    header = _HEADER.pack(
        base_offset, HEADER_SIZE - LOG_OVERHEAD + len(body), partition_leader_epoch, MAGIC, 0, attributes,
        last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    return _with_crc(header, body)


def encode_value_batch(values: Sequence[bytes], timestamp_ms: int, compression: Compression) -> bytes:
    """Return a batch at offset 0 of records that have only a value, all with one timestamp. Raises InvalidRecord."""
    if not values:
        raise InvalidRecord("a batch has at least one record")
    return batch_of_body(encode_values(values), len(values), timestamp_ms, timestamp_ms, compression)


def batch_of_body(body: bytes | memoryview, count: int, first_ms: int, max_ms: int, compression: Compression) -> bytes:
    """Return the batch at offset 0 of encoded records, whose times count from `first_ms` and end at `max_ms`."""
    if compression:
        body = compress(compression, body)
    header = _HEADER.pack(
        0, HEADER_SIZE - LOG_OVERHEAD + len(body), NO_LEADER_EPOCH, MAGIC, 0, compression, count - 1,
        first_ms, max_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count,
    )  # fmt: skip
    return _with_crc(header, body)


def _with_crc(header: bytes, body: bytes | memoryview) -> bytes:
    crc = crc32c(body, crc32c(header[_CRC_FROM:]))
    return b"".join((header[:_CRC_AT], _UINT32.pack(crc), header[_CRC_FROM:], body))


def decode_batch(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    check: bool = True,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Return the records of the batch at `position`, `check`ing its CRC first.

    Decompressed they have at most `limit` bytes. Keys and values are copies. Raises any RecordError.
    """
    return list(iter_records(buffer, position, header, check, limit))


def values_of(buffer: Buffer, position: int, header: BatchHeader) -> list[bytes | None]:
    """Return only the values of the batch at `position`, in a third of the time; the CRC is checked elsewhere.

    Raises InvalidRecord, CorruptCompression, UnsupportedCodec.
    """
    body = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    return decode_values(decompress(header.compression, body), header.record_count)


def iter_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    check: bool = True,
    limit: int = MAX_DECOMPRESSED_BYTES,
    most_record_bytes: int = NO_SIZE_LIMIT,
) -> Iterator[Record]:
    """Return an iterator over the records of the batch at `position`; as `decode_batch`, a record at a time.

    CRC and compression are dealt with in the call. An InvalidRecord comes up when the iteration is near it, and a
    RecordTooLarge at a compressed record of more bytes than `most_record_bytes`.
    """
    header = header or read_header(buffer, position)
    body = _body(buffer, position, header, check, limit)
    records = decode_records(*body)
    if most_record_bytes >= NO_SIZE_LIMIT or header.compression is Compression.NONE:
        return records
    return sized(records, body[0], most_record_bytes)


def columns_of(buffer: Buffer, position: int, header: BatchHeader, check: bool = True) -> Columns:
    """Return the records of the batch at `position` by column, `check`ing its CRC first. Raises any RecordError."""
    return decode_columns(*_body(buffer, position, header, check, MAX_DECOMPRESSED_BYTES))


def row_reader(buffer: Buffer, position: int, header: BatchHeader, shape: Shape[R], check: bool = True) -> RowReader[R]:
    """Return what reads the records of the batch at `position` as named tuples, a part at a time; as `columns_of`."""
    return RowReader(shape, *_body(buffer, position, header, check, MAX_DECOMPRESSED_BYTES))


def _body(
    buffer: Buffer, position: int, header: BatchHeader, check: bool, limit: int
) -> tuple[bytes, int, int, int, int | None]:
    """Return what `decode_columns` takes: the records' bytes and what the header says of them."""
    if check:
        check_crc(buffer, position, header)
    view = memoryview(buffer)
    end = position + header.size_bytes
    if end > len(view):
        raise TruncatedBatch(f"batch at {position} ends at {end}, the buffer at {len(view)}")
    data = decompress(header.compression, view[position + HEADER_SIZE : end], limit)
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return data, header.record_count, header.base_offset, header.base_timestamp, append_time
