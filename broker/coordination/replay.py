"""The replay of a partition of an internal topic: its records are read once, with the ends of transactions.

A replay keeps only the last value of each key, so that millions of commits take no more memory than their keys. The
writes of open transactions are kept beside them.

The writes of open transactions (`PendingWrites`) count once the commit marker is in the log. Of two writes of the same
key the later one in the log wins, no matter which transaction ends first: Kafka compares the offsets of the records. A
write that was overtaken stays until its transaction ends, because its key is unstable until then. A tombstone also
removes the pending writes of its key.

A group's committed offsets follow these rules by topic and partition, and the replay at start-up by key of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar


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


Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class _Written(Generic[Value]):
    value: Value
    order: int
    is_overtaken: bool = False


class PendingWrites(Generic[Key, Value]):
    """The writes of open transactions in one group, or in one partition of the log."""

    __slots__ = ("_order", "_producers")

    def __init__(self) -> None:
        # Invariant: no producer without keys.
        self._producers: dict[int, dict[Key, _Written[Value]]] = {}
        # The place of the next write in the log, counted from 0.
        self._order = 0

    def __bool__(self) -> bool:
        return bool(self._producers)

    def __contains__(self, key: Key) -> bool:
        return any(key in keys for keys in self._producers.values())

    def producers(self) -> list[int]:
        """Return the producers whose transactions are open."""
        return list(self._producers)

    def undecided(self) -> set[Key]:
        """Return every key that an open transaction has written."""
        return {key for keys in self._producers.values() for key in keys}

    def in_order(self, *, overtaken: bool) -> Iterator[tuple[int, Key, Value]]:
        """Yield (producer id, key, value) of the writes that are overtaken, or of the others, in the log's order."""
        chosen = [
            (written.order, producer_id, key, written.value)
            for producer_id, keys in self._producers.items()
            for key, written in keys.items()
            if written.is_overtaken is overtaken
        ]
        for _, producer_id, key, value in sorted(chosen, key=lambda each: each[0]):
            yield producer_id, key, value

    def put(self, producer_id: int, key: Key, value: Value) -> None:
        """Add a write of a producer's transaction."""
        self._producers.setdefault(producer_id, {})[key] = _Written(value, self._order)
        self._order += 1

    def overtake(self, key: Key) -> None:
        """Mark the pending writes of a key as overtaken, because a later write of it counts."""
        for keys in self._producers.values():
            written = keys.get(key)
            if written is not None:
                written.is_overtaken = True

    def drop(self, key: Key) -> None:
        """Remove the pending writes of a key that was deleted."""
        for producer_id in [each for each, keys in self._producers.items() if key in keys]:
            keys = self._producers[producer_id]
            del keys[key]
            if not keys:
                del self._producers[producer_id]

    def end(self, producer_id: int, commit: bool) -> list[tuple[Key, Value]]:
        """End the producer's transaction. Return the keys and values that count from now on."""
        counted: list[tuple[Key, Value]] = []
        for key, written in self._producers.pop(producer_id, {}).items():
            if commit and not written.is_overtaken:
                counted.append((key, written.value))
                for keys in self._producers.values():
                    other = keys.get(key)
                    if other is not None and other.order < written.order:
                        other.is_overtaken = True
        return counted
