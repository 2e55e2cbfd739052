"""Message sets of magic 0 and 1: what clients before Kafka 0.11 send, and what old segment files hold.

    a message set is messages, one after the other, with no count:
    offset int64 | size int32 (of all that follows) | CRC-32 uint32 (of all that follows) | magic int8 | attributes int8
    | timestamp int64 (magic 1 only) | key length int32 (-1: null), key | value length int32 (-1: null), value

    attributes: bits 0-2 codec | bit 3 LogAppendTime (magic 1)

A compressed set is one *wrapper* message whose value is the compressed bytes of an inner set, of the same magic and
not compressed again. The wrapper's offset is that of its last inner message. Inner offsets are absolute at magic 0; at
magic 1 they count from 0 (KIP-31), so the first one's absolute offset is wrapper - last inner. A wrapper of
LogAppendTime lends its timestamp to all (KIP-32). LZ4 at magic 0 has a wrong header checksum (KAFKA-3160); zstd and
headers came with magic 2.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from .batch import LOG_OVERHEAD, MAGIC, MIN_MESSAGE_BYTES, TimestampType
from .compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress, lz4_header_checksum
from .crc import crc32
from .errors import (
    CorruptBatch,
    CorruptCrc,
    DecompressionLimit,
    InvalidRecord,
    TruncatedBatch,
    UnknownMagic,
    UnsupportedCodec,
    UnsupportedMagic,
)
from .record import NO_TIMESTAMP, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

# offset, size, CRC, magic, attributes
_START = Struct(">qiIbb")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")

_CRC_FROM = 16
_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08


class Message(NamedTuple):
    """One message as it lies in a set, wrapper or not; key and value are views into the set's buffer."""

    offset: int
    size_bytes: int  # with its first 12
    magic: int  # Invariant: 0 or 1
    attributes: int
    timestamp_ms: int  # -1 at magic 0
    key: memoryview | None
    value: memoryview | None

    @property
    def compression(self) -> Compression:
        """The codec of a wrapper. Raises UnsupportedCodec."""
        codec = self.attributes & _CODEC_MASK
        if codec > Compression.LZ4:
            raise UnsupportedCodec(
                f"message at offset {self.offset}: no compression codec {codec} at magic {self.magic}"
            )
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock the timestamp is; always the producer's at magic 0, which has none."""
        append = self.magic and self.attributes & _LOG_APPEND_TIME
        return TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME


