"""What a partition of `__consumer_offsets` says in the end: its records gone through once, transactions and all.

Only the last word on each key is kept, so that a partition with millions of commits makes no more of them than it has
keys; what undecided transactions have written stands beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .pending_writes import PendingWrites


class Written(NamedTuple):
    """A record of the partition, written in a transaction of that producer, or in none (-1)."""

    key: bytes
    value: bytes | None
    producer_id: int = -1


class Ended(NamedTuple):
    """The end of that producer's transaction in the partition."""

    producer_id: int
    commit: bool


class Replay:
    """Takes each record in its turn (`take`), then tells what they come to (`outcome`)."""

    def __init__(self) -> None:
        self._last: dict[bytes, bytes | None] = {}
        self._pending: PendingWrites[bytes, bytes | None] = PendingWrites()

    def take(self, each: Written | Ended) -> None:
        """The next one of the log."""
        if isinstance(each, Ended):
            self._last.update(self._pending.end(each.producer_id, each.commit))
        elif each.producer_id >= 0:
            self._pending.put(each.producer_id, each.key, each.value)
        else:
            self._last[each.key] = each.value
            if self._pending:
                if each.value is None:
                    self._pending.drop(each.key)
                else:
                    self._pending.overtake(each.key)

    def outcome(self) -> Iterator[Written]:
        """The records that bring about the same state, in an order that does."""
        for producer_id, key, value in self._pending.in_order(overtaken=True):
            yield Written(key, value, producer_id)
        for key, value in self._last.items():
            yield Written(key, value)
        for producer_id, key, value in self._pending.in_order(overtaken=False):
            yield Written(key, value, producer_id)
