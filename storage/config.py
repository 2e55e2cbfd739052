"""The config of a log, under the names of Kafka's topic configs in snake case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from ..protocol.records.record import NO_SIZE_LIMIT

NEVER = 2**63 - 1


@dataclass(slots=True)
class LogConfig:
    """The config of one log, with Kafka's defaults. It may change while the log is open; the next append uses it."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    # How much earlier a segment may be closed, so that those of many partitions are not all closed at once.
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    # When flush_delay_ms() says so; by default the operating system decides (and every roll asks for one).
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    # The bounds of retention; negative: no bound.
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    # When compaction is due, and which records it may take.
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = 24 * 3600 * 1000
    # How long the files of deleted segments stay, for readers that still use them.
    file_delete_delay_ms: int = 60_000
    # The bound of a record in a compressed batch; by default there is none.
    max_decompressed_message_bytes: int = NO_SIZE_LIMIT
    # A broker's config in Kafka; it bounds the idempotence state of each log.
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    def closing_age_ms(self, directory: Path, base_offset: int) -> int:
        """Return the age past which the segment at `base_offset` of the log in `directory` is closed.

        As chance would have it, and yet the same after each restart: what a segment is called decides.
        """
        if not (self.segment_jitter_ms and self.segment_ms):
            return self.segment_ms
        spread_ms = min(self.segment_jitter_ms, self.segment_ms)
        return self.segment_ms - crc32(b"%s %d" % (directory.name.encode(), base_offset)) % spread_ms
