"""A batch of records on its way to one partition, and what waits for its outcome: a future for each record, or one
result for all records of a `send_many`.

A batch is cut into smaller ones where the broker said MESSAGE_TOO_LARGE. The parts keep the sequences of their records,
so that the broker takes them in the place of the whole batch. A batch with too large records is cut again and again,
until each of them is alone in its batch and fails alone. What a topic's leaders rejected and what they took is
remembered for a while, so that later batches of the topic are cut before they are sent.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from ...kernel import door
from ...protocol.records.batch import HEADER_SIZE, decode_batch, encode_batch, with_producer
from ...protocol.records.record import Record, size_upper_bound
from ..errors import DeliveryFailed, DeliveryTimedOut, KafkaError, Outcome, delivery_error
from ..record import RecordMetadata, TopicPartition
from .options import ProducerOptions

# Makes a named tuple without its Python-level constructor, in half the time.
_Maker = Callable[[type[RecordMetadata], tuple[object, ...]], RecordMetadata]
_new_metadata: _Maker = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_LAST_SEQUENCE = 0x7FFFFFFF
# The topic's max.message.bytes may be raised. A larger batch is tried again after this time.
_REMEMBERED_MS = 300_000


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch, as InitProducerId returns them; -1 and -1 without idempotence."""

    producer_id: int
    epoch: int


NO_PRODUCER_ID = ProducerIdAndEpoch(-1, -1)
_FATES = {
    Outcome.NOT_WRITTEN: "they were not written",
    Outcome.UNKNOWN: "nobody knows whether they were written",
    Outcome.WRITTEN: "the leader has written them, but too few replicas have them",
}


class DeliveryCallback(Protocol):
    """Waits for the outcome of records: of one record, or of many."""

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        """Records first..end-1 are acknowledged (`batch.base_offset` is -1 if the broker gave no offset)."""

    def failed(self, batch: ProducerBatch, first: int, end: int, error: DeliveryFailed) -> None:
        """Records first..end-1 have failed for good."""


@dataclass(slots=True, eq=False, repr=False)
class AwaitedRecords:
    """The records of a batch that have a future each: lists with an entry a record.

    A callback for each would be two more objects a record, through which the garbage collector goes again and again.
    """

    # Each record's place in its batch. Invariant: they grow.
    indexes: list[int] = field(default_factory=list[int])
    timestamps_ms: list[int] = field(default_factory=list[int])
    futures: list[asyncio.Future[RecordMetadata]] = field(default_factory=list[Any])

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
        indexes = [index - first for index in self.indexes[inside]]
        return AwaitedRecords(indexes, self.timestamps_ms[inside], self.futures[inside])


