"""The values that users hold: where a record lies, what was read, what was written.

Plain tuples with names: cheap to make by the hundred thousand (a tuple is built in C), comparable, hashable and safe
to share. Times are milliseconds since 1970 UTC, keys and values bytes or None, offsets count from 0 within a
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Header = tuple[str, bytes | None]
Headers = Sequence[Header]

# Kafka's timestamp types, as they stand in a batch's attributes.
CREATE_TIME = 0
LOG_APPEND_TIME = 1

# The timestamps of ListOffsets that stand for an end of the log.
LATEST = -1
EARLIEST = -2


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class ConsumerRecord(NamedTuple):
    """One record as it was read.

    `timestamp_type` is CREATE_TIME (0: the producer's clock) or LOG_APPEND_TIME (1: the broker's).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordMetadata(NamedTuple):
    """Where a record was written.

    `offset` is -1 where the broker did not say (acks=0, or a retry that it had seen before).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed position.

    The next offset to read, with a note of the committer's and the leader epoch it was read in (-1: unknown).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """An answer to "which offset was at that time". Both are -1 where there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1
