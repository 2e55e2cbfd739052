"""The table of the configs of logs: data directories, segments, flushes, batches, retention and compaction.

Most rows name a topic config: they are its default. Several rows may name the same one, strongest first, such as
`log.retention.ms`, `log.retention.minutes` and `log.retention.hours`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ...protocol.records.record import NO_SIZE_LIMIT
from ...storage.config import LogConfig
from ...storage.retention import STANDARD, PolicyError, policy_named
from .definition import BOOLEAN, DOUBLE, INT, LIST, LONG, LONG_MAX, STRING, ConfigTable, define

# The defaults of what a log itself acts on stand there, once.
_LOG = LogConfig()
_HOUR_MS = 3_600_000

CLEANUP_POLICIES = ("compact", "delete")
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def _check_dirs(dirs: tuple[str, ...]) -> str | None:
    if not dirs or not all(dirs):
        return "must name a directory"
    return None if len({Path(each).absolute() for each in dirs}) == len(dirs) else "must name each directory once"


def _check_gzip_level(level: int) -> str | None:
    # Level 0 stores without compressing; Kafka does not allow it either.
    return "must be from 1 to 9, or -1" if level == 0 else None


def _check_retention(given: int | None) -> str | None:
    return "must be 1 or more; -1: records are kept for ever" if given == 0 else None


def _check_policy(name: str) -> str | None:
    try:
        policy_named(name)
    except PolicyError as error:
        return str(error)
    return None


class LogTable(ConfigTable):
    """Configs of logs, one row each."""

    # fmt: off
    # -- Data directories
    log_dir: tuple[str, ...] = define(LIST, ("./odradek-data",), check=_check_dirs,
        doc="The data directories, if log.dirs is not set.")
    log_dirs: tuple[str, ...] | None = define(LIST, None, check=_check_dirs,
        doc="The data directories. A new partition goes to the one with the fewest; one that fails takes only its own.")
    metadata_log_dir: str | None = define(STRING, None,
        doc="The directory of the metadata journal (topics, ids, configs). Unset: the first of log.dirs.")

    # -- Segments and indexes
    log_segment_bytes: int = define(INT, _LOG.segment_bytes, topic="segment.bytes", low=1 << 20, dynamic=True,
        doc="A segment is closed and the next one begun at this size.")
    log_roll_ms: int | None = define(LONG, None, topic="segment.ms", low=1, dynamic=True,
        doc="A segment is closed when its first record is this old. Unset: log.roll.hours.")
    log_roll_hours: int = define(INT, _LOG.segment_ms // _HOUR_MS, topic="segment.ms", low=1,
        doc="A segment is closed when its first record is this old.")
    log_roll_jitter_ms: int | None = define(LONG, None, topic="segment.jitter.ms", low=0, dynamic=True,
        doc="Each segment is closed up to this much earlier, so that not all close at once. Unset: "
            "log.roll.jitter.hours.")
    log_roll_jitter_hours: int = define(INT, _LOG.segment_jitter_ms // _HOUR_MS, topic="segment.jitter.ms", low=0,
        doc="Each segment is closed up to this much earlier, so that not all close at once.")
    log_index_interval_bytes: int = define(INT, _LOG.index_interval_bytes, topic="index.interval.bytes", low=0,
        dynamic=True,
        doc="The bytes of records between two index entries.")
    log_index_size_max_bytes: int = define(INT, _LOG.segment_index_bytes, topic="segment.index.bytes", low=4,
        dynamic=True,
        doc="A segment is closed when its index has reached this size.")

    # -- Flushes
    log_flush_interval_messages: int = define(LONG, _LOG.flush_messages, topic="flush.messages", low=1, dynamic=True,
        doc="Records of a partition are forced to disk (fsync) after this many of them.")
    log_flush_interval_ms: int | None = define(LONG, None, topic="flush.ms", topic_low=0,
        topic_default=_LOG.flush_ms, dynamic=True,
        doc="Records of a partition are forced to disk (fsync) when the oldest has waited this long.")
    log_flush_offset_checkpoint_interval_ms: int = define(INT, 60_000, low=0,
        doc="How often the broker writes down the recovery points: up to which offset each partition is on disk.")

    # -- Batches
    log_message_timestamp_type: str = define(STRING, "CreateTime", topic="message.timestamp.type",
        choices=TIMESTAMP_TYPES, dynamic=True,
        doc="A record's timestamp: the producer's (CreateTime) or the time of the append (LogAppendTime).")
    log_message_timestamp_before_max_ms: int = define(LONG, LONG_MAX, topic="message.timestamp.before.max.ms", low=0,
        dynamic=True,
        doc="How far a producer's timestamp may lie behind the broker's clock. Any value but the default makes the "
            "broker read every record.")
    log_message_timestamp_after_max_ms: int = define(LONG, 3_600_000, topic="message.timestamp.after.max.ms", low=0,
        dynamic=True,
        doc="How far a producer's timestamp may lie ahead of the broker's clock.")
    compression_type: str = define(STRING, "producer", topic="compression.type", choices=COMPRESSION_TYPES,
        dynamic=True,
        doc="The codec of stored batches: the producer's own, or one that the broker compresses them with.")
    compression_gzip_level: int = define(INT, -1, topic="compression.gzip.level", low=-1, high=9,
        check=_check_gzip_level, dynamic=True,
        doc="The level at which the broker compresses with gzip; -1: the default of zlib.")
    compression_lz4_level: int = define(INT, 9, topic="compression.lz4.level", low=1, high=17, dynamic=True,
        doc="The level at which the broker compresses with lz4.")
    compression_zstd_level: int = define(INT, 3, topic="compression.zstd.level", low=-131072, high=22, dynamic=True,
        doc="The level at which the broker compresses with zstd.")
    message_max_bytes: int = define(INT, (1 << 20) + 12, topic="max.message.bytes", low=0, dynamic=True,
        doc="The largest record batch that the broker accepts.")
    max_decompressed_message_bytes: int = define(INT, _LOG.max_decompressed_message_bytes,
        topic="max.decompressed.message.bytes", low=1, high=NO_SIZE_LIMIT, dynamic=True,
        doc="The largest record of a compressed batch, without its compression: at produce, when the log is compacted, "
            "and when offsets are looked up by time. The default bounds nothing.")
    # As in Kafka 4 the number of replicas caps it: where a broker is alone, every value means its one replica.
    min_insync_replicas: int = define(INT, 1, topic="min.insync.replicas", low=1, dynamic=True,
        doc="Replicas that must have a record before a producer with acks=all gets its response; at most as many as "
            "there are.")

    # -- Retention
    log_retention_ms: int | None = define(LONG, None, topic="retention.ms", topic_low=-1, check=_check_retention,
        dynamic=True,
        doc="Segments whose newest record is older are deleted; negative: never. Unset: log.retention.minutes.")
    log_retention_minutes: int | None = define(INT, None, topic="retention.ms", check=_check_retention,
        doc="Segments whose newest record is older are deleted; negative: never. Unset: log.retention.hours.")
    log_retention_hours: int = define(INT, _LOG.retention_ms // _HOUR_MS, topic="retention.ms", check=_check_retention,
        doc="Segments whose newest record is older are deleted; negative: never.")
    log_retention_bytes: int = define(LONG, _LOG.retention_bytes, topic="retention.bytes", dynamic=True,
        doc="The oldest segments of a partition are deleted while at least this much remains; negative: never.")
    log_retention_check_interval_ms: int = define(LONG, 300_000, low=1,
        doc="How often the broker looks for segments to delete.")
    log_retention_policy: str = define(STRING, STANDARD, check=_check_policy,
        doc="The rule: standard (by time, then by bytes), time, bytes, or package.module:function of your own.")
    log_segment_delete_delay_ms: int = define(LONG, _LOG.file_delete_delay_ms, topic="file.delete.delay.ms", low=0,
        dynamic=True,
        doc="How long the files of deleted segments and topics stay on disk, for clients that still read them.")

    # -- Compaction
    log_cleanup_policy: tuple[str, ...] = define(LIST, ("delete",), topic="cleanup.policy", choices=CLEANUP_POLICIES,
        dynamic=True,
        doc="Old segments are deleted (delete), keep only the last record of each key (compact), or both; empty: "
            "neither.")
    log_cleaner_enable: bool = define(BOOLEAN, True,
        doc="Clean compacted topics.")
    log_cleaner_threads: int = define(INT, 1, low=0, high=1,
        doc="Processes that clean. With one, partitions are cleaned one after the other.")
    log_cleaner_backoff_ms: int = define(LONG, 15_000, low=0, dynamic=True,
        doc="How long the cleaner rests when there is nothing to clean.")
    log_cleaner_dedupe_buffer_size: int = define(LONG, 128 << 20, low=(1 << 20) + 1, dynamic=True,
        doc="Memory for the keys of one cleaning, enough for two million by default. The rest waits for the next one.")
    log_cleaner_io_max_bytes_per_second: float = define(DOUBLE, sys.float_info.max, dynamic=True,
        doc="How many bytes the cleaner may read and write in a second, together.")
    log_cleaner_min_cleanable_ratio: float = define(DOUBLE, _LOG.min_cleanable_dirty_ratio,
        topic="min.cleanable.dirty.ratio", low=0, high=1, dynamic=True,
        doc="A compacted partition is cleaned when more than this share of its bytes has not been cleaned yet.")
    log_cleaner_min_compaction_lag_ms: int = define(LONG, _LOG.min_compaction_lag_ms,
        topic="min.compaction.lag.ms", low=0, dynamic=True,
        doc="The shortest time that a record stays unchanged in a compacted topic.")
    log_cleaner_max_compaction_lag_ms: int = define(LONG, _LOG.max_compaction_lag_ms,
        topic="max.compaction.lag.ms", low=1, dynamic=True,
        doc="The longest time that a record waits for compaction, whatever the dirty ratio; it also closes segments.")
    log_cleaner_delete_retention_ms: int = define(LONG, _LOG.delete_retention_ms,
        topic="delete.retention.ms", low=0, dynamic=True,
        doc="How long a compacted topic keeps tombstones, and the markers of transactions that left nothing else.")
    # fmt: on
