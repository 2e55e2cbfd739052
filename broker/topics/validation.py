"""Validation of the batches that clients produce, as Kafka's LogValidator does it.

An ordinary batch stays closed (decision 6): only its header, its CRC and the first bytes of a compressed body are read.
It is opened, record by record, only where the header does not say enough:

    its largest timestamp is beyond message.timestamp.after.max.ms      to name the records (reject_timestamps)
    message.timestamp.before.max.ms is set                              the smallest timestamp
    max.decompressed.message.bytes is set                               the size of each compressed record
    the topic is compacted                                              whether every record has a key
    compression.type is another codec than the batch's                  it is compressed again
    it is a message set (Produce 0-2)                                   it is converted into a batch
    it is compressed, and says that it has more records than bytes      whether it has them

An ordinary topic has no `ValidationRules`, so that its batches do not pay for them.
Nothing here has a clock or a log, so that a thread may validate a large batch.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch, conversion, legacy
from ...protocol.records.batch import BatchHeader
from ...protocol.records.compression import Compression, exceeds
from ...protocol.records.errors import (
    CorruptCompression,
    DecompressionLimit,
    InvalidRecord,
    RecordError,
    TruncatedBatch,
)
from ...protocol.records.record import NO_SIZE_LIMIT, NO_TIMESTAMP
from ..configs.definition import INT_MAX, LONG_MAX
from ..configs.topic_config import TopicConfig

_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
# The first Produce version with record batches; older ones carry message sets.
FIRST_WITH_BATCHES = 3
# KIP-110.
FIRST_WITH_ZSTD = 7
# From these sizes on a thread opens a batch: reading or compressing its records takes a few milliseconds. The second is
# that of compressed records, which is found by decompressing so much and no more: zstd may grow ten thousandfold.
LARGE_BYTES = 16 * 1024
LARGE_DECOMPRESSED_BYTES = 64 * 1024
# From this size on a thread computes the CRC of a batch and writes it (staging.py): 8 MiB take some ten milliseconds.
VERY_LARGE_BYTES = 8 * 1024 * 1024
# One sentence each: the response has 150 KB at most, whatever number of records a batch has.
MAX_RECORD_ERRORS = 1000
_NOT_ONE = "a produce request carries exactly one whole batch a partition"
# The log start offset of a rejection, until the partition puts in its own.
_UNKNOWN = -1


class ValidationRules(NamedTuple):
    """What a topic requires of every batch. The defaults require nothing."""

    # None: the producer's codec stays.
    compression: Compression | None = None
    level: int | None = None
    requires_keys: bool = False
    # Invariant: LONG_MAX also where the broker sets the timestamps.
    before_max_ms: int = LONG_MAX
    # Of one record, where the batch is compressed.
    max_decompressed_bytes: int = NO_SIZE_LIMIT

    @property
    def opens_every_batch(self) -> bool:
        """Whether the header of a batch never says enough."""
        return self.requires_keys or self.before_max_ms < LONG_MAX or self.max_decompressed_bytes < NO_SIZE_LIMIT


NO_RULES = ValidationRules()


def validation_rules(config: TopicConfig) -> ValidationRules | None:
    """Return the rules of a topic with these configs, None where its batches are appended as they are."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    rules = ValidationRules(
        compression=_COMPRESSIONS.get(config.compression_type),
        level=_level(config),
        requires_keys=config.is_compacted,
        before_max_ms=LONG_MAX if append_time else config.message_timestamp_before_max_ms,
        max_decompressed_bytes=config.max_decompressed_message_bytes,
    )
    return None if rules == NO_RULES else rules


def _level(config: TopicConfig) -> int | None:
    match config.compression_type:
        case "gzip":
            return config.compression_gzip_level
        case "lz4":
            return config.compression_lz4_level
        case "zstd":
            return config.compression_zstd_level
        case _:
            return None


# (index of the record in its batch, what is wrong with it)
RecordFault = tuple[int, str]


