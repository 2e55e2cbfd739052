"""The batches of one partition that are not done, oldest first, and the producer id that numbers them.

Idempotence (KIP-98): the queue has a producer id and counts sequences. A batch gets its sequence when it is drained,
and keeps it with the same bytes through every retry, so that the broker can detect duplicates. The first batch of a
producer id goes alone, because a broker takes any sequence of one that it does not know. While a retry waits, nothing
is drained until all batches in flight have come back; then they go again in order. After a batch has failed,
its sequence is missing for good. The queue then waits for what is in flight. Batches before the failed one go again as
they are. Those behind it go on with a new producer id from sequence 0; but one that may be written fails, because no
broker would recognize it any more, and could write it twice.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count

from ...protocol.errors import KafkaError
from ...protocol.records.record import Record
from ..record import RecordMetadata, TopicPartition
from .batch import DeliveryCallback, ProducerBatch, ProducerIdAndEpoch


@dataclass(slots=True, eq=False, repr=False)
class PartitionQueue:
    """The batches of one partition: in flight, sealed, and the open batch that takes records."""

    partition: TopicPartition
    _batch_size: int
    _numbers: Iterator[int] = field(default_factory=count)
    open: ProducerBatch | None = None
    # Invariant: ordered by number, so that requeued batches are in front.
    sealed: deque[ProducerBatch] = field(default_factory=deque[ProducerBatch])
    # Invariant: ordered by number.
    in_flight: list[ProducerBatch] = field(default_factory=list[ProducerBatch])
    # When the last batch began.
    used_ms: float = 0.0
    # None until InitProducerId has returned one.
    producer: ProducerIdAndEpoch | None = None
    next_sequence: int = 0
    # The producer id of the last batch that was acknowledged, and the highest number of those that were.
    acknowledged_id: int = -1
    acknowledged_number: tuple[int, ...] = ()
    # The number of the first batch whose sequence is missing for good: from there on the queue needs a new producer
    # id. None while all sequences are there.
    lost_from: tuple[int, ...] | None = None
    # The leader that has the batches in flight.
    sent_to: int = -1
    muted_until_ms: float = 0.0
    # Why the last attempt to send failed, for records that expire; None since an acknowledgement.
    last_error: KafkaError | None = None

    @property
    def needs_producer_id(self) -> bool:
        """Whether the queue has no producer id to go on with.

        A batch before the missing sequence goes again under the old one, by which a broker knows what it has.
        """
        if self.lost_from is None:
            return self.producer is None
        return not (self.sealed and self.sealed[0].number < self.lost_from)

    def lose_sequence(self, batch: ProducerBatch) -> None:
        """The sequence of a batch will be missing in the log."""
        if self.lost_from is None or batch.number < self.lost_from:
            self.lost_from = batch.number

    def lacks_before(self, batch: ProducerBatch) -> bool:
        """Whether a batch before this one will be missing in the log, or waits to be sent or acknowledged."""
        if self.lost_from is not None and self.lost_from < batch.number:
            return True
        return any(other.number < batch.number for other in (*self.sealed, *self.in_flight))

    def next_unrepeatable(self) -> ProducerBatch | None:
        """Return a sealed batch that must not go again under a new producer id, but needs one; None if there is none.

        It may be written, or a later one was acknowledged.
        """
        if self.lost_from is None:
            return None
        behind = (batch for batch in self.sealed if batch.number >= self.lost_from)
        return next((each for each in behind if each.maybe_written or each.number < self.acknowledged_number), None)

    @property
    def waits_for_first(self) -> bool:
        """Whether the batch in flight is the first of its producer id, and must be acknowledged before the next goes.

        A broker that does not know the producer id takes any sequence: if the first batch has to be sent again, the
        second one would be in the log without it, and the first one would be rejected for ever.
        """
        return self.producer is not None and self.producer.producer_id != self.acknowledged_id

    @property
    def retrying(self) -> bool:
        """Whether the next batch is a retry: the batches behind it wait for it."""
        return bool(self.sealed) and self.sealed[0].attempts > 0

    @property
    def has_unsent(self) -> bool:
        """Whether there is a batch that is not in flight."""
        return bool(self.sealed) or self.open is not None

    @property
    def next_batch(self) -> ProducerBatch | None:
        """The oldest batch that is not in flight."""
        return self.sealed[0] if self.sealed else self.open

    def append(
        self,
        record: Record,
        size_bytes: int,
        callback: DeliveryCallback | None,
        now_ms: float,
        future: asyncio.Future[RecordMetadata] | None = None,
    ) -> bool:
        """Add a record of at most `size_bytes`, with a callback or a future. Return whether that started a batch."""
        batch = self.open
        started = batch is None or batch.size_bytes + size_bytes > self._batch_size
        if started:
            batch = self._start(now_ms)
        assert batch is not None
        records, callbacks = batch.records, batch.callbacks
        if not callbacks or callbacks[-1][1] is not callback:
            callbacks.append((len(records), callback))
        if future is not None:
            awaited = batch.awaited
            awaited.indexes.append(len(records))
            awaited.timestamps_ms.append(record[1])
            awaited.futures.append(future)
        records.append(record)
        batch.size_bytes += size_bytes
        return started

    def extend(
        self, records: Sequence[Record], sizes: Sequence[int], callback: DeliveryCallback, now_ms: float
    ) -> bool:
        """Add records, each with its size. Return whether that started a batch."""
        totals = list(accumulate(sizes))
        begin, done, started = 0, 0, False
        while begin < len(records):
            batch = self.open
            room = 0 if batch is None else self._batch_size - batch.size_bytes
            end = bisect_right(totals, done + room, begin)
            if batch is None or end == begin:
                batch, started = self._start(now_ms), True
                end = max(begin + 1, bisect_right(totals, done + self._batch_size, begin))
            if not batch.callbacks or batch.callbacks[-1][1] is not callback:
                batch.callbacks.append((len(batch.records), callback))
            batch.records += records[begin:end]
            batch.size_bytes += totals[end - 1] - done
            begin, done = end, totals[end - 1]
        return started

    def append_batch(self, whole: bytes, count: int, now_ms: float) -> ProducerBatch:
        """Return a whole batch of `count` records, put behind what waits."""
        batch = self._start(now_ms)
        batch.whole, batch.count, batch.size_bytes = whole, count, len(whole)
        self.seal()
        return batch

    def _start(self, now_ms: float) -> ProducerBatch:
        self.seal()
        self.used_ms = now_ms
        self.open = ProducerBatch(self.partition, (next(self._numbers),), now_ms)
        return self.open

    def seal(self) -> None:
        """Let the open batch take no more records, so that it may be sent."""
        if self.open is not None:
            self.sealed.append(self.open)
            self.open = None

    def batches(self) -> list[ProducerBatch]:
        """Return all batches that are not done."""
        return [*self.in_flight, *self.sealed, *([self.open] if self.open is not None else [])]

    def requeue(self, batch: ProducerBatch) -> None:
        """Put a batch that was in flight back in its place."""
        self.in_flight.remove(batch)
        self.sealed.insert(sum(1 for other in self.sealed if other.number < batch.number), batch)

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Put the parts of a sealed batch in its place. Later batches get smaller."""
        place = self.sealed.index(batch)
        self.sealed.remove(batch)
        for part in reversed(parts):
            self.sealed.insert(place, part)
        if batch.whole is None:
            self._batch_size = min(self._batch_size, max(part.size_bytes for part in parts))

    def remove(self, batch: ProducerBatch) -> None:
        """Take out a batch that is done, wherever it is."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.sealed:
            self.sealed.remove(batch)
        elif batch is self.open:
            self.open = None

    def reset_producer_id(self, producer: ProducerIdAndEpoch) -> None:
        """Go on with another producer id from sequence 0; sealed batches that have a sequence get a new one."""
        self.producer, self.next_sequence = producer, 0
        self.lost_from = None
        for batch in self.sealed:
            if batch.encoded is not None:
                batch.records = [] if batch.whole is not None else batch.decode()
                batch.encoded, batch.base_sequence = None, -1
