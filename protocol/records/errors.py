"""The errors of records. Each carries the wire code that Kafka answers a producer with.

RecordError
  TruncatedBatch             INVALID_RECORD: the buffer ends inside a batch or message; in a log, a torn tail
  CorruptBatch               CORRUPT_MESSAGE: a length that cannot be
    CorruptCrc               the checksum does not match
    CorruptCompression       the codec cannot read its data
    DecompressionLimit       it would grow beyond the bound that the caller set
  UnsupportedMagic           INVALID_RECORD: a version of the format, but not the one that is asked for
    UnknownMagic             CORRUPT_MESSAGE: no version of the format
  UnsupportedCodec           UNSUPPORTED_COMPRESSION_TYPE (Kafka stumbles here and says UNKNOWN_SERVER_ERROR)
  InvalidRecord              INVALID_RECORD: intact bytes that say something impossible or forbidden
    RecordTooLarge           a record that is larger than the caller allows

CORRUPT_MESSAGE is the one that clients send again: the wire may have done it. The codes are those of a real Kafka
4.3.1 (tests/golden/records/rejections.jsonl).
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import DecodeError, ErrorCode


class RecordError(DecodeError):
    """Anything wrong with a batch, message or record."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class TruncatedBatch(RecordError):
    """The buffer ends before the batch or message does."""

    code = ErrorCode.INVALID_RECORD


class CorruptBatch(RecordError):
    """The bytes cannot be what was written."""


class CorruptCrc(CorruptBatch):
    """The checksum stored and the checksum computed differ."""


class CorruptCompression(CorruptBatch):
    """The compressed data of a batch or wrapper message cannot be decompressed."""


class DecompressionLimit(CorruptBatch):
    """The data decompresses to more than the caller allows."""


class UnsupportedMagic(RecordError):
    """The magic byte is not the one that this reader reads."""

    code = ErrorCode.INVALID_RECORD


class UnknownMagic(UnsupportedMagic):
    """The magic byte is none that Kafka ever had."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnsupportedCodec(RecordError):
    """The attributes name a codec that does not exist, or not at this magic."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecord(RecordError):
    """The bytes are intact, but what they say is impossible or not allowed."""

    code = ErrorCode.INVALID_RECORD


class RecordTooLarge(InvalidRecord):
    """A record of a compressed batch is larger than the caller allows."""