class BatchRejected(KafkaError):
    """A whole batch that a partition does not append. Its log is unchanged."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        log_start_offset: int = _UNKNOWN,
        record_errors: tuple[RecordFault, ...] = (),
    ) -> None:
        super().__init__(code, message)
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors


class LargeBatch(BatchRejected):
    """A batch that is so large that only a thread may open it, or write it: `prepare` comes first.

    It is rewritten or converted, or its timestamp is rejected: then `prepare` raises the BatchRejected that names the
    records. Or it is very large: then it is also staged.
    """


class ColdLog(KafkaError):
    """The first append since the start would read the log's end from the disk: `warm_up` in a thread comes first."""


# -- Closed batches --------------------------------------------------------------------------------


def read_batch(records: memoryview, max_bytes: int, topic: str) -> BatchHeader:
    """Return the header of the one batch that `records` must be: whole, not too large, with a correct CRC.

    Raises KafkaError: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE.
    """
    try:
        header = batch.read_header(records)
        size = header.batch_length + batch.LOG_OVERHEAD
        if size != len(records):
            if size < len(records):
                batch.check_crc(records, 0, header)  # a wrong length makes the CRC wrong, which is reported first
            raise KafkaError(ErrorCode.INVALID_RECORD, _NOT_ONE)
        if size > max_bytes:
            if header.base_offset:
                batch.check_shape(header)  # says so: Kafka looks at the offset before the size
            raise _too_large(size, max_bytes, topic)
        batch.check_crc(records, 0, header)
    except RecordError as error:
        raise KafkaError(error.code, str(error)) from error
    return header


def check_form(records: memoryview, version: int) -> None:
    """Raise the KafkaError of records that are not one batch of the format that this Produce version carries."""
    if version < FIRST_WITH_BATCHES:
        return
    try:
        header = batch.read_header(records)
    except RecordError as error:
        raise KafkaError(error.code, str(error)) from error
    if version < FIRST_WITH_ZSTD:
        check_compression(header)
    if header.size_bytes != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, _NOT_ONE)