@dataclass(slots=True, eq=False, repr=False)
class ProducerBatch:
    """Neighbouring records of one partition, which are sent together."""

    partition: TopicPartition
    # Invariant: grows from batch to batch of a partition, so it gives the place of a requeued batch. The parts of
    # batch (7,) are (7, 0), (7, 1) and so on.
    number: tuple[int, ...]
    created_ms: float
    # Invariant: empty while `encoded` is set.
    records: list[Record] = field(default_factory=list[Record])
    count: int = 0
    # An upper bound. It counts against `buffer_memory` until the batch is done.
    size_bytes: int = 0
    # (index of its first record, callback): each covers the records up to the next one's first.
    # None as a callback: the records have futures, which are in `awaited`.
    callbacks: list[tuple[int, DeliveryCallback | None]] = field(default_factory=list[Any])
    awaited: AwaitedRecords = field(default_factory=AwaitedRecords)
    # Called when the batch is done, whether acknowledged or failed.
    on_done: list[Callable[[], object]] = field(default_factory=list[Any])
    encoded: bytes | None = None
    # What the user gave instead of records: a whole batch, which only gets a producer and a sequence.
    whole: bytes | None = None
    # Whether its halves may be sent if it is too large.
    splittable: bool = True
    producer: ProducerIdAndEpoch = NO_PRODUCER_ID
    base_sequence: int = -1
    attempts: int = 0
    # Whether the user may be told that it is retried.
    is_late: bool = False
    # An attempt ended without a definite response: the broker may have the records.
    maybe_written: bool = False
    # An attempt ended with the batch in the leader's log, but not in those of enough replicas.
    is_appended: bool = False
    base_offset: int = -1
    log_append_time_ms: int = -1

    @property
    def outcome(self) -> Outcome:
        """What is known of its records while they are not acknowledged."""
        if self.is_appended:
            return Outcome.WRITTEN
        return Outcome.UNKNOWN if self.maybe_written else Outcome.NOT_WRITTEN

    def timeout_error(self, delivery_timeout_ms: float, cause: KafkaError | None) -> DeliveryTimedOut:
        """Return the error of an expired batch, which says whether its records may be written, and why they wait."""
        error = DeliveryTimedOut(
            f"{self.count or len(self.records)} records for {self.partition} were not "
            f"acknowledged within delivery_timeout_ms ({delivery_timeout_ms:g}); {_FATES[self.outcome]}"
            + ("" if cause is None else f". The last attempt failed: {cause.message}")
        )
        error.__cause__ = cause
        return error

    @property
    def may_split(self) -> bool:
        """Whether the halves may be sent in its place.

        If an earlier attempt wrote the batch, the broker rejects the halves, which repeat its sequences.
        """
        return self.splittable and self.count > 1

    def encode(self, options: ProducerOptions) -> None:
        """Encode the batch with the producer and the sequence that it has."""
        transactional = options.transactional_id is not None
        if self.whole is not None:
            self.encoded = with_producer(self.whole, *self.producer, self.base_sequence, transactional=transactional)
            return
        self.encoded = encode_batch(
            self.records,
            compression=options.compression,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=self.base_sequence,
            transactional=transactional,
        )
        self.records = []

    def decode(self) -> list[Record]:
        """Return the records of the encoded batch, to be encoded again."""
        assert self.encoded is not None
        return [record._replace(offset=-1) for record in decode_batch(self.encoded)]

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


def done_after(count: int, on_done: list[Callable[[], object]]) -> Callable[[], None]:
    """Return a callback for each of `count` batches; its last call calls all of `on_done`."""
    left = count

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            for each in on_done:
                each()

    return done


class BulkMetadata(NamedTuple):
    """The result of `send_many`: how many records are in the log, and per partition their first and last offset.

    Offsets are -1 if the broker did not say. Other producers may have written in between.
    """

    records: int
    offsets: dict[TopicPartition, tuple[int, int]]


@dataclass(slots=True, eq=False, repr=False)
class BulkDelivery:
    """The outcome of one `send_many`, known when it is closed and all its records are done. A `DeliveryCallback`."""

    done: asyncio.Future[BulkMetadata]
    error: DeliveryFailed | None = None
    # Invariant: delivered + failed <= sent; equal when no record is pending.
    sent: int = 0
    _delivered: int = 0
    _failed: Counter[Outcome] = field(default_factory=Counter[Outcome])
    _closed: bool = False
    _offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict[Any, Any])

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        """Count the records and note their offsets."""
        self._delivered += end - first
        if batch.base_offset < 0:
            self._offsets.setdefault(batch.partition, (-1, -1))
        else:
            lowest, highest = batch.base_offset + first, batch.base_offset + end - 1
            known = self._offsets.get(batch.partition, (-1, -1))
            self._offsets[batch.partition] = (lowest if known[0] < 0 else min(known[0], lowest), max(known[1], highest))
        self._finish()

    def failed(self, batch: ProducerBatch, first: int, end: int, error: DeliveryFailed) -> None:
        """Count the records and keep the first error."""
        self._failed[error.outcome] += end - first
        self.error = self.error or error
        self._finish()

    def close(self) -> None:
        """No more records will be sent."""
        self._closed = True
        self._finish()

    def _finish(self) -> None:
        failed = self._failed.total()
        if not self._closed or self._delivered + failed < self.sent or self.done.done():
            return
        if self.error is None:
            self.done.set_result(BulkMetadata(self._delivered, self._offsets))
        else:
            outcomes = ", ".join(f"{self._failed[each]} {each.value}" for each in Outcome if self._failed[each])
            self.error.add_note(f"{failed} of {self.sent} records were not delivered: {outcomes}")
            self.done.set_exception(self.error)


# -- Cutting


