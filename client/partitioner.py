"""Which partition a record goes to: Kafka's default rule, bit for bit.

A record with a key goes to `murmur2(key) & 0x7fffffff` modulo the number of partitions, as every Java client has it, so that the
same key lands in the same partition whoever writes it. A record without a key sticks to one partition until its batch is full, then
moves to another at random (KIP-480): fewer and larger batches than one by one around the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
# Keys remembered with their hash: hashing in Python costs 2-4 microseconds, a look-up a tenth. Cleared when full, so memory stays
# within about 64 Ki entries of small keys; longer keys are not remembered.
_REMEMBERED_KEYS = 1 << 16
_REMEMBERED_KEY_BYTES = 64


def murmur2(data: bytes) -> int:
    """MurmurHash 2 with Kafka's seed, as an unsigned 32-bit number (Java shows the same bits signed)."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for i in range(0, whole, 4):
        k = (int.from_bytes(data[i : i + 4], "little") * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if whole != size:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


class KeyHashes:
    """`murmur2(key) & 0x7fffffff`, remembered for small keys."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def __getitem__(self, key: bytes) -> int:
        known = self._known.get(key)
        if known is not None:
            return known
        positive = murmur2(key) & 0x7FFFFFFF
        if len(key) <= _REMEMBERED_KEY_BYTES:
            if len(self._known) >= _REMEMBERED_KEYS:
                self._known.clear()
            self._known[key] = positive
        return positive


class Sticky:
    """Where the records without a key of each topic go now. `choose` draws from a sequence; tests give their own."""

    __slots__ = ("_choose", "_current")

    def __init__(self, choose: Callable[[Sequence[int]], int]) -> None:
        self._choose = choose
        self._current: dict[str, int] = {}

    def partition(self, topic: str, available: Sequence[int]) -> int:
        """The present partition of `topic`; another one is drawn where it is not `available` any more."""
        current = self._current.get(topic)
        if current is None or current not in available:
            current = self._current[topic] = self._choose(available)
        return current

    def move_on(self, topic: str, available: Sequence[int]) -> int:
        """The batch is full: draw another partition than the present one, if there is another."""
        current = self._current.get(topic)
        others = [partition for partition in available if partition != current]
        self._current[topic] = self._choose(others or available)
        return self._current[topic]
