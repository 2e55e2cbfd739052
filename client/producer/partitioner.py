"""The partitioners, by name: which partition a record goes to when the user names none.

    murmur2      the default, as in Kafka's clients: the hash of the key modulo the number of partitions, so that all
                 clients write a key to the same partition. Records without a key stick to one partition for about a
                 batch of bytes, then move to another one at random (KIP-794): batches are fewer and larger so.
    sticky       one partition for about a batch, then another, whatever the key
    random       any partition that has a leader
    round_robin  the partitions that have a leader, in turn
    hash         Java's hashCode of the key (int, str or bytes) modulo the number of partitions, as the producers before
                 Kafka 0.9 had it; without a key, any partition

Your own is a function `(key, partitions, available) -> partition`: the key before it is serialized, the numbers of all
partitions, and of those that have a leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from ...kernel import door
from ..core.metadata import NO_LEADER, TopicInfo
from ..core.randomness import jitter
from ..errors import InvalidOption
from .preparation import checked_partition

OwnPartitioner = Callable[[object, Sequence[int], Sequence[int]], int]
# (topic, key, its bytes, size of the record in bytes) -> partition
Choice = Callable[[TopicInfo, object, bytes | None, int], int]

DEFAULT = "murmur2"
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
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


def _choose(partitions: Sequence[int]) -> int:
    return jitter().choice(partitions)


class Partitioner:
    """Kafka's default partitioner. `choose` draws one of a sequence; tests pass their own."""

    __slots__ = ("_hashes", "_pick", "_sticky", "_stride_bytes")

    def __init__(self, stride_bytes: int, choose: Callable[[Sequence[int]], int] = _choose) -> None:
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
            positive = murmur2(key) & _POSITIVE
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
        candidates = _available(topic)
        return self._pick([number for number in candidates if number != previous] or candidates)


def choice_for(option: str | OwnPartitioner, default: Partitioner) -> Choice:
    """Return the function for an option. Raises InvalidOption."""
    if callable(option):
        return _own(option)
    if option == DEFAULT:
        return default.choose
    if option == "sticky":
        return lambda topic, _key, _raw, size: default.keyless(topic, size)
    if option == "random":
        return lambda topic, _key, _raw, _size: _choose(_available(topic))
    if option == "round_robin":
        return _round_robin()
    if option == "hash":
        return _by_hash
    raise InvalidOption(f"partitioner must be murmur2, sticky, random, round_robin, hash or a function, not {option!r}")


def _available(topic: TopicInfo) -> list[int]:
    """Return the partitions that have a leader; all if none has."""
    led = [info.partition for info in topic.partitions if info.leader != NO_LEADER]
    return led or [info.partition for info in topic.partitions]


def _round_robin() -> Choice:
    turns: defaultdict[str, Iterator[int]] = defaultdict(count)

    def choose(topic: TopicInfo, _key: object, _raw: bytes | None, _size: int) -> int:
        available = _available(topic)
        return available[next(turns[topic.name]) % len(available)]

    return choose


def _by_hash(topic: TopicInfo, key: object, _raw: bytes | None, _size: int) -> int:
    if key is None:
        return _choose(_available(topic))
    return (java_hash(key) & _POSITIVE) % len(topic.partitions)


def _own(option: OwnPartitioner) -> Choice:
    def choose(topic: TopicInfo, key: object, _raw: bytes | None, _size: int) -> int:
        partitions = [info.partition for info in topic.partitions]
        return checked_partition(topic, option(key, partitions, _available(topic)))

    return choose


def java_hash(key: object) -> int:
    """Return Java's hashCode of an Integer or Long, a String, or the contents of a byte[]; 32 bits, unsigned.

    Python's own hash of str and bytes differs from process to process. Raises TypeError for other types.
    """
    if isinstance(key, int):
        fits = -(1 << 31) <= key < 1 << 31
        return (key if fits else key ^ (key >> 32)) & _MASK
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        return _polynomial(0, (units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)))
    if isinstance(key, bytes):
        return _polynomial(1, (byte - 256 if byte > 127 else byte for byte in key))
    raise TypeError(f"the partitioner `hash` takes keys of type int, str or bytes, not {type(key).__name__}")


def _polynomial(found: int, terms: Iterable[int]) -> int:
    for term in terms:
        found = (31 * found + term) & _MASK
    return found
