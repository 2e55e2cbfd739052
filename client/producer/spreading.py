"""Spreads the (key, value) pairs of a `send_many` over partitions, one turn of the event loop at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ...kernel import door
from ...protocol.records.record import RECORD_OVERHEAD_BYTES, Record, new_record
from ..core.serialization import checked_bytes
from .preparation import too_large

# A turn takes at most so many records: some milliseconds of work.
_RECORDS_PER_TURN = 1024


class Turn:
    """The records of one turn, by partition, with the bytes that each takes at most in a batch."""

    __slots__ = ("keyless", "left_bytes", "records", "sizes", "time_ms")

    def __init__(self, partitions: int, keyless: int, time_ms: int, max_bytes: int) -> None:
        self.records: list[list[Record]] = [[] for _ in range(partitions)]
        self.sizes: list[list[int]] = [[] for _ in range(partitions)]
        # The partition of records without a key.
        self.keyless = keyless
        self.time_ms = time_ms
        self.left_bytes = max_bytes

    @property
    def size_bytes(self) -> int:
        """Of all its records."""
        return sum(map(sum, self.sizes))


class Spreader:
    """Takes pairs out of an iterable. One that raises, or a pair that cannot be sent, ends it with an `error`."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]], by_key: Callable[[bytes, int], int], max_size: int) -> None:
        self._pairs = iter(pairs)
        # A pair that had no room in the last turn, if there is one.
        self._held: tuple[Any, ...] = ()
        self._by_key = by_key
        self._max_size = max_size
        self.ended = False
        # What ended it. The records before are in the last turn.
        self.error: Exception | None = None

    def fill(self, turn: Turn) -> None:
        """Take pairs until the turn has enough. One that has no room comes next time, unless it is the first."""
        pairs = chain(self._held, self._pairs) if self._held else self._pairs
        self._held = ()
        try:
            self.ended = self._fill(turn, pairs) if door.compiled is None else self._fill_compiled(turn, pairs)
        except Exception as error:  # noqa: BLE001 - an iterable of the user may raise anything; the caller raises it
            self.ended, self.error = True, error

    def _fill_compiled(self, turn: Turn, pairs: Iterator[tuple[Any, Any]]) -> bool:
        assert door.compiled is not None
        ended, left = door.compiled.spread(
            pairs, turn.records, turn.sizes, Record, turn.time_ms, turn.keyless,
            _RECORDS_PER_TURN, turn.left_bytes, self._max_size,
        )  # fmt: skip
        if not left:
            return ended
        turn.left_bytes -= turn.size_bytes
        return self._fill(turn, chain(left, pairs))

    def _fill(self, turn: Turn, pairs: Iterator[tuple[Any, Any]]) -> bool:
        """Do as the kernel. Return whether the pairs have ended."""
        records, sizes, time_ms, left_bytes = turn.records, turn.sizes, turn.time_ms, turn.left_bytes
        partitions, is_first = len(records), not any(records)
        for number, pair in enumerate(pairs, 1):
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise no_pair(pair) from None
            if key.__class__ is not bytes:
                key = checked_bytes(key, "key")
            if value.__class__ is not bytes:
                value = checked_bytes(value, "value")
            size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
            if size > self._max_size:
                raise too_large(size, self._max_size)
            if size > left_bytes and not is_first:
                self._held = (pair,)
                return False
            at = turn.keyless if key is None else self._by_key(key, partitions)
            records[at].append(new_record(Record, (-1, time_ms, key, value, ())))
            sizes[at].append(size)
            left_bytes -= size
            is_first = False
            if number == _RECORDS_PER_TURN:
                return False
        return True


def no_pair(given: object) -> TypeError:
    """Return the error of a record of `send_many` that is no pair."""
    return TypeError(f"send_many takes pairs of key and value, not {given!r:.100}; send_values takes values alone")
