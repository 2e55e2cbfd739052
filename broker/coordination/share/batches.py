"""State batches: how the batches of a write and those that were there become one list, in order and without overlaps.

Of two batches that cover the same offset the one with the higher delivery count counts, and of two with the same count
the one with the higher delivery state. As in Kafka: states only move on, so that is the later one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from .persister import StateBatch


def combine(before: Sequence[StateBatch], written: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches of both, neighbours alike as one, without what is below the start offset.

    `before` is what an earlier call returned. Only the part of it that `written` touches is looked at, because each
    acknowledgement changes a few of some thousand batches.
    """
    batches = list(before)
    if written:
        low = bisect_left(batches, min(each.first_offset for each in written) - 1, key=_last)
        high = bisect_right(batches, max(each.last_offset for each in written) + 1, key=_first)
        batches[low:high] = _sweep([*batches[low:high], *written])
    del batches[: bisect_left(batches, start_offset, key=_last)]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = batches[0]._replace(first_offset=start_offset)
    return batches


def _sweep(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Walk over every offset where a batch begins or ends, and take the batch that counts there."""
    waiting = sorted(batches, reverse=True)
    cuts = sorted({each.first_offset for each in waiting} | {each.last_offset + 1 for each in waiting})
    # What covers the place of the walk, the batch that counts first.
    covering: list[tuple[int, int, int]] = []
    combined: list[StateBatch] = []
    for cut, end in pairwise(cuts):
        while waiting and waiting[-1].first_offset == cut:
            batch = waiting.pop()
            heappush(covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        while covering and covering[0][2] < cut:
            heappop(covering)
        if covering:
            _add(combined, StateBatch(cut, end - 1, -covering[0][1], -covering[0][0]))
    return combined


def _add(combined: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch, to the last one if the two are neighbours alike."""
    last = combined[-1] if combined else None
    if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
        combined[-1] = last._replace(last_offset=batch.last_offset)
    else:
        combined.append(batch)


def _first(batch: StateBatch) -> int:
    return batch.first_offset


def _last(batch: StateBatch) -> int:
    return batch.last_offset