class BatchLimits:
    """The sizes of batches, by topic, that its leaders rejected as too large and those that they took. Bytes."""

    def __init__(self) -> None:
        # The smallest size that was rejected, the largest one below it that was taken, and when it is forgotten.
        self._known: dict[str, tuple[int, int, float]] = {}

    def rejected(self, topic: str, size_bytes: int, now_ms: float) -> None:
        """Note that a batch of this size was rejected as too large."""
        smallest, taken, _ = self._known.get(topic, (size_bytes, 0, 0))
        smallest = min(smallest, size_bytes)
        self._known[topic] = smallest, taken if taken < smallest else 0, now_ms + _REMEMBERED_MS

    def taken(self, topic: str, size_bytes: int) -> None:
        """Note that a batch of this size is in the log."""
        if topic in self._known:
            smallest, taken, until_ms = self._known[topic]
            if taken < size_bytes < smallest:
                self._known[topic] = smallest, size_bytes, until_ms

    def limit(self, topic: str) -> int | None:
        """Return the size that batches of a topic should not exceed, None if none was rejected."""
        known = self._known.get(topic)
        return None if known is None else max(known[1], known[0] // 2)

    def forget(self, now_ms: float) -> None:
        """Forget what was noted too long ago."""
        for topic, (_, _, until_ms) in list(self._known.items()):
            if now_ms >= until_ms:
                del self._known[topic]


def split(batch: ProducerBatch, options: ProducerOptions, limit_bytes: int = 0) -> list[ProducerBatch]:
    """Return encoded batches with the records of `batch`, which has two at least.

    They have about `limit_bytes` each, or half of the bytes if that is less or the limit is 0. The callbacks of `batch`
    go over to them.
    """
    assert batch.encoded is not None
    records = batch.decode()
    sizes = [size_upper_bound(record.key, record.value, record.headers) for record in records]
    # `sizes` are too large, and say nothing of compression: only what part of the whole they are counts.
    share = max(limit_bytes - HEADER_SIZE, 1) / max(len(batch.encoded) - HEADER_SIZE, 1)
    ends = [_middle(sizes), len(sizes)] if not limit_bytes or share >= 0.5 else _ends(sizes, sum(sizes) * share)
    done = done_after(len(ends), batch.on_done)
    starts = [first for first, _ in batch.callbacks]
    parts: list[ProducerBatch] = []
    left_bytes, start = batch.size_bytes, 0
    for index, end in enumerate(ends):
        part = ProducerBatch(batch.partition, (*batch.number, index), batch.created_ms)
        size = batch.size_bytes * sum(sizes[start:end]) // sum(sizes)
        part.size_bytes = size if end < len(sizes) else left_bytes
        left_bytes -= size
        part.callbacks = _callbacks_between(batch.callbacks, starts, start, end)
        part.awaited = batch.awaited.between(start, end)
        part.on_done = [done]
        _take_over(part, batch, start)
        part.records, part.count = records[start:end], end - start
        part.encode(options)
        parts.append(part)
        start = end
    return parts


def _take_over(part: ProducerBatch, batch: ProducerBatch, start: int) -> None:
    """Give a part what is known of the whole batch; its records begin at index `start`."""
    part.attempts, part.producer = batch.attempts, batch.producer
    part.maybe_written, part.is_appended = batch.maybe_written, batch.is_appended
    if batch.base_sequence >= 0:
        part.base_sequence = (batch.base_sequence + start) & _LAST_SEQUENCE


def _middle(sizes: list[int]) -> int:
    """Return how many records make up the first half of the bytes: at least one, and not all."""
    half, taken = sum(sizes) // 2, 0
    for number, size in enumerate(sizes):
        taken += size
        if taken >= half:
            return min(number + 1, len(sizes) - 1)
    return 1


def _ends(sizes: list[int], most: float) -> list[int]:
    """Return where parts of at most `most` bytes end; a larger record is a part of its own."""
    ends: list[int] = []
    taken = 0
    for number, size in enumerate(sizes):
        if number and taken + size > most:
            ends.append(number)
            taken = 0
        taken += size
    return [*ends, len(sizes)]


def _callbacks_between(
    callbacks: list[tuple[int, DeliveryCallback | None]], starts: list[int], first: int, end: int
) -> list[tuple[int, DeliveryCallback | None]]:
    """Return the callbacks of the records first..end-1, counted from `first`; one callback can be in several parts."""
    inside = callbacks[bisect_right(starts, first) - 1 : bisect_left(starts, end)]
    return [(max(start - first, 0), callback) for start, callback in inside]
