"""What a topic asks of each batch beyond its header: which batches are opened, what is checked in them and rewritten.

An ordinary batch stays opaque (decision 6): its header, its CRC and the first bytes of a compressed body are looked at.
It is opened, record by record, only where something must be known that the header does not say:

    its largest timestamp lies beyond message.timestamp.after.max.ms    to name the records (refusals.py)
    message.timestamp.before.max.ms is set                              the smallest timestamp
    the topic is compacted                                              whether every record has a key
    compression.type is another codec than the batch's                  it is compressed anew, so it is read through
    it is a message set (Produce 0-2)                                   it is made a batch (records/conversion.py)

`Rules` are those of one topic; a topic with none of them has no Rules at all, so that its batches do not pay for the
question. Pure: no clock, no log, so that a thread may do it for a large batch (conversion.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.records import batch, conversion
from ...protocol.records.compression import Compression
from ...protocol.records.errors import (
    CorruptCompression,
    DecompressionLimit,
    InvalidRecord,
    RecordError,
    TruncatedBatch,
)
from ...protocol.records.record import NO_TIMESTAMP
from ..configs.broker_config import INT_MAX, LONG_MAX
from .refusals import MAX_RECORD_ERRORS, RecordFault, Refused

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..configs.topic_config import TopicConfig

# The first Produce version that carries batches; what came before carries message sets.
FIRST_WITH_BATCHES = 3
# KIP-110.
FIRST_WITH_ZSTD = 7
# Where a batch goes to a thread: reading its records, or compressing them, would hold the loop for a millisecond or so.
# Compressed ones may grow a thousandfold.
LARGE_BYTES = 16 * 1024
LARGE_COMPRESSED_BYTES = 1024

# The log start offset of a refusal, which who knows the log puts in.
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of every batch of a topic. The defaults ask for nothing."""

    compression: Compression | None = None  # None: the producer's
    level: int | None = None
    requires_keys: bool = False
    before_max_ms: int = LONG_MAX  # Invariant: LONG_MAX also where the broker sets the timestamps

    @property
    def opens_every_batch(self) -> bool:
        """Whether a header never says enough."""
        return self.requires_keys or self.before_max_ms < LONG_MAX


NO_RULES = Rules()


def rules_of(config: TopicConfig) -> Rules | None:
    """The rules of a topic with these configs, None where its batches go through as they are."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    rules = Rules(
        compression=_COMPRESSIONS.get(config.compression_type),
        level=_level(config),
        requires_keys=config.is_compacted,
        before_max_ms=LONG_MAX if append_time else config.message_timestamp_before_max_ms,
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


_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def is_large(records: memoryview) -> bool:
    """Whether preparing takes so long that a thread should do it."""
    size = len(records)
    if size < LARGE_COMPRESSED_BYTES:
        return False
    return size >= LARGE_BYTES or _is_compressed(records)


def _is_compressed(records: memoryview) -> bool:
    """Of a message set only the first message is looked at: a small set holds no more than one worth the name."""
    try:
        _, _, magic = batch.peek(records)
    except RecordError:
        return False
    return bool(records[22 if magic == batch.MAGIC else 17] & 7)


def prepare(
    records: memoryview,
    version: int,
    rules: Rules | None,
    now_ms: int,
    latest_ms: int = LONG_MAX,
    max_bytes: int = INT_MAX,
) -> memoryview:
    """The batch that is to be appended in the place of `records`, from a Produce request of `version`.

    `latest_ms` is the latest timestamp that is accepted now, `max_bytes` the largest batch.

    The append that follows looks at header and CRC as always: what is wrong there goes through as it is, to be refused
    by it. Raises Refused for what only the records tell (its log start offset is the caller's to give).
    """
    rules = rules or NO_RULES
    try:
        if version < FIRST_WITH_BATCHES and _magic(records) != batch.MAGIC:
            records = memoryview(conversion.up_converted(records, rules.compression, rules.level))
            version = FIRST_WITH_ZSTD  # whatever codec it has now was chosen here
        header = _sound_header(records)
        if header is None or header.size_bytes > max_bytes:
            return records
        if version < FIRST_WITH_ZSTD and header.compression is Compression.ZSTD:
            raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later", _UNKNOWN)
        if rules.opens_every_batch:
            _look_into(records, header, rules, now_ms - rules.before_max_ms, latest_ms)
        if rules.compression is not None and header.compression is not rules.compression:
            records = memoryview(conversion.recompressed(records, header, rules.compression, rules.level))
    except TruncatedBatch as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error), _UNKNOWN) from error
    except (CorruptCompression, DecompressionLimit) as error:
        # The CRC is right, so that nothing was damaged on the way: Kafka's word for it.
        raise Refused(ErrorCode.INVALID_RECORD, str(error), _UNKNOWN) from error
    except RecordError as error:
        raise Refused(error.code, str(error), _UNKNOWN) from error
    return records


def _magic(records: memoryview) -> int:
    """Of the first message. Raises RecordError where that cannot be one."""
    if not len(records):
        raise InvalidRecord("a message set without a message")
    return batch.peek(records)[2]


def _sound_header(records: memoryview) -> BatchHeader | None:
    """The header of one whole batch that an append would take, as far as its header and CRC go; None otherwise."""
    try:
        header = batch.read_header(records)
        if header.size_bytes != len(records):
            return None
        batch.check_crc(records, 0, header)
        batch.check_shape(header)
        batch.check_codec(records, 0, header)
    except RecordError:
        return None
    return header


def _look_into(records: memoryview, header: BatchHeader, rules: Rules, earliest_ms: int, latest_ms: int) -> None:
    """Reads every record. Refused names the first ones that the topic does not take."""
    code = ErrorCode.INVALID_RECORD
    faults: list[RecordFault] = []
    for index, record in enumerate(batch.iter_records(records, 0, header, check=False)):
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
        raise Refused(code, why, _UNKNOWN, tuple(faults))
