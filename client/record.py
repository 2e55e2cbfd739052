"""The values that users of the client hold: partitions, records and offsets.

They are named tuples, because these are cheap to make by the hundred thousand, comparable and hashable. Times are
milliseconds since 1970 UTC, keys and values are bytes or None, offsets count from 0 within a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple

from ..protocol.topic_partition import TopicPartition as TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Keys and values: bytes, or what serializers take and deserializers return.
    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
T = TypeVar("T")
E = TypeVar("E")

Header = tuple[str, bytes | None]
Headers = Sequence[Header]
# Headers for a producer: pairs, in which names may repeat, or a dict.
HeadersLike = Headers | Mapping[str, bytes | None]

# Kafka's timestamp types, as in a batch's attributes.
CREATE_TIME = 0
LOG_APPEND_TIME = 1

# Timestamps of ListOffsets that mean an end of the log.
LATEST = -1
EARLIEST = -2


def by_topic(partitions: Iterable[tuple[T, E]]) -> dict[T, list[E]]:
    """Return partitions, by number or as a request names them, by topic or topic id, as most of Kafka's requests do."""
    topics: dict[T, list[E]] = {}
    for topic, each in partitions:
        topics.setdefault(topic, []).append(each)
    return topics


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record that a consumer read. Key and value are bytes, or what its deserializers made of them.

    `timestamp_type` is CREATE_TIME (0: the producer's clock) or LOG_APPEND_TIME (1: the broker's).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: K | None
    value: V | None
    headers: Headers


class ShareRecord(NamedTuple, Generic[K, V]):
    """One record that a share consumer acquired. `delivery_count` is 1 when it is delivered for the first time."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: K | None
    value: V | None
    headers: Headers
    delivery_count: int = 1


class RecordMetadata(NamedTuple):
    """The place of a record that a producer wrote.

    `offset` is -1 if the broker did not say (acks=0, or a retry that it had seen before).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next offset to read, any text of the committer's, and a leader epoch (-1: unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a time, and its time; both are -1 if there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group, so that a transaction's offsets are fenced with it (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
