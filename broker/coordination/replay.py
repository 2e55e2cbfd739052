"""The replay of a partition of an internal topic: its records are read once, with the ends of transactions.

A replay keeps only the last value of each key, so that millions of commits take no more memory than their keys. The
writes of open transactions are kept beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .pending_writes import PendingWrites


class Written(NamedTuple):
    """A record of the partition. The producer id is -1 if it is not part of a transaction."""

    key: bytes
    value: bytes | None
    producer_id: int = -1
    # Its offset, where that is known.
    offset: int = -1


class Ended(NamedTuple):
    """The end of a producer's transaction in the partition."""

    producer_id: int
    commit: bool


class Replay:
    """Takes the entries of the log one by one, and then yields the records that lead to the same state."""

    def __init__(self) -> None:
        self._last: dict[bytes, bytes | None] = {}
        self._pending: PendingWrites[bytes, bytes | None] = PendingWrites()

    def take(self, each: Written | Ended) -> None:
        """Take the next entry of the log."""
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
        """Yield the records that lead to the same state, in an order that does."""
        for producer_id, key, value in self._pending.in_order(overtaken=True):
            yield Written(key, value, producer_id)
        for key, value in self._last.items():
            yield Written(key, value)
        for producer_id, key, value in self._pending.in_order(overtaken=False):
            yield Written(key, value, producer_id)
