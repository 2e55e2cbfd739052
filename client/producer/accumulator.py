"""The records that wait to be sent or acknowledged: a queue of batches per partition, bounded by `buffer_memory`.

    append --> open --> sealed --> in flight --> acknowledged
                          ^            |
                          +--- retry --+--> failed

A batch is sealed when it is full, has lingered for `linger_ms`, or is flushed. `drain` numbers and encodes it; then it
is in flight. A retry puts it back in its old place with its old bytes; a batch that is too large for the broker is
replaced by smaller ones. Open and sealed batches fail, too, when `delivery_timeout_ms` is over.

There is no event loop in here: time is passed in (`now_ms`, monotonic), outcomes go to `DeliveryCallback`s. `sender.py`
moves batches over the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocol.records.record import Record
from ..errors import BufferFull, ErrorCode, KafkaError, OutcomeUnknown
from ..record import RecordMetadata, TopicPartition
from .batch import BatchLimits, DeliveryCallback, ProducerBatch, split
from .options import ProducerOptions
from .partition_queue import PartitionQueue

_LAST_SEQUENCE = 0x7FFFFFFF


@dataclass(eq=False, repr=False)
class RecordAccumulator:
    """The queues of all partitions and the memory that they may use. Knows which queues are due."""

    _options: ProducerOptions
    # By TopicPartition, which a plain pair equals.
    queues: dict[tuple[str, int], PartitionQueue] = field(default_factory=dict[tuple[str, int], PartitionQueue])
    # Invariant: the sum of `size_bytes` over all batches that are not done, at most `buffer_memory`.
    used_bytes: int = 0
    # How many calls found no room, and raised.
    rejected_records: int = 0
    # How many calls of flush wait; nothing lingers meanwhile.
    flushing: int = 0
    # Called when memory becomes free.
    on_release: Callable[[], None] | None = None
    # Called with each batch that fails, before its callbacks.
    on_failure: list[Callable[[ProducerBatch, KafkaError], None]] = field(default_factory=list[Any])
    # Queues that have a batch not in flight, in the order in which they take turns.
    _unsent: dict[TopicPartition, PartitionQueue] = field(default_factory=dict[TopicPartition, PartitionQueue])
    _limits: BatchLimits = field(default_factory=BatchLimits)

    def __post_init__(self) -> None:
        self.buffer_memory = self._options.buffer_memory
        self._batch_size = min(self._options.batch_size, self._options.max_request_size)

    # -- Append

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition, made on first use."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition, self._batch_size)
        return queue

    @property
    def free_bytes(self) -> int:
        """What is free of `buffer_memory` now."""
        return self.buffer_memory - self.used_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether a record of this size fits into `buffer_memory` now."""
        return self.used_bytes + size_bytes <= self.buffer_memory

    def append(
        self,
        queue: PartitionQueue,
        record: Record,
        size_bytes: int,
        callback: DeliveryCallback | None,
        now_ms: float,
        future: asyncio.Future[RecordMetadata] | None = None,
    ) -> bool:
        """Add a record, with a callback or a future. Return whether the sender must be woken. Raises BufferFull."""
        # `_take_room` written out: a call less a record.
        if self.used_bytes + size_bytes > self.buffer_memory:
            raise self._no_room()
        self.used_bytes += size_bytes
        if queue.append(record, size_bytes, callback, now_ms, future):
            self._unsent[queue.partition] = queue
            return True
        return False

    def extend(
        self,
        queue: PartitionQueue,
        records: Sequence[Record],
        sizes: Sequence[int],
        callback: DeliveryCallback,
        now_ms: float,
    ) -> bool:
        """Add records, each with its size. Return whether the sender must be woken. Raises BufferFull."""
        self._take_room(sum(sizes))
        if queue.extend(records, sizes, callback, now_ms):
            self._unsent[queue.partition] = queue
            return True
        return False

    def append_batch(self, queue: PartitionQueue, whole: bytes, count: int, now_ms: float) -> ProducerBatch:
        """Return a new whole batch of `count` records; the sender must be woken. Raises BufferFull."""
        self._take_room(len(whole))
        self._unsent[queue.partition] = queue
        return queue.append_batch(whole, count, now_ms)

    def full(self, message: str) -> BufferFull:
        """Return the error of a record that has found no room, which is counted."""
        self.rejected_records += 1
        return BufferFull(message)

    def _take_room(self, size_bytes: int) -> None:
        if self.used_bytes + size_bytes > self.buffer_memory:
            raise self._no_room()
        self.used_bytes += size_bytes

    def _no_room(self) -> BufferFull:
        return self.full(f"{self.used_bytes} of {self.buffer_memory} bytes of buffer_memory wait for acknowledgement")

    # -- Drain

    def due(self, now_ms: float, *, linger: bool = True) -> tuple[list[PartitionQueue], float | None]:
        """Return the queues with a batch to send now, and the milliseconds until the next one is due.

        None instead of milliseconds: no other queue becomes due by time alone. Open batches are due at once without
        `linger`.
        """
        self._limits.forget(now_ms)
        ready: list[PartitionQueue] = []
        next_ms: float | None = None
        for partition, queue in list(self._unsent.items()):
            wait_ms = self._wait_ms(queue, now_ms, linger)
            if wait_ms is None:
                if not queue.has_unsent:
                    del self._unsent[partition]
            elif wait_ms <= 0:
                ready.append(queue)
            elif next_ms is None or wait_ms < next_ms:
                next_ms = wait_ms
        return ready, next_ms

    def _wait_ms(self, queue: PartitionQueue, now_ms: float, linger: bool) -> float | None:
        """Return the milliseconds until the queue may be drained (0 or less: now), None if time alone is not enough."""
        if queue.in_flight and (queue.retrying or queue.lost_from is not None or queue.waits_for_first):
            return None
        if not queue.has_unsent:
            return None
        wait_ms = queue.muted_until_ms - now_ms
        lingers = linger and not self.flushing and self.has_room(self._batch_size)
        if lingers and not queue.sealed and queue.open is not None:
            wait_ms = max(wait_ms, queue.open.created_ms + self._options.linger_ms - now_ms)
        return wait_ms

    @property
    def has_unsent(self) -> bool:
        """Whether a batch may not be in flight."""
        return bool(self._unsent)

    def drain(self, queue: PartitionQueue) -> ProducerBatch:
        """Return the oldest unsent batch, encoded and now in flight.

        `due` must have returned the queue, and it must have a producer id if idempotence needs one.
        """
        if not queue.sealed:
            queue.seal()
        batch = queue.sealed[0]
        if batch.encoded is None:
            self._encode(queue, batch)
        self._cut_to_limit(queue)
        batch = queue.sealed.popleft()
        batch.attempts += 1
        queue.in_flight.append(batch)
        self._unsent.pop(queue.partition)
        if queue.has_unsent:
            self._unsent[queue.partition] = queue  # at the end: the other queues have their turn first
        return batch

    def _cut_to_limit(self, queue: PartitionQueue) -> None:
        """Cut the oldest sealed batch, which is encoded, if the broker would reject it as too large.

        A batch that was sent already is left whole: the broker may have it.
        """
        limit = self._limits.limit(queue.partition.topic)
        while limit is not None:
            batch = queue.sealed[0]
            if batch.attempts or not batch.may_split or batch.encoded is None or len(batch.encoded) <= limit:
                return
            queue.replace(batch, split(batch, self._options, limit))

    def _encode(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if batch.whole is None:
            batch.count = len(batch.records)
        if self._options.enable_idempotence:
            assert queue.producer is not None
            batch.producer, batch.base_sequence = queue.producer, queue.next_sequence
            queue.next_sequence = (queue.next_sequence + batch.count) & _LAST_SEQUENCE
        batch.encode(self._options)

    # -- Outcomes

    def acknowledge(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        """The broker has the batch: it is done."""
        if batch.encoded is not None:
            self._limits.taken(batch.partition.topic, len(batch.encoded))
        queue = self.queues[batch.partition]
        queue.in_flight.remove(batch)
        queue.last_error, queue.acknowledged_id = None, batch.producer.producer_id
        queue.acknowledged_number = max(queue.acknowledged_number, batch.number)
        self._release(batch)
        batch.complete(base_offset, log_append_time_ms)
        self.fail_unrepeatable(queue)

    def retry(self, batch: ProducerBatch, now_ms: float, pause_ms: float) -> None:
        """Send the batch again after a pause, before everything behind it."""
        queue = self.queues[batch.partition]
        queue.requeue(batch)
        queue.muted_until_ms = max(queue.muted_until_ms, now_ms + pause_ms)
        self._unsent[queue.partition] = queue

    def split(self, batch: ProducerBatch, now_ms: float) -> None:
        """The broker rejected the batch as too large: send its parts, with the sequences of their records."""
        queue = self.queues[batch.partition]
        assert batch.encoded is not None
        self._limits.rejected(batch.partition.topic, len(batch.encoded), now_ms)
        parts = split(batch, self._options, self._limits.limit(batch.partition.topic) or 0)
        queue.requeue(batch)
        queue.replace(batch, parts)
        self._unsent[queue.partition] = queue

    def fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        """The batch has failed for good. With idempotence, its queue needs a new producer id."""
        queue = self.queues[batch.partition]
        self._fail_one(queue, batch, error)
        self.fail_unrepeatable(queue)

    def fail_unrepeatable(self, queue: PartitionQueue) -> None:
        """Fail sealed batches that would be written twice or out of order under a new producer id."""
        while (batch := queue.next_unrepeatable()) is not None:
            topic, number = batch.partition
            if batch.maybe_written:
                text = f"{topic}-{number}: an earlier batch has failed; this one may be written or not"
                self._fail_one(queue, batch, OutcomeUnknown(text))
            else:
                text = f"{topic}-{number}: an earlier batch has failed, and later ones are written already"
                self._fail_one(queue, batch, KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text))

    def _fail_one(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        queue.remove(batch)
        if batch.base_sequence >= 0:
            queue.lose_sequence(batch)
        self._release(batch)
        for tell in self.on_failure:
            tell(batch, error)
        batch.fail(error)

    def fail_all(self, error: KafkaError) -> None:
        """Fail every batch. Nothing will be known any more of those in flight."""
        for queue in list(self.queues.values()):
            for batch in queue.in_flight:
                batch.maybe_written = True
            for batch in queue.batches():
                self._fail_one(queue, batch, error)

    def fail_unsent(self, error: KafkaError) -> None:
        """Fail every batch that is not in flight."""
        for queue in list(self._unsent.values()):
            while (batch := queue.next_batch) is not None:
                self.fail(batch, error)

    def expire(self, now_ms: float) -> None:
        """Fail unsent batches whose `delivery_timeout_ms` is over. Batches in flight have their request's time-out."""
        for queue in list(self._unsent.values()):
            while (batch := queue.next_batch) is not None and self.is_expired(batch, now_ms):
                self.fail(batch, batch.timeout_error(self._options.delivery_timeout_ms, queue.last_error))

    def is_expired(self, batch: ProducerBatch, now_ms: float) -> bool:
        """Whether the batch's `delivery_timeout_ms` is over."""
        return now_ms - batch.created_ms >= self._options.delivery_timeout_ms

    def pending(self) -> list[ProducerBatch]:
        """Return all batches that are not done."""
        return [batch for queue in self.queues.values() for batch in queue.batches()]

    def _release(self, batch: ProducerBatch) -> None:
        self.used_bytes -= batch.size_bytes
        if self.on_release is not None:
            self.on_release()
