"""Validation rules: what the configs of a topic require of every batch, beyond its header."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.records.compression import Compression
from ..configs.definition import LONG_MAX
from ..configs.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What a topic requires of every batch. The defaults require nothing."""

    # None: the producer's codec stays.
    compression: Compression | None = None
    level: int | None = None
    requires_keys: bool = False
    # Invariant: LONG_MAX also where the broker sets the timestamps.
    before_max_ms: int = LONG_MAX

    @property
    def opens_every_batch(self) -> bool:
        """Whether the header of a batch never says enough."""
        return self.requires_keys or self.before_max_ms < LONG_MAX


NO_RULES = ValidationRules()


def validation_rules(config: TopicConfig) -> ValidationRules | None:
    """Return the rules of a topic with these configs, None where its batches are appended as they are."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    rules = ValidationRules(
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