def decode_message_set(buffer: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Return the records of a message set, wrappers opened, in order. A last message that is cut off is left out.

    `limit` bounds what all its wrappers together decompress to. Raises any RecordError, UnsupportedMagic at a v2 batch.
    """
    return read_message_set(buffer, limit).records


# The most messages of one set. Each takes some 300 bytes while it is converted, however small it is.
MAX_MESSAGES = 250_000


class MessageSet(NamedTuple):
    """A set read through."""

    records: list[Record]
    compression: Compression  # of the last wrapper; NONE without one
    size_bytes: int  # of the whole messages: less than the buffer where the last one is cut off


def read_message_set(buffer: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> MessageSet:
    """Do as `decode_message_set`, and return the other facts of the set too.

    Raises DecompressionLimit where there are more than MAX_MESSAGES.
    """
    records: list[Record] = []
    compression, size_bytes = Compression.NONE, 0
    for message in iter_messages(buffer):
        size_bytes += message.size_bytes
        if message.compression:
            compression = message.compression
            inner, size = _open(message, limit, MAX_MESSAGES - len(records))
            limit -= size
            records.extend(inner)
        else:
            if len(records) == MAX_MESSAGES:
                raise _too_many()
            records.append(_record(message, message.offset, message.timestamp_ms))
    return MessageSet(records, compression, size_bytes)


def message_bytes(record: Record, magic: int) -> int:
    """Return the size of a record as a message that is not compressed."""
    fixed = _START.size + 2 * _INT32.size + (_INT64.size if magic else 0)
    return fixed + len(record.key or b"") + len(record.value or b"")


def iter_messages(buffer: Buffer, position: int = 0) -> Iterator[Message]:
    """Yield the messages of a set as they lie, wrappers closed, and stop before one that is cut off by the end."""
    view = memoryview(buffer)
    end = len(view)
    while position + LOG_OVERHEAD <= end:
        size = _INT32.unpack_from(view, position + 8)[0]
        if size >= MIN_MESSAGE_BYTES and position + LOG_OVERHEAD + size > end:
            return
        message = read_message(view, position)
        yield message
        position += message.size_bytes


def read_message(buffer: Buffer, position: int = 0) -> Message:
    """Read the message at `position` and check its CRC.

    Raises TruncatedBatch, CorruptBatch (a length that cannot be), CorruptCrc, UnsupportedMagic, InvalidRecord.
    """
    view = memoryview(buffer)
    try:
        offset, size, crc, magic, attributes = _START.unpack_from(view, position)
    except StructError:
        raise TruncatedBatch(f"no room for the first bytes of a message at {position}") from None
    if size < MIN_MESSAGE_BYTES:
        raise CorruptBatch(f"message at {position} (offset {offset}) says that it has {size} bytes")
    if not 0 <= magic <= 1:
        error = UnsupportedMagic if magic == MAGIC else UnknownMagic
        raise error(f"message at {position} (offset {offset}) has magic {magic}, not 0 or 1")
    end = position + LOG_OVERHEAD + size
    if end > len(view):
        raise TruncatedBatch(f"message at {position} ends at {end}, the buffer at {len(view)}")
    if crc32(view[position + _CRC_FROM : end]) != crc:
        raise CorruptCrc(f"message at {position} (offset {offset}): the CRC is not {crc:#010x}")
    body = view[position + _START.size : end]
    timestamp_ms, at = NO_TIMESTAMP, 0
    if magic:
        if len(body) < _INT64.size:
            raise InvalidRecord(f"message at offset {offset} has no timestamp")
        timestamp_ms, at = _INT64.unpack_from(body)[0], _INT64.size
    key, at = _read_bytes(body, at, offset)
    value, at = _read_bytes(body, at, offset)
    if at != len(body):
        raise InvalidRecord(f"message at offset {offset} has {len(body) - at} bytes left over")
    return Message(offset, LOG_OVERHEAD + size, magic, attributes, timestamp_ms, key, value)


def _read_bytes(body: memoryview, at: int, offset: int) -> tuple[memoryview | None, int]:
    if at + _INT32.size > len(body):
        raise InvalidRecord(f"message at offset {offset} ends before a length")
    length = _INT32.unpack_from(body, at)[0]
    at += _INT32.size
    if length < 0:
        return None, at
    if length > len(body) - at:
        raise InvalidRecord(
            f"message at offset {offset} has a key or value of {length} bytes where {len(body) - at} are left"
        )
    return body[at : at + length], at + length


def _record(message: Message, offset: int, timestamp_ms: int) -> Record:
    key = None if message.key is None else bytes(message.key)
    value = None if message.value is None else bytes(message.value)
    return Record(offset, timestamp_ms, key, value)


def _too_many() -> DecompressionLimit:
    return DecompressionLimit(f"a message set of more than {MAX_MESSAGES} messages")


def _open(wrapper: Message, limit: int, room: int) -> tuple[list[Record], int]:
    """Return the records inside a wrapper with absolute offsets, and how many bytes they took decompressed.

    There may be `room` of them.
    """
    if wrapper.value is None:
        raise InvalidRecord(f"compressed message at offset {wrapper.offset} has no value")
    codec = wrapper.compression
    data: Buffer = wrapper.value
    if codec is Compression.LZ4 and wrapper.magic == 0:
        data = lz4_header_checksum(data, broken=False)
    inner_set = decompress(codec, data, limit)
    inner: list[Message] = []
    position = 0
    while position < len(inner_set):
        message = read_message(inner_set, position)
        if len(inner) == room:
            raise _too_many()
        if message.magic != wrapper.magic or message.compression:
            raise InvalidRecord(
                f"message of magic {message.magic}, codec {message.compression}, inside one of magic {wrapper.magic}"
            )
        inner.append(message)
        position += message.size_bytes
    if not inner:
        raise InvalidRecord(f"compressed message at offset {wrapper.offset} holds no messages")
    # Some librdkafka versions leave the wrapper at 0 when they produce: then the offsets count from 0 too.
    shift = max(wrapper.offset - inner[-1].offset, 0) if wrapper.magic else 0
    append_time = wrapper.timestamp_ms if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    records = [
        _record(message, message.offset + shift, message.timestamp_ms if append_time is None else append_time)
        for message in inner
    ]
    return records, len(inner_set)


def encode_message_set(
    records: Iterable[Record],
    magic: int,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return `records` as a message set, in one wrapper if compressed; an offset of -1 is the one after (the first: 0).

    What the format cannot say is left out, as Kafka does: headers, and timestamps at magic 0. Raises UnsupportedMagic,
    UnsupportedCodec, InvalidRecord (offsets that do not grow, a wrapper round nothing).
    """
    if magic not in (0, 1):
        raise UnsupportedMagic(f"message sets have magic 0 or 1, not {magic}")
    if compression > Compression.LZ4:
        raise UnsupportedCodec(f"no compression codec {compression.name} at magic {magic}")
    if timestamp_type and not magic:
        raise InvalidRecord("messages of magic 0 have no timestamp")
    numbered = _number(records)
    attributes = timestamp_type << 3
    if not compression:
        return b"".join(_message(offset, magic, attributes, r.timestamp_ms, r.key, r.value) for offset, r in numbered)
    if not numbered:
        raise InvalidRecord("a compressed message holds one message at least")
    base = numbered[0][0] if magic else 0
    inner = b"".join(
        _message(offset - base, magic, attributes, r.timestamp_ms, r.key, r.value) for offset, r in numbered
    )
    value: Buffer = compress(compression, inner, level)
    if compression is Compression.LZ4 and magic == 0:
        value = lz4_header_checksum(value, broken=True)
    newest = max(record.timestamp_ms for _, record in numbered)
    return _message(numbered[-1][0], magic, attributes | compression, newest, None, value)


def _number(records: Iterable[Record]) -> list[tuple[int, Record]]:
    """Pair each record with its absolute offset."""
    numbered: list[tuple[int, Record]] = []
    last = -1
    for record in records:
        offset = last + 1 if record.offset < 0 else record.offset
        if offset <= last:
            raise InvalidRecord(f"offset {offset} does not grow")
        if record.timestamp_ms < NO_TIMESTAMP:
            raise InvalidRecord(f"timestamp {record.timestamp_ms} is negative")
        numbered.append((offset, record))
        last = offset
    return numbered


def _message(
    offset: int, magic: int, attributes: int, timestamp_ms: int, key: Buffer | None, value: Buffer | None
) -> bytes:
    body = bytearray((magic, attributes))
    if magic:
        body += _INT64.pack(timestamp_ms)
    for part in (key, value):
        if part is None:
            body += _INT32.pack(-1)
        else:
            view = memoryview(part)
            body += _INT32.pack(view.nbytes)
            body += view
    return b"".join((_INT64.pack(offset), _INT32.pack(len(body) + 4), _UINT32.pack(crc32(body)), body))
