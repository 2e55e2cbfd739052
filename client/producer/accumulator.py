"""Records that wait: per partition a queue of batches, bounded by `buffer_memory` over all of them.

    append -> open batch -> sealed (full, lingered long enough, or flushed) -> drained (sequence given, encoded) -> in
    flight
           -> acknowledged | requeued in its old place with its old bytes | failed

No event loop in here: time is passed in (`now_ms`, monotonic), results are handed to `Sink`s. `sender.py` moves
batches over the wire.

Idempotence (KIP-98). Each queue has an identity (producer id, epoch) and counts sequences. A batch gets its sequence
when it is drained and keeps it, with the same bytes, through every retry: the broker can then tell a repetition.
After a failed try the queue *recovers*: nothing is drained until all that is in flight has come back, and what must
go again goes in order. When a batch is given up, its sequence is missing for good, so the queue's *identity is lost*:
it waits for what is in flight, and goes on with a fresh producer id from sequence 0. Batches that may have been
written behind a batch of unknown outcome are then failed rather than written twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple, Protocol

from ...protocol.records.batch import decode_batch, encode_batch
from ...protocol.records.compression import Compression
from ...protocol.records.record import Record
from ..errors import BufferFull, DeliveryTimedOut, KafkaError, OutcomeUnknown
from ..record import TopicPartition

_LAST_SEQUENCE = 0x7FFFFFFF


class Identity(NamedTuple):
    """Who writes: a producer id and its epoch, given by InitProducerId. -1 and -1 without idempotence."""

    producer_id: int
    epoch: int


ANONYMOUS = Identity(-1, -1)


class Sink(Protocol):
    """Who is told what became of records: a future of one record, or a whole bulk of them."""

    def delivered(self, batch: Batch, first: int, end: int) -> None:
        """Records first..end-1 of the batch are acknowledged (`batch.base_offset` says where, -1: not told)."""

    def failed(self, batch: Batch, first: int, end: int, error: KafkaError) -> None:
        """Records first..end-1 of the batch are given up."""


class Batch:
    """Neighbouring records of one partition, on their way together."""

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "count",
        "created_ms",
        "encoded",
        "identity",
        "log_append_time_ms",
        "maybe_written",
        "number",
        "partition",
        "records",
        "sinks",
        "size_bytes",
        "watchers",
    )

    def __init__(self, partition: TopicPartition, number: int, created_ms: float) -> None:
        self.partition = partition
        # Invariant: grows from batch to batch of a partition, so it says where a requeued one belongs.
        self.number = number
        self.created_ms = created_ms
        # Invariant: empty while `encoded` is set.
        self.records: list[Record] = []
        self.count = 0
        # An upper bound while records are added, and what `buffer_memory` is charged until the batch is done.
        self.size_bytes = 0
        # (index of its first record, sink): each covers the records up to the next one's first.
        self.sinks: list[tuple[int, Sink]] = []
        self.watchers: list[Callable[[], None]] = []
        self.encoded: bytes | None = None
        self.identity = ANONYMOUS
        self.base_sequence = -1
        self.attempts = 0
        # A try ended without a definite answer: the broker may have the records.
        self.maybe_written = False
        self.base_offset = -1
        self.log_append_time_ms = -1

    def runs(self) -> Iterator[tuple[Sink, int, int]]:
        """Each sink with the records that are its own: (sink, first, end)."""
        end = self.count or len(self.records)
        for position, (first, sink) in enumerate(self.sinks):
            yield sink, first, self.sinks[position + 1][0] if position + 1 < len(self.sinks) else end


class PartitionQueue:
    """The batches of one partition, oldest first. Only `Accumulator` makes these."""

    __slots__ = (
        "_limit_bytes",
        "_numbers",
        "identity",
        "identity_lost",
        "in_flight",
        "muted_until_ms",
        "next_sequence",
        "open",
        "outcome_unknown",
        "partition",
        "sealed",
    )

    def __init__(self, partition: TopicPartition, limit_bytes: int) -> None:
        self.partition = partition
        self._limit_bytes = limit_bytes
        self._numbers = count()
        self.open: Batch | None = None
        # Invariant: ordered by number, so that requeued batches stand in front.
        self.sealed: deque[Batch] = deque()
        # Invariant: ordered by number.
        self.in_flight: list[Batch] = []
        self.identity: Identity | None = None
        self.next_sequence = 0
        self.identity_lost = False
        # A batch was given up of which nobody knows whether it was written.
        self.outcome_unknown = False
        self.muted_until_ms = 0.0

    @property
    def recovering(self) -> bool:
        """Something must go again, so what is behind it waits."""
        return bool(self.sealed) and self.sealed[0].attempts > 0

    def append(self, record: Record, size_bytes: int, sink: Sink, now_ms: float) -> bool:
        """Add a record of at most `size_bytes`.

        True where that started a batch, so that somebody must look at the queue again.
        """
        batch = self.open
        started = batch is None or batch.size_bytes + size_bytes > self._limit_bytes
        if started:
            batch = self._start(now_ms)
        assert batch is not None
        if not batch.sinks or batch.sinks[-1][1] is not sink:
            batch.sinks.append((len(batch.records), sink))
        batch.records.append(record)
        batch.size_bytes += size_bytes
        return started

    def _start(self, now_ms: float) -> Batch:
        self.seal()
        self.open = Batch(self.partition, next(self._numbers), now_ms)
        return self.open

    def seal(self) -> None:
        """The open batch takes no more and may go."""
        if self.open is not None:
            self.sealed.append(self.open)
            self.open = None

    def batches(self) -> list[Batch]:
        """All that are not done."""
        return [*self.in_flight, *self.sealed, *([self.open] if self.open is not None else [])]

    def requeue(self, batch: Batch) -> None:
        """Put a batch that was in flight back in its place."""
        self.in_flight.remove(batch)
        self.sealed.insert(sum(1 for other in self.sealed if other.number < batch.number), batch)

    def take_identity(self, identity: Identity) -> None:
        """Go on as `identity` from sequence 0; what was numbered before and is not in the log is numbered anew."""
        self.identity, self.next_sequence = identity, 0
        self.identity_lost = self.outcome_unknown = False
        for batch in self.sealed:
            if batch.encoded is not None:
                batch.records = [record._replace(offset=-1) for record in decode_batch(batch.encoded)]
                batch.encoded, batch.base_sequence = None, -1


class Accumulator:
    """All queues, the memory they may use, and what is due."""

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: float,
        buffer_memory: int,
        delivery_timeout_ms: float,
        compression: Compression,
        idempotent: bool,
    ) -> None:
        self.batch_size = batch_size
        self.linger_ms = linger_ms
        self.buffer_memory = buffer_memory
        self.delivery_timeout_ms = delivery_timeout_ms
        self.compression = compression
        self.idempotent = idempotent
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        # Invariant: the sum of `size_bytes` over all batches that are not done, at most `buffer_memory`.
        self.used_bytes = 0
        self.flushing = 0
        self.on_release: Callable[[], None] = _nothing
        # Queues that hold something not in flight, in the order in which they are served.
        self._waiting: dict[TopicPartition, PartitionQueue] = {}

    # -- in ----------------------------------------------------------------------------------------

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition, self.batch_size)
        return queue

    def has_room(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self.buffer_memory

    def append(self, queue: PartitionQueue, record: Record, size_bytes: int, sink: Sink, now_ms: float) -> bool:
        """Take a record in. True where the sender should look. Raises BufferFull."""
        if self.used_bytes + size_bytes > self.buffer_memory:
            raise BufferFull(
                f"{self.used_bytes} of {self.buffer_memory} bytes of buffer_memory wait for acknowledgement"
            )
        self.used_bytes += size_bytes
        if queue.append(record, size_bytes, sink, now_ms):
            self._waiting[queue.partition] = queue
            return True
        return False

    # -- out ---------------------------------------------------------------------------------------

    def due(self, now_ms: float) -> tuple[list[PartitionQueue], float | None]:
        """The queues with a batch to send now, and in how many ms the next look is worth it (None.

        Not before something changes).
        """
        ready: list[PartitionQueue] = []
        next_ms: float | None = None
        for partition, queue in list(self._waiting.items()):
            wait_ms = self._wait_ms(queue, now_ms)
            if wait_ms is None:
                if not queue.sealed and queue.open is None:
                    del self._waiting[partition]
            elif wait_ms <= 0:
                ready.append(queue)
            elif next_ms is None or wait_ms < next_ms:
                next_ms = wait_ms
        return ready, next_ms

    def _wait_ms(self, queue: PartitionQueue, now_ms: float) -> float | None:
        """In how many ms the queue may be drained; 0 or less is now, None is when something else happens."""
        if queue.in_flight and (queue.recovering or queue.identity_lost):
            return None
        if not queue.sealed and queue.open is None:
            return None
        wait_ms = queue.muted_until_ms - now_ms
        if not queue.sealed and queue.open is not None and not self.flushing and self.has_room(self.batch_size):
            wait_ms = max(wait_ms, queue.open.created_ms + self.linger_ms - now_ms)
        return wait_ms

    def drain(self, queue: PartitionQueue) -> Batch:
        """The oldest batch, numbered, encoded and now in flight.

        The queue is one that `due` named, with an identity if one is needed.
        """
        if not queue.sealed:
            queue.seal()
        batch = queue.sealed[0]
        if batch.encoded is None:
            self._encode(queue, batch)
        queue.sealed.popleft()
        batch.attempts += 1
        queue.in_flight.append(batch)
        self._waiting.pop(queue.partition)
        if queue.sealed or queue.open is not None:
            self._waiting[queue.partition] = queue  # at the end: the others have their turn first
        return batch

    def _encode(self, queue: PartitionQueue, batch: Batch) -> None:
        batch.count = len(batch.records)
        if self.idempotent:
            assert queue.identity is not None
            batch.identity, batch.base_sequence = queue.identity, queue.next_sequence
            queue.next_sequence = (queue.next_sequence + batch.count) & _LAST_SEQUENCE
        batch.encoded = encode_batch(
            batch.records,
            compression=self.compression,
            producer_id=batch.identity.producer_id,
            producer_epoch=batch.identity.epoch,
            base_sequence=batch.base_sequence,
        )
        batch.records = []

    # -- back --------------------------------------------------------------------------------------

    def acknowledge(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        """The broker has the batch."""
        queue = self.queues[batch.partition]
        queue.in_flight.remove(batch)
        batch.base_offset, batch.log_append_time_ms = base_offset, log_append_time_ms
        self._release(batch)
        for sink, first, end in batch.runs():
            sink.delivered(batch, first, end)
        self._tell(batch)

    def retry(self, batch: Batch, now_ms: float, pause_ms: float) -> None:
        """The batch goes again, after a pause, before everything behind it."""
        queue = self.queues[batch.partition]
        queue.requeue(batch)
        queue.muted_until_ms = max(queue.muted_until_ms, now_ms + pause_ms)
        self._waiting[queue.partition] = queue

    def fail(self, batch: Batch, error: KafkaError) -> None:
        """Give the batch up. With idempotence its queue goes on under a new identity."""
        queue = self.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.sealed:
            queue.sealed.remove(batch)
        elif batch is queue.open:
            queue.open = None
        if batch.base_sequence >= 0:
            queue.identity_lost = True
            queue.outcome_unknown = queue.outcome_unknown or batch.maybe_written
        self._release(batch)
        for sink, first, end in batch.runs():
            sink.failed(batch, first, end, error)
        self._tell(batch)
        if queue.outcome_unknown:
            self.fail_uncertain(queue)

    def fail_uncertain(self, queue: PartitionQueue) -> None:
        """Nobody knows where the log stands, so what may be in it must not go again."""
        for batch in [batch for batch in queue.sealed if batch.maybe_written]:
            self.fail(
                batch,
                OutcomeUnknown(f"{batch.partition}: an earlier batch got no answer; this one may be written or not"),
            )

    def expire(self, now_ms: float) -> None:
        """Fail what has waited for `delivery_timeout_ms`. What is in flight is left to its request's own time-out."""
        for queue in list(self._waiting.values()):
            while (batch := queue.sealed[0] if queue.sealed else queue.open) is not None and self.is_late(
                batch, now_ms
            ):
                self.fail(batch, self.lateness(batch))

    def is_late(self, batch: Batch, now_ms: float) -> bool:
        return now_ms - batch.created_ms >= self.delivery_timeout_ms

    def lateness(self, batch: Batch) -> DeliveryTimedOut:
        fate = "nobody knows whether they were written" if batch.maybe_written else "they were not written"
        records = batch.count or len(batch.records)
        return DeliveryTimedOut(
            f"{records} records for {batch.partition.topic}-{batch.partition.partition} were not acknowledged within "
            f"delivery_timeout_ms ({self.delivery_timeout_ms:g}); {fate}"
        )

    def pending(self) -> list[Batch]:
        """All batches that are not done."""
        return [batch for queue in self.queues.values() for batch in queue.batches()]

    def _release(self, batch: Batch) -> None:
        self.used_bytes -= batch.size_bytes
        self.on_release()

    def _tell(self, batch: Batch) -> None:
        batch.encoded = None
        for told in batch.watchers:
            told()


def _nothing() -> None:
    """Nobody waits for room."""
