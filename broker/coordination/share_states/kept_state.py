"""The state of one partition for one share group, as the share coordinator keeps it, and how a record changes it.

`combine` makes one list of the batches of a write and those that were there, in order and without overlaps. Of two
batches that cover the same offset the one with the higher delivery count counts, and of two with the same count the one
with the higher delivery state. As in Kafka: states only move on, so that is the later one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import Protocol

from ....protocol.messages import share_state_records as kafka
from ..interfaces import Topics
from .records import StateRecord
from .share_state import UNINITIALIZED_OFFSET, ShareKey, ShareState, StateBatch

_FIRST, _LAST = attrgetter("first_offset"), attrgetter("last_offset")


class KeptState:
    """One state. Records of the log change it through `apply`, now or while the log is replayed."""

    def __init__(self, key: ShareKey, topics: Topics, updates_per_snapshot: int) -> None:
        self.key = key
        # Where the topic is looked up, read and never changed.
        self.topics = topics
        self.updates_per_snapshot = updates_per_snapshot
        # None: it was not initialized, or was deleted.
        self.current: ShareState | None = None
        self.snapshot_epoch = -1
        self.created_ms = -1
        # The updates since the last snapshot.
        self.updates = 0
        # Where its last snapshot is in the log.
        self.snapshot_offset: int | None = None
        # Not kept: when it was last written, and where; -1: not since the start.
        self.written_ms = self.written_offset = -1

    def is_blank(self) -> bool:
        """Return whether there is nothing to remember."""
        return self.current is None

    @property
    def needed_from(self) -> int | None:
        """Where the log begins that it needs: at its last snapshot, or at the first one, which is being written."""
        return self.written_offset if self.current is None else self.snapshot_offset

    def apply(self, record: StateRecord) -> None:
        """Let a committed record take effect."""
        match record.value:
            case kafka.ShareSnapshotValue() as value:
                self.snapshot_offset = self.written_offset if record.offset is None else record.offset
                self._apply_snapshot(value, record.batches)
            case kafka.ShareUpdateValue() as value:
                self._apply_update(value, record.batches)
            case None:
                self.current, self.snapshot_epoch, self.updates = None, -1, 0

    def _apply_snapshot(self, value: kafka.ShareSnapshotValue, batches: Sequence[StateBatch] | None) -> None:
        self.snapshot_epoch, self.created_ms, self.updates = value.snapshot_epoch, value.create_timestamp, 0
        self.current = ShareState(
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            combine((), state_batches(value.state_batches), value.start_offset) if batches is None else batches,
            value.start_is_chosen,
        )

    def _apply_update(self, value: kafka.ShareUpdateValue, batches: Sequence[StateBatch] | None) -> None:
        before = self.current or ShareState(0, 0, UNINITIALIZED_OFFSET, -1)
        start_offset = before.start_offset if value.start_offset == UNINITIALIZED_OFFSET else value.start_offset
        if batches is None:
            batches = combine(before.batches, state_batches(value.state_batches), start_offset)
        self.updates += 1
        self.current = ShareState(
            before.state_epoch,
            value.leader_epoch,
            start_offset,
            value.delivery_complete_count,
            batches,
            before.is_chosen and start_offset == before.start_offset and not value.state_batches,
        )


class WrittenBatch(Protocol):
    """A batch as records and requests have it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def state_batches(batches: Iterable[WrittenBatch]) -> list[StateBatch]:
    """Return the batches of a record or a request."""
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    ]


def combine(before: Sequence[StateBatch], written: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return the batches of both, neighbours alike as one, without what is below the start offset.

    `before` is what an earlier call returned. Only the part of it that `written` touches is looked at, because each
    acknowledgement changes a few of some thousand batches.
    """
    batches = list(before)
    if written:
        part = touched(batches, written)
        batches[part] = _sweep([*batches[part], *written])
    del batches[: bisect_left(batches, start_offset, key=_LAST)]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = batches[0]._replace(first_offset=start_offset)
    return batches


def touched(before: Sequence[StateBatch], written: Sequence[StateBatch]) -> slice:
    """Return where `before` has batches that those written overlap, or are neighbours of."""
    low = bisect_left(before, min(each.first_offset for each in written) - 1, key=_LAST)
    return slice(low, bisect_right(before, max(each.last_offset for each in written) + 1, key=_FIRST))


def _sweep(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Return what counts at each offset, neighbours alike as one. Most batches overlap no other one."""
    combined: list[StateBatch] = []
    overlapping: list[StateBatch] = []
    end = UNINITIALIZED_OFFSET
    for batch in sorted(batches):
        if overlapping and batch.first_offset > end:
            _add_counting(combined, overlapping)
            overlapping = []
        overlapping.append(batch)
        end = max(end, batch.last_offset)
    _add_counting(combined, overlapping)
    return combined


def _add_counting(combined: list[StateBatch], overlapping: Sequence[StateBatch]) -> None:
    """Walk over every offset where a batch begins or ends, and add the batch that counts there."""
    if len(overlapping) == 1:
        _add(combined, overlapping[0])
        return
    waiting = sorted(overlapping, reverse=True)
    cuts = sorted({each.first_offset for each in waiting} | {each.last_offset + 1 for each in waiting})
    # What covers the place of the walk, the batch that counts first.
    covering: list[tuple[int, int, int]] = []
    for cut, end in pairwise(cuts):
        while waiting and waiting[-1].first_offset == cut:
            batch = waiting.pop()
            heappush(covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        while covering and covering[0][2] < cut:
            heappop(covering)
        if covering:
            _add(combined, StateBatch(cut, end - 1, -covering[0][1], -covering[0][0]))


def _add(combined: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch, to the last one if the two are neighbours alike."""
    last = combined[-1] if combined else None
    if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
        combined[-1] = last._replace(last_offset=batch.last_offset)
    else:
        combined.append(batch)
