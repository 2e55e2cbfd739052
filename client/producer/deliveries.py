"""The outcome of records that were sent: a future for one record, or one result for all records of a `send_many`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ..errors import DeliveryFailed, Outcome
from ..record import RecordMetadata, TopicPartition
from .batch import ProducerBatch

# Makes a named tuple without its Python-level constructor, in half the time.
_Maker = Callable[[type[RecordMetadata], tuple[object, ...]], RecordMetadata]
_new_metadata: _Maker = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Delivery:
    """The outcome of one record. A `DeliveryCallback`."""

    __slots__ = ("future", "timestamp_ms")

    def __init__(self, future: asyncio.Future[RecordMetadata], timestamp_ms: int) -> None:
        self.future = future
        self.timestamp_ms = timestamp_ms

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        """Set the record's metadata."""
        if self.future.done():
            return  # the user cancelled it
        offset = batch.base_offset + first if batch.base_offset >= 0 else -1
        time_ms = self.timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        self.future.set_result(_new_metadata(RecordMetadata, (*batch.partition, offset, time_ms)))

    def failed(self, batch: ProducerBatch, first: int, end: int, error: DeliveryFailed) -> None:
        """Set the error."""
        if not self.future.done():
            self.future.set_exception(error)


class BulkMetadata(NamedTuple):
    """The result of `send_many`: how many records are in the log, and per partition their first and last offset.

    Offsets are -1 if the broker did not say. Other producers may have written in between.
    """

    records: int
    offsets: dict[TopicPartition, tuple[int, int]]


class BulkDelivery:
    """The outcome of one `send_many`, known when it is closed and all its records are done. A `DeliveryCallback`."""

    __slots__ = ("_closed", "_delivered", "_failed", "_offsets", "done", "error", "sent")

    def __init__(self, done: asyncio.Future[BulkMetadata]) -> None:
        self.done = done
        self.error: DeliveryFailed | None = None
        # Invariant: delivered + failed <= sent; equal when no record is pending.
        self.sent = 0
        self._delivered = 0
        self._failed: Counter[Outcome] = Counter()
        self._closed = False
        self._offsets: dict[TopicPartition, tuple[int, int]] = {}

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
