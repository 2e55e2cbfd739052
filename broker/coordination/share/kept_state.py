"""The state of one partition for one share group, as the share coordinator keeps it, and how a record changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ....protocol.messages import share_state_records as kafka
from ..interfaces import Topics
from .batches import combine
from .persister import UNINITIALIZED_OFFSET, ShareKey, ShareState, StateBatch
from .records import StateRecord


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
        # Not kept: when it was last written; -1: not since the start.
        self.written_ms = -1

    def is_blank(self) -> bool:
        """Return whether there is nothing to remember."""
        return self.current is None

    def apply(self, record: StateRecord) -> None:
        """Let a committed record take effect."""
        match record.value:
            case kafka.ShareSnapshotValue() as value:
                self._apply_snapshot(value)
            case kafka.ShareUpdateValue() as value:
                self._apply_update(value)
            case None:
                self.current, self.snapshot_epoch, self.updates = None, -1, 0

    def _apply_snapshot(self, value: kafka.ShareSnapshotValue) -> None:
        self.snapshot_epoch, self.created_ms, self.updates = value.snapshot_epoch, value.create_timestamp, 0
        self.current = ShareState(
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            combine((), state_batches(value.state_batches), value.start_offset),
        )

    def _apply_update(self, value: kafka.ShareUpdateValue) -> None:
        before = self.current or ShareState(0, 0, UNINITIALIZED_OFFSET, -1)
        start_offset = before.start_offset if value.start_offset == UNINITIALIZED_OFFSET else value.start_offset
        self.updates += 1
        self.current = ShareState(
            before.state_epoch,
            value.leader_epoch,
            start_offset,
            value.delivery_complete_count,
            combine(before.batches, state_batches(value.state_batches), start_offset),
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
