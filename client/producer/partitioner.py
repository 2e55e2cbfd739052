"""Which partition a record goes to: Kafka's default rule, bit for bit.

A record with a key goes to `murmur2(key) & 0x7fffffff` modulo the number of partitions, as every Java client has it,
so that the same key lands in the same partition whoever writes it. Records without a key stick to one partition for
about a batch's worth of bytes, then move to another at random (KIP-794): fewer and larger batches than one by one
around the ring.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..metadata import NO_LEADER, TopicInfo

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
# Keys remembered with their hash: hashing in Python costs 2-4 microseconds, a look-up a tenth. Cleared when full, so
# memory stays within 64 Ki entries of small keys (some 10 MB); longer keys are not remembered.
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


class Partitioner:
    """Kafka's default. `choose` draws one of a sequence; tests give their own."""

    __slots__ = ("_choose", "_known", "_sticky", "_stride_bytes")

    def __init__(self, stride_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._choose = choose
        # How many bytes without a key go to one partition before the next is drawn.
        self._stride_bytes = stride_bytes
        self._known: dict[bytes, int] = {}
        # topic -> its present partition and the bytes that it still takes
        self._sticky: dict[str, tuple[int, int]] = {}

    def by_key(self, key: bytes, partitions: int) -> int:
        """The partition of a key among `partitions`."""
        positive = self._known.get(key)
        if positive is None:
            positive = murmur2(key) & 0x7FFFFFFF
            if len(key) <= _REMEMBERED_KEY_BYTES:
                if len(self._known) >= _REMEMBERED_KEYS:
                    self._known.clear()
                self._known[key] = positive
        return positive % partitions

    def keyless(self, topic: TopicInfo, size_bytes: int) -> int:
        """The partition that takes the next `size_bytes` without a key: one with a leader, if there is any."""
        current, left = self._sticky.get(topic.name, (-1, 0))
        if left <= 0 or not 0 <= current < len(topic.partitions) or topic.partitions[current].leader == NO_LEADER:
            current, left = self._draw(topic, current), self._stride_bytes
        self._sticky[topic.name] = current, left - size_bytes
        return current

    def _draw(self, topic: TopicInfo, previous: int) -> int:
        led = [info.partition for info in topic.partitions if info.leader != NO_LEADER]
        candidates = led or [info.partition for info in topic.partitions]
        return self._choose([number for number in candidates if number != previous] or candidates)
