"""What a producer counts, and its metrics under Kafka's names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..core.metrics import Average, Metric
from ..errors import KafkaError
from .accumulator import RecordAccumulator
from .batch import ProducerBatch

PRODUCER = "producer-metrics"
TOPIC = "producer-topic-metrics"


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
