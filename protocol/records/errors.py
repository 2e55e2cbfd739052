"""Errors in records. Each has the error code that a producer gets from Kafka.

RecordError
  TruncatedBatch             INVALID_RECORD: the buffer ends inside a batch or message; in a log, a torn tail
  CorruptRecord               CORRUPT_MESSAGE: an impossible length
    CorruptCrc               the checksum does not match
    CorruptCompression       the codec cannot decompress the data
    DecompressionLimit       the data exceeds the caller's limit
  UnsupportedMagic           INVALID_RECORD: a version of the format that this reader does not read
    UnknownMagic             CORRUPT_MESSAGE: no version of the format
  UnsupportedCodec           UNSUPPORTED_COMPRESSION_TYPE (Kafka fails here with UNKNOWN_SERVER_ERROR)
  InvalidRecord              INVALID_RECORD: intact bytes with impossible or forbidden values

Clients retry after CORRUPT_MESSAGE, because the network may have damaged the bytes. A real Kafka 4.3.1 gives the same
codes (tests/golden/records/refusals.jsonl).
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import DecodeError, ErrorCode


class RecordError(DecodeError):
    """A batch, message or record that cannot be used."""

    code: ClassVar[ErrorCode] = ErrorCode.CORRUPT_MESSAGE


class TruncatedBatch(RecordError):
    """The buffer ends before the batch or message does."""

    code = ErrorCode.INVALID_RECORD


class CorruptRecord(RecordError):
    """The bytes are not what was written."""


class CorruptCrc(CorruptRecord):
    """The checksum stored and the checksum computed differ."""


class CorruptCompression(CorruptRecord):
    """The compressed data of a batch or wrapper message cannot be decompressed."""


class DecompressionLimit(CorruptRecord):
    """The data decompresses to more than the caller allows."""


class UnsupportedMagic(RecordError):
    """The magic byte is not the one that this reader reads."""

    code = ErrorCode.INVALID_RECORD


class UnknownMagic(UnsupportedMagic):
    """Kafka never used this magic byte."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnsupportedCodec(RecordError):
    """The attributes name a codec that does not exist, or not at this magic."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecord(RecordError):
    """The bytes are intact, but their values are impossible or not allowed."""

    code = ErrorCode.INVALID_RECORD
