"""What a producer tells: listeners to the stages of its pipeline, interceptors of its records, counts and metrics.

    send --> interceptors --> enqueued --> batched --> sent --> acknowledged or failed
                                                        ^  |
                                                        +--+ again after a retriable error

Listeners and interceptors run in the event loop and must return at once. An exception in one of them is logged, and the
record goes on. Metrics have Kafka's names.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.metrics import Average, Metric
from ..errors import DeliveryFailed, KafkaError, delivery_error
from ..record import HeadersLike, RecordMetadata, TopicPartition
from .accumulator import RecordAccumulator
from .batch import DeliveryCallback, ProducerBatch

_log = logging.getLogger(__name__)
PRODUCER = "producer-metrics"
TOPIC = "producer-topic-metrics"


class BatchDescription(NamedTuple):
    """A batch on its way: its partition, its records, its encoded size, and how often it was sent."""

    partition: TopicPartition
    records: int
    size_bytes: int
    attempts: int


class ProducerListener:
    """Is told of each stage. Override the stages that you want."""

    def enqueued(self, partition: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        """A record was put into the buffer, in the open batch of its partition (not with `send_values`)."""

    def batched(self, batch: BatchDescription) -> None:
        """A batch is complete and encoded."""

    def sent(self, batch: BatchDescription, node_id: int) -> None:
        """A batch was sent to a broker, for the first time or again."""

    def acknowledged(self, batch: BatchDescription, base_offset: int) -> None:
        """A batch is in the log; -1 if the broker gave no offset."""

    def failed(self, batch: BatchDescription, error: DeliveryFailed) -> None:
        """A batch has failed for good."""


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: HeadersLike = ()


class ProducerInterceptor:
    """Sees each record before it is serialized, and its outcome. Override what you want (KIP-42)."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send in the place of this one."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """A record was acknowledged (metadata) or has failed (error)."""


