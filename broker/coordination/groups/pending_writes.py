"""What was written in transactions that are not decided yet, by producer id: it counts once the commit marker is there.

Of two writes of the same key the one that lies later in the log wins, whichever transaction ends first (Kafka compares
the offsets of the records). A value that was overtaken stays until its transaction ends: its key is unstable till then.
A deletion of a key takes what is pending for it along.

The groups' offsets live by these rules, and so does their replay at start-up, key by key of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class _Written(Generic[Value]):
    value: Value
    order: int
    is_overtaken: bool = False


class PendingWrites(Generic[Key, Value]):
    """Undecided writes of one group, or of one partition of the log."""

    __slots__ = ("_order", "_producers")

    def __init__(self) -> None:
        # Invariant: no producer without keys.
        self._producers: dict[int, dict[Key, _Written[Value]]] = {}
        self._order = 0  # of the write that comes next

    def __bool__(self) -> bool:
        return bool(self._producers)

    def __contains__(self, key: Key) -> bool:
        return any(key in keys for keys in self._producers.values())

    def producers(self) -> list[int]:
        """The producers whose transactions are undecided."""
        return list(self._producers)

    def undecided(self) -> set[Key]:
        """Every key that an undecided transaction has written."""
        return {key for keys in self._producers.values() for key in keys}

    def in_order(self, *, overtaken: bool) -> Iterator[tuple[int, Key, Value]]:
        """Yield (producer id, key, value) of the writes that are overtaken or not, in the order of the log."""
        chosen = [
            (written.order, producer_id, key, written.value)
            for producer_id, keys in self._producers.items()
            for key, written in keys.items()
            if written.is_overtaken is overtaken
        ]
        for _, producer_id, key, value in sorted(chosen, key=lambda each: each[0]):
            yield producer_id, key, value

    def put(self, producer_id: int, key: Key, value: Value) -> None:
        """A producer wrote this in its transaction."""
        self._producers.setdefault(producer_id, {})[key] = _Written(value, self._order)
        self._order += 1

    def overtake(self, key: Key) -> None:
        """Something that counts was written after all that is pending for this key."""
        for keys in self._producers.values():
            written = keys.get(key)
            if written is not None:
                written.is_overtaken = True

    def drop(self, key: Key) -> None:
        """The key was deleted."""
        for producer_id in [each for each, keys in self._producers.items() if key in keys]:
            keys = self._producers[producer_id]
            del keys[key]
            if not keys:
                del self._producers[producer_id]

    def end(self, producer_id: int, commit: bool) -> list[tuple[Key, Value]]:
        """The producer's transaction is decided: return what counts now."""
        counted: list[tuple[Key, Value]] = []
        for key, written in self._producers.pop(producer_id, {}).items():
            if commit and not written.is_overtaken:
                counted.append((key, written.value))
                for keys in self._producers.values():
                    other = keys.get(key)
                    if other is not None and other.order < written.order:
                        other.is_overtaken = True
        return counted
