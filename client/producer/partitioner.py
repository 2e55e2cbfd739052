"""The partitioner: which partition a record goes to, exactly as in Kafka's clients.

A record with a key goes to `murmur2(key) & 0x7fffffff` modulo the number of partitions, so that every client writes the
same key to the same partition. Records without a key stick to one partition for about a batch of bytes, then move to
another one at random (KIP-794). That makes fewer and larger batches than a round robin.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ...kernel import door
from ..core.metadata import NO_LEADER, TopicInfo

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
# Cached hashes of keys: a hash costs 2-4 microseconds in Python, a look-up a tenth. The cache is cleared when full, so
# it stays within 64 Ki entries of small keys (some 10 MB). Longer keys are not cached.
_CACHED_KEYS = 1 << 16
_CACHED_KEY_BYTES = 64


def murmur2(data: bytes) -> int:
    """Return the MurmurHash 2 with Kafka's seed, as an unsigned 32-bit number (Java shows the same bits signed)."""
    if door.compiled is not None:
        return door.compiled.murmur2(data)
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


class Partitioner:
    """Kafka's default partitioner. `choose` draws one of a sequence; tests pass their own."""

    __slots__ = ("_hashes", "_pick", "_sticky", "_stride_bytes")

    def __init__(self, stride_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._pick = choose
        # How many bytes without a key go to one partition before the next is drawn.
        self._stride_bytes = stride_bytes
        self._hashes: dict[bytes, int] = {}
        # topic -> its current partition and the bytes that it still takes
        self._sticky: dict[str, tuple[int, int]] = {}

    def choose(self, topic: TopicInfo, _key: object, raw: bytes | None, size_bytes: int) -> int:
        """Return the partition of a record: a `Choice`."""
        if raw is None:
            return self.keyless(topic, size_bytes)
        # `by_key` written out: a call less a record.
        positive = self._hashes.get(raw)
        if positive is None:
            return self.by_key(raw, len(topic.partitions))
        return positive % len(topic.partitions)

    def by_key(self, key: bytes, partitions: int) -> int:
        """Return the partition of a key, of `partitions` in all."""
        positive = self._hashes.get(key)
        if positive is None:
            positive = murmur2(key) & 0x7FFFFFFF
            if len(key) <= _CACHED_KEY_BYTES:
                if len(self._hashes) >= _CACHED_KEYS:
                    self._hashes.clear()
                self._hashes[key] = positive
        return positive % partitions

    def keyless(self, topic: TopicInfo, size_bytes: int) -> int:
        """Return the partition for the next `size_bytes` without a key: one with a leader, if there is any."""
        current, left = self._sticky.get(topic.name, (-1, 0))
        if left <= 0 or not 0 <= current < len(topic.partitions) or topic.partitions[current].leader == NO_LEADER:
            current, left = self._draw(topic, current), self._stride_bytes
        self._sticky[topic.name] = current, left - size_bytes
        return current

    def _draw(self, topic: TopicInfo, previous: int) -> int:
        led = [info.partition for info in topic.partitions if info.leader != NO_LEADER]
        candidates = led or [info.partition for info in topic.partitions]
        return self._pick([number for number in candidates if number != previous] or candidates)
