"""What can be wrong with records. Each error carries the wire code that Kafka answers a producer with.

RecordError                  CORRUPT_MESSAGE
  TruncatedBatch             the buffer ends inside a batch or message: wait for more, or a torn tail
  CorruptBatch               a length that cannot be
    CorruptCrc               the checksum does not match
    CorruptCompression       the codec cannot read its data
    DecompressionLimit       it would grow beyond the bound that the caller set
  UnsupportedMagic           UNSUPPORTED_FOR_MESSAGE_FORMAT: not a version of the format that is asked for
  UnsupportedCodec           UNSUPPORTED_COMPRESSION_TYPE
  InvalidRecord              INVALID_RECORD: intact bytes that say something impossible or forbidden
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import DecodeError, ErrorCode


class RecordError(DecodeError):
    """Anything wrong with a batch, message or record."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class TruncatedBatch(RecordError):
    """The buffer ends before the batch or message does."""


class CorruptBatch(RecordError):
    """The bytes cannot be what was written."""


class CorruptCrc(CorruptBatch):
    """The checksum stored and the checksum computed differ."""


class CorruptCompression(CorruptBatch):
    """The compressed data of a batch or wrapper message cannot be decompressed."""


class DecompressionLimit(CorruptBatch):
    """The data decompresses to more than the caller allows."""


class UnsupportedMagic(RecordError):
    """The magic byte is not one that this reader knows."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCodec(RecordError):
    """The attributes name a codec that does not exist, or not at this magic."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecord(RecordError):
    """The bytes are intact, but what they say is impossible or not allowed."""

    code = ErrorCode.INVALID_RECORD