def _call(hook: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of a user's hook, None if it raised."""
    try:
        return hook(*arguments)
    except Exception:  # noqa: BLE001 - it is the user's code, and the record must go on
        _log.exception("%s of a producer raised; the record goes on", getattr(hook, "__qualname__", hook))
        return None


class Listeners(tuple[ProducerListener, ...]):
    """The listeners of one producer."""

    __slots__ = ()

    def enqueued(self, partition: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        for each in self:
            _call(each.enqueued, partition, key, value)

    def sent(self, batch: ProducerBatch, node_id: int) -> None:
        for each in self:
            described = describe(batch)
            if batch.attempts == 1:
                _call(each.batched, described)
            _call(each.sent, described, node_id)

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        for each in self:
            _call(each.acknowledged, describe(batch), base_offset)

    def failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        for each in self:
            _call(each.failed, describe(batch), delivery_error(error, batch.outcome))


class Interceptors(tuple[ProducerInterceptor, ...]):
    """The interceptors of one producer, in their order."""

    __slots__ = ()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record after all interceptors; one that raises is passed over."""
        for each in self:
            record = _call(each.on_send, record) or record
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Tell all interceptors of one record's outcome."""
        for each in self:
            _call(each.on_acknowledgement, metadata, error)


class InterceptedDelivery:
    """Tells interceptors of each record's outcome, then a callback, if there is one. A `DeliveryCallback`."""

    __slots__ = ("_callback", "_interceptors", "_timestamp_ms")

    def __init__(self, interceptors: Interceptors, callback: DeliveryCallback | None, timestamp_ms: int) -> None:
        self._interceptors = interceptors
        self._callback = callback
        self._timestamp_ms = timestamp_ms

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        """Tell of the place of each record."""
        time_ms = self._timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        for number in range(first, end):
            offset = batch.base_offset + number if batch.base_offset >= 0 else -1
            self._interceptors.on_acknowledgement(RecordMetadata(*batch.partition, offset, time_ms), None)
        if self._callback is not None:
            self._callback.delivered(batch, first, end)

    def failed(self, batch: ProducerBatch, first: int, end: int, error: DeliveryFailed) -> None:
        """Tell of the error of each record."""
        for _ in range(first, end):
            self._interceptors.on_acknowledgement(None, error)
        if self._callback is not None:
            self._callback.failed(batch, first, end, error)


def describe(batch: ProducerBatch) -> BatchDescription:
    """Return what listeners see of a batch."""
    size_bytes = batch.size_bytes if batch.encoded is None else len(batch.encoded)
    return BatchDescription(batch.partition, batch.count or len(batch.records), size_bytes, batch.attempts)


# -- Counts and metrics


@dataclass(slots=True)
class _TopicCounts:
    """Of one topic. Records and bytes of a batch that goes again count again, as in Kafka's clients."""

    records: int = 0
    bytes: int = 0
    retried: int = 0
    failed: int = 0


class ProducerCounts:
    """Counts since the start of a producer."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, _TopicCounts] = defaultdict(_TopicCounts)
        self._queue_ms = Average()
        self._latency_ms = Average()
        self._throttle_ms = Average()
        self._batch_bytes = Average()
        self._request_records = Average()
        self._splits = 0

    # -- What happens

    def sent(self, batches: Iterable[ProducerBatch], now_ms: float) -> None:
        """A request with these batches was sent."""
        records = 0
        for batch in batches:
            assert batch.encoded is not None
            size, topic = len(batch.encoded), self._topics[batch.partition.topic]
            topic.records += batch.count
            topic.bytes += size
            records += batch.count
            self._batch_bytes.add(size)
            self._queue_ms.add(now_ms - batch.created_ms)
        self._request_records.add(records)

    def answered(self, latency_ms: float, throttle_ms: int) -> None:
        """A response came."""
        self._latency_ms.add(latency_ms)
        self._throttle_ms.add(throttle_ms)

    def retried(self, batch: ProducerBatch) -> None:
        """A batch will go again."""
        self._topics[batch.partition.topic].retried += batch.count

    def split(self) -> None:
        """A batch was split, because it was too large for its broker."""
        self._splits += 1

    def failed(self, batch: ProducerBatch, _error: KafkaError) -> None:
        """A batch has failed for good."""
        self._topics[batch.partition.topic].failed += batch.count or len(batch.records)

    # -- What is told

    def metrics(self, client_id: str, accumulator: RecordAccumulator, in_flight: int) -> Iterator[Metric]:
        """Yield all metrics."""
        tags = {"client-id": client_id}
        topics = self._topics.values()
        for name, value in (
            ("record-send-total", sum(each.records for each in topics)),
            ("record-retry-total", sum(each.retried for each in topics)),
            ("record-error-total", sum(each.failed for each in topics)),
            ("record-queue-time-avg", self._queue_ms.mean),
            ("record-queue-time-max", self._queue_ms.largest),
            ("records-per-request-avg", self._request_records.mean),
            ("request-latency-avg", self._latency_ms.mean),
            ("request-latency-max", self._latency_ms.largest),
            ("produce-throttle-time-avg", self._throttle_ms.mean),
            ("produce-throttle-time-max", self._throttle_ms.largest),
            ("batch-size-avg", self._batch_bytes.mean),
            ("batch-size-max", self._batch_bytes.largest),
            ("batch-split-total", self._splits),
            ("requests-in-flight", in_flight),
            ("buffer-total-bytes", accumulator.buffer_memory),
            ("buffer-available-bytes", accumulator.free_bytes),
            ("buffer-exhausted-total", accumulator.rejected_records),
        ):
            yield Metric(PRODUCER, name, value, tags)
        for topic, counts in self._topics.items():
            for name, value in (
                ("record-send-total", counts.records),
                ("record-retry-total", counts.retried),
                ("record-error-total", counts.failed),
                ("byte-total", counts.bytes),
            ):
                yield Metric(TOPIC, name, value, {**tags, "topic": topic})
