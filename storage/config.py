"""What a log lets its owner choose, under the names of Kafka's topic configs in snake case."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 2**63 - 1


@dataclass(slots=True)
class LogConfig:
    """May be replaced or changed while the log is open: the next append goes by it. Defaults are Kafka's."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    # When needs_flush() says so; by default the operating system decides (and every roll asks for one).
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    # What retention goes by; negative: no bound.
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    # How long the files of segments that were taken away stay, for those who read them.
    file_delete_delay_ms: int = 60_000
    # A broker's config in Kafka; it bounds the idempotence state of each log.
    producer_id_expiration_ms: int = 24 * 3600 * 1000
