"""The partitioners to choose from, by name: which partition a record goes to when the user names none.

    murmur2      the default: Java's hash of the key; without a key, one partition for about a batch, then another
    sticky       one partition for about a batch, then another, whatever the key
    random       any partition that has a leader
    round_robin  the partitions that have a leader, in turn
    hash         Java's hashCode of the key (int, str or bytes) modulo the number of partitions, as the producers before
                 Kafka 0.9 had it; without a key, any partition

Your own is a function `(key, partitions, available) -> partition`: the key before it is serialized, the numbers of all
partitions, and of those that have a leader.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from ..core.metadata import NO_LEADER, TopicInfo
from ..errors import InvalidOption
from .partitioner import Partitioner
from .record_checks import checked_partition

OwnPartitioner = Callable[[object, Sequence[int], Sequence[int]], int]
# (topic, key, its bytes, size of the record in bytes) -> partition
Choice = Callable[[TopicInfo, object, bytes | None, int], int]

DEFAULT = "murmur2"
_POSITIVE = 0x7FFFFFFF


def choice_for(option: str | OwnPartitioner, default: Partitioner) -> Choice:
    """Return the function for an option. Raises InvalidOption."""
    if callable(option):
        return _own(option)
    if option == DEFAULT:
        return default.choose
    if option == "sticky":
        return lambda topic, _key, _raw, size: default.keyless(topic, size)
    if option == "random":
        return lambda topic, _key, _raw, _size: random.choice(_available(topic))
    if option == "round_robin":
        return _RoundRobin().choose
    if option == "hash":
        return _by_hash
    raise InvalidOption(f"partitioner must be murmur2, sticky, random, round_robin, hash or a function, not {option!r}")


def _available(topic: TopicInfo) -> list[int]:
    """Return the partitions that have a leader; all if none has."""
    led = [info.partition for info in topic.partitions if info.leader != NO_LEADER]
    return led or [info.partition for info in topic.partitions]


class _RoundRobin:
    """Counts the records of each topic."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def choose(self, topic: TopicInfo, _key: object, _raw: bytes | None, _size: int) -> int:
        available, count = _available(topic), self._counts.get(topic.name, 0)
        self._counts[topic.name] = count + 1
        return available[count % len(available)]


def _by_hash(topic: TopicInfo, key: object, _raw: bytes | None, _size: int) -> int:
    if key is None:
        return random.choice(_available(topic))
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
        return (key if fits else key ^ (key >> 32)) & 0xFFFFFFFF
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        return _polynomial(0, (units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)))
    if isinstance(key, bytes):
        return _polynomial(1, (byte - 256 if byte > 127 else byte for byte in key))
    raise TypeError(f"the partitioner `hash` takes keys of type int, str or bytes, not {type(key).__name__}")


def _polynomial(found: int, terms: Iterable[int]) -> int:
    for term in terms:
        found = (31 * found + term) & 0xFFFFFFFF
    return found
