"""Cutting a batch in two, because the broker said MESSAGE_TOO_LARGE.

The halves keep the sequences of their records, so that the broker takes them in the place of the whole batch. A batch
with too large records is cut again and again, until each of them is alone in its batch and fails alone.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.records.batch import decode_batch, encode_batch
from ...protocol.records.compression import Compression
from ...protocol.records.record import size_upper_bound
from .batch import DeliveryCallback, ProducerBatch

_LAST_SEQUENCE = 0x7FFFFFFF


def split(
    batch: ProducerBatch, compression: Compression, *, transactional: bool
) -> tuple[ProducerBatch, ProducerBatch]:
    """Return two encoded batches with about half of the bytes of `batch` each, which has two records at least.

    The callbacks of `batch` go over to them.
    """
    assert batch.encoded is not None
    records = [record._replace(offset=-1) for record in decode_batch(batch.encoded)]
    sizes = [size_upper_bound(record.key, record.value, record.headers) for record in records]
    middle = _middle(sizes)
    first, second = ((ProducerBatch(batch.partition, (*batch.number, half), batch.created_ms)) for half in (0, 1))
    first.size_bytes = batch.size_bytes * sum(sizes[:middle]) // sum(sizes)
    second.size_bytes = batch.size_bytes - first.size_bytes
    first.callbacks, second.callbacks = _split_callbacks(batch.callbacks, middle)
    first.on_done, second.on_done = _split_done(batch.on_done)
    first.base_sequence = second.base_sequence = batch.base_sequence
    if batch.base_sequence >= 0:
        second.base_sequence = (batch.base_sequence + middle) & _LAST_SEQUENCE
    for half, its_records in ((first, records[:middle]), (second, records[middle:])):
        half.attempts, half.producer, half.count = batch.attempts, batch.producer, len(its_records)
        half.maybe_written, half.is_appended = batch.maybe_written, batch.is_appended
        half.encoded = encode_batch(
            its_records,
            compression=compression,
            producer_id=half.producer.producer_id,
            producer_epoch=half.producer.epoch,
            base_sequence=half.base_sequence,
            transactional=transactional,
        )
    return first, second


def _middle(sizes: list[int]) -> int:
    """Return how many records make up the first half of the bytes: at least one, and not all."""
    half, taken = sum(sizes) // 2, 0
    for number, size in enumerate(sizes):
        taken += size
        if taken >= half:
            return min(number + 1, len(sizes) - 1)
    return 1


def _split_callbacks(
    callbacks: list[tuple[int, DeliveryCallback]], middle: int
) -> tuple[list[tuple[int, DeliveryCallback]], list[tuple[int, DeliveryCallback]]]:
    """Return the callbacks of the records before and from `middle` on; one callback can have records in both."""
    first = [(start, callback) for start, callback in callbacks if start < middle]
    second = [(start - middle, callback) for start, callback in callbacks if start >= middle]
    if not second or second[0][0] > 0:
        second.insert(0, (0, first[-1][1]))
    return first, second


def _split_done(on_done: list[Callable[[], None]]) -> tuple[list[Callable[[], None]], list[Callable[[], None]]]:
    """Return a callback for each half; the second call of them calls all of `on_done`."""
    left = 2

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            for each in on_done:
                each()

    return [done], [done]
