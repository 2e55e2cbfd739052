"""Cutting a batch into smaller ones, because the broker said MESSAGE_TOO_LARGE, and what sizes a topic's leader takes.

The parts keep the sequences of their records, so that the broker takes them in the place of the whole batch. A batch
with too large records is cut again and again, until each of them is alone in its batch and fails alone. What was
rejected and what was taken is remembered for a while, so that later batches of the topic are cut before they are sent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ...protocol.records.batch import HEADER_SIZE
from ...protocol.records.compression import Compression
from ...protocol.records.record import size_upper_bound
from .batch import DeliveryCallback, ProducerBatch, done_after

_LAST_SEQUENCE = 0x7FFFFFFF
# The topic's max.message.bytes may be raised. A larger batch is tried again after this time.
_REMEMBERED_MS = 300_000


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


def split(
    batch: ProducerBatch, compression: Compression, *, transactional: bool, limit_bytes: int = 0
) -> list[ProducerBatch]:
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
        part.encode(compression, transactional=transactional)
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
