"""A batch of records on its way to one partition, and the callbacks that wait for its outcome."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import NamedTuple, Protocol

from ...kernel import door
from ...protocol.records.record import Record
from ..errors import DeliveryFailed, KafkaError, Outcome, delivery_error
from ..record import RecordMetadata, TopicPartition

# Makes a named tuple without its Python-level constructor, in half the time.
_Maker = Callable[[type[RecordMetadata], tuple[object, ...]], RecordMetadata]
_new_metadata: _Maker = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch, as InitProducerId returns them; -1 and -1 without idempotence."""

    producer_id: int
    epoch: int


NO_PRODUCER_ID = ProducerIdAndEpoch(-1, -1)


class DeliveryCallback(Protocol):
    """Waits for the outcome of records: of one record, or of many."""

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        """Records first..end-1 are acknowledged (`batch.base_offset` is -1 if the broker gave no offset)."""

    def failed(self, batch: ProducerBatch, first: int, end: int, error: DeliveryFailed) -> None:
        """Records first..end-1 have failed for good."""


class AwaitedRecords:
    """The records of a batch that have a future each: lists with an entry a record.

    A callback for each would be two more objects a record, through which the garbage collector goes again and again.
    """

    __slots__ = ("futures", "indexes", "timestamps_ms")

    def __init__(self) -> None:
        # Each record's place in its batch. Invariant: they grow.
        self.indexes: list[int] = []
        self.timestamps_ms: list[int] = []
        self.futures: list[asyncio.Future[RecordMetadata]] = []

    def delivered(self, batch: ProducerBatch) -> None:
        """Set each record's metadata."""
        for future, place in zip(self.futures, self.places(batch), strict=True):
            if not future.done():  # the user may have cancelled it
                future.set_result(place)

    def places(self, batch: ProducerBatch) -> list[RecordMetadata]:
        """Return each record's metadata; a batch without a base offset gives -1 as offsets."""
        topic, partition = batch.partition
        base_offset, append_time_ms = batch.base_offset, batch.log_append_time_ms
        indexes, times = self.indexes, self.timestamps_ms
        if door.compiled is not None:
            found = door.compiled.places(RecordMetadata, topic, partition, base_offset, append_time_ms, indexes, times)
            if found is not None:
                return found
        offsets = [base_offset + index for index in indexes] if base_offset >= 0 else [-1] * len(indexes)
        cells = zip(offsets, times if append_time_ms < 0 else repeat(append_time_ms), strict=False)
        return [_new_metadata(RecordMetadata, (topic, partition, offset, time_ms)) for offset, time_ms in cells]

    def failed(self, error: DeliveryFailed) -> None:
        """Set the error."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def between(self, first: int, end: int) -> AwaitedRecords:
        """Return the part of the records first..end-1, counted from `first`."""
        inside = slice(bisect_left(self.indexes, first), bisect_left(self.indexes, end))
        part = AwaitedRecords()
        part.indexes = [index - first for index in self.indexes[inside]]
        part.timestamps_ms, part.futures = self.timestamps_ms[inside], self.futures[inside]
        return part


class ProducerBatch:
    """Neighbouring records of one partition, which are sent together."""

    __slots__ = (
        "attempts",
        "awaited",
        "base_offset",
        "base_sequence",
        "callbacks",
        "count",
        "created_ms",
        "encoded",
        "is_appended",
        "is_late",
        "log_append_time_ms",
        "maybe_written",
        "number",
        "on_done",
        "partition",
        "producer",
        "records",
        "size_bytes",
        "splittable",
        "whole",
    )

    def __init__(self, partition: TopicPartition, number: tuple[int, ...], created_ms: float) -> None:
        self.partition = partition
        # Invariant: grows from batch to batch of a partition, so it gives the place of a requeued batch. The parts of
        # batch (7,) are (7, 0), (7, 1) and so on.
        self.number = number
        self.created_ms = created_ms
        # Invariant: empty while `encoded` is set.
        self.records: list[Record] = []
        self.count = 0
        # An upper bound. It counts against `buffer_memory` until the batch is done.
        self.size_bytes = 0
        # (index of its first record, callback): each covers the records up to the next one's first.
        # None as a callback: the records have futures, which are in `awaited`.
        self.callbacks: list[tuple[int, DeliveryCallback | None]] = []
        self.awaited = AwaitedRecords()
        # Called when the batch is done, whether acknowledged or failed.
        self.on_done: list[Callable[[], None]] = []
        self.encoded: bytes | None = None
        # What the user gave instead of records: a whole batch, which only gets a producer and a sequence.
        self.whole: bytes | None = None
        # Whether its halves may be sent if it is too large.
        self.splittable = True
        self.producer = NO_PRODUCER_ID
        self.base_sequence = -1
        self.attempts = 0
        # Whether the user may be told that it is retried.
        self.is_late = False
        # An attempt ended without a definite response: the broker may have the records.
        self.maybe_written = False
        # An attempt ended with the batch in the leader's log, but not in those of enough replicas.
        self.is_appended = False
        self.base_offset = -1
        self.log_append_time_ms = -1

    @property
    def outcome(self) -> Outcome:
        """What is known of its records while they are not acknowledged."""
        if self.is_appended:
            return Outcome.WRITTEN
        return Outcome.UNKNOWN if self.maybe_written else Outcome.NOT_WRITTEN

    @property
    def may_split(self) -> bool:
        """Whether the halves may be sent in its place.

        If an earlier attempt wrote the batch, the broker rejects the halves, which repeat its sequences.
        """
        return self.splittable and self.count > 1

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """The broker has acknowledged the batch: notify its callbacks."""
        self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
        for callback, first, end in self._runs():
            callback.delivered(self, first, end)
        self.awaited.delivered(self)
        self._finish()

    def fail(self, error: KafkaError) -> None:
        """The batch has failed for good: notify its callbacks."""
        failure = delivery_error(error, self.outcome)
        for callback, first, end in self._runs():
            callback.failed(self, first, end, failure)
        self.awaited.failed(failure)
        self._finish()

    def _runs(self) -> Iterator[tuple[DeliveryCallback, int, int]]:
        """Yield each callback with its range of records: (callback, first, end)."""
        end = self.count or len(self.records)
        for position, (first, callback) in enumerate(self.callbacks):
            next_first = self.callbacks[position + 1][0] if position + 1 < len(self.callbacks) else end
            if callback is not None:
                yield callback, first, next_first

    def _finish(self) -> None:
        self.encoded = self.whole = None
        for done in self.on_done:
            done()