def check_size(header: BatchHeader, max_bytes: int, topic: str) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch that is larger than max.message.bytes."""
    if header.size_bytes > max_bytes:
        raise _too_large(header.size_bytes, max_bytes, topic)


def _too_large(size: int, max_bytes: int, topic: str) -> KafkaError:
    why = f"a batch of {size} bytes; max.message.bytes of {topic} is {max_bytes}"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)


def check_compression(header: BatchHeader) -> None:
    """Raise UNSUPPORTED_COMPRESSION_TYPE for zstd, which requests before Produce 7 must not carry (KIP-110).

    A codec that does not exist passes: `check_body` rejects it in every version.
    """
    if header.attributes & batch.CODEC_MASK == Compression.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")


def reject_timestamps(records: memoryview, header: BatchHeader, latest_ms: int) -> NoReturn:
    """Reject a batch whose largest timestamp is after `latest_ms`, and name the records that are to blame.

    Raises BatchRejected, or the records' RecordError where they cannot be read. Opens the batch, whatever its size.
    """
    faults: list[RecordFault] = []
    for index, record in enumerate(batch.iter_records(records, 0, header, check=False)):
        if record.timestamp_ms > latest_ms:
            why = f"timestamp {record.timestamp_ms} lies after {latest_ms}, the latest that is accepted"
            faults.append((index, why))
            if len(faults) == MAX_RECORD_ERRORS:
                break
    raise BatchRejected(ErrorCode.INVALID_TIMESTAMP, _why_too_late(header, latest_ms), record_errors=tuple(faults))


def reject_small_timestamps(records: memoryview, header: BatchHeader, latest_ms: int) -> NoReturn:
    """Do as `reject_timestamps`, within a few milliseconds. Raises LargeBatch if opening it would take longer."""
    if is_large(records):
        raise LargeBatch(ErrorCode.INVALID_TIMESTAMP, _why_too_late(header, latest_ms))
    reject_timestamps(records, header, latest_ms)


def _why_too_late(header: BatchHeader, latest_ms: int) -> str:
    return f"timestamps up to {header.max_timestamp}, but the latest that is accepted now is {latest_ms}"


# -- Opened batches --------------------------------------------------------------------------------


class PreparedBatch(NamedTuple):
    """A batch that was opened, rewritten or converted. Where the header is not sound, the append says why."""

    records: memoryview
    header: BatchHeader


def is_large(records: memoryview) -> bool:
    """Return whether a batch or message set takes so long to open that a thread should do it. False if it is broken."""
    if len(records) >= LARGE_BYTES:
        return True
    try:
        if _magic(records) != batch.MAGIC:
            return any(message.compression for message in legacy.iter_messages(records))
        codec = batch.read_header(records).compression
    except RecordError:
        return False
    return codec is not Compression.NONE and exceeds(codec, records[batch.HEADER_SIZE :], LARGE_DECOMPRESSED_BYTES)


def is_very_large(records: memoryview) -> bool:
    """Return whether a batch takes so long to write that a thread should do it."""
    return len(records) >= VERY_LARGE_BYTES


def prepare(
    records: memoryview,
    version: int,
    rules: ValidationRules | None,
    now_ms: int,
    latest_ms: int = LONG_MAX,
    max_bytes: int = INT_MAX,
    topic: str = "",
) -> PreparedBatch:
    """Return the batch that is appended in the place of `records`, from a Produce request of `version`.

    `latest_ms` is the latest timestamp that is accepted now, `max_bytes` the largest batch. Raises BatchRejected for
    what only the records show, KafkaError as `read_batch` does.
    """
    rules = rules or NO_RULES
    try:
        if version < FIRST_WITH_BATCHES and _magic(records) != batch.MAGIC:
            records = memoryview(conversion.up_converted(records, rules.compression, rules.level))
            version = FIRST_WITH_ZSTD  # the codec was chosen here
        header = read_batch(records, max_bytes, topic)
        if version < FIRST_WITH_ZSTD:
            check_compression(header)
        if not _is_sound(records, header):
            return PreparedBatch(records, header)
        if rules.opens_every_batch or batch.is_boastful(header):
            _check_records(records, header, rules, now_ms - rules.before_max_ms, latest_ms)
        elif header.max_timestamp > latest_ms:
            reject_timestamps(records, header, latest_ms)
        if rules.compression is not None and header.compression is not rules.compression:
            records = memoryview(conversion.recompressed(records, header, rules.compression, rules.level))
            header = batch.read_header(records)
    except TruncatedBatch as error:
        raise BatchRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    except (CorruptCompression, DecompressionLimit) as error:
        # The CRC is right, so nothing was damaged on the way: the producer has made it so.
        raise BatchRejected(ErrorCode.INVALID_RECORD, str(error)) from error
    except RecordError as error:
        raise BatchRejected(error.code, str(error)) from error
    return PreparedBatch(records, header)


def _magic(records: memoryview) -> int:
    """Return the magic of the first message. Raises RecordError."""
    if not len(records):
        raise InvalidRecord("a message set without a message")
    return batch.peek(records)[2]


def _is_sound(records: memoryview, header: BatchHeader) -> bool:
    """Return whether an append accepts the header of a batch."""
    try:
        batch.check_shape(header)
        batch.check_body(records, 0, header)
    except RecordError:
        return False
    return True


def _check_records(
    records: memoryview, header: BatchHeader, rules: ValidationRules, earliest_ms: int, latest_ms: int
) -> None:
    """Read every record. Raises BatchRejected with the first ones that the topic does not take."""
    code = ErrorCode.INVALID_RECORD
    faults: list[RecordFault] = []
    sized = batch.iter_records(records, 0, header, check=False, most_record_bytes=rules.max_decompressed_bytes)
    for index, record in enumerate(sized):
        timestamp_ms = record.timestamp_ms
        if rules.requires_keys and record.key is None:
            faults.append((index, "a record without a key in a compacted topic"))
        elif not earliest_ms <= timestamp_ms <= latest_ms and timestamp_ms != NO_TIMESTAMP:
            code = ErrorCode.INVALID_TIMESTAMP
            side = f"before {earliest_ms}" if timestamp_ms < earliest_ms else f"after {latest_ms}"
            faults.append((index, f"timestamp {timestamp_ms} lies {side}, which is not accepted"))
        if len(faults) == MAX_RECORD_ERRORS:
            break
    if faults:
        why = f"{len(faults)} of {header.record_count} records are not accepted, the first: {faults[0][1]}"
        raise BatchRejected(code, why, record_errors=tuple(faults))
