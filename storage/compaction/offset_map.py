"""The last offset of each key, in bounded memory: a cleaning looks up here whether a record is its key's last.

Kafka's SkimpyOffsetMap: it keeps 16 bytes of a hash of each key and 8 of the offset, in three arrays with open
addressing, so that a key takes 24 bytes whatever its length. Two keys with the same hash would count as one. With ten
million keys the chance of that is one in 10^24.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct

ENTRY_BYTES = 24
# At this load, double hashing tries some four places to find that a key is missing.
LOAD_FACTOR = 0.75
# A smaller map would save nothing.
MIN_KEYS = 64
# Up to 2^32 no two successive primes are further apart.
MAX_PRIME_GAP = 354

_NO_OFFSET = -1
_unpack = Struct("=QQ").unpack


class OffsetMap:
    """See the module's text. `max_bytes` bounds it, and so does `keys`, the largest possible number of keys."""

    __slots__ = ("_first", "_offsets", "_second", "_slots", "latest_offset", "max_keys", "size")

    def __init__(self, max_bytes: int, keys: int) -> None:
        wanted = max(int(keys / LOAD_FACTOR) + 2, MIN_KEYS * 2) + MAX_PRIME_GAP
        self._slots = _prime_below(min(max_bytes // ENTRY_BYTES, wanted) + 1)
        self.max_keys = int(self._slots * LOAD_FACTOR)
        self.size = 0  # Invariant: <= max_keys, so that every search ends
        self.latest_offset = _NO_OFFSET  # the map covers all records up to here
        self._first = array("Q", [0]) * self._slots  # Invariant: 0 where the place is free
        self._second = array("Q", [0]) * self._slots
        self._offsets = array("q", [0]) * self._slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note a later offset of a key; return False where the key is new and the map is full."""
        first, second = _unpack(blake2b(key, digest_size=16).digest())
        first = first or 1
        slot = first % self._slots
        if self._first[slot] != first or self._second[slot] != second:
            slot = self._probe(slot, first, second)
            if not self._first[slot]:
                if self.size == self.max_keys:
                    return False
                self._first[slot], self._second[slot] = first, second
                self.size += 1
        self._offsets[slot] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if there is none."""
        first, second = _unpack(blake2b(key, digest_size=16).digest())
        first = first or 1
        slot = first % self._slots
        if self._first[slot] != first or self._second[slot] != second:
            slot = self._probe(slot, first, second)
            if not self._first[slot]:
                return _NO_OFFSET
        return self._offsets[slot]

    def _probe(self, slot: int, first: int, second: int) -> int:
        """Return the place of the key with this hash, or the free place where it belongs."""
        slots, table, others = self._slots, self._first, self._second
        # The number of places is prime, so steps of any width reach all of them.
        step = 1 + second % (slots - 1)
        there = table[slot]
        while there and (there != first or others[slot] != second):
            slot = (slot + step) % slots
            there = table[slot]
        return slot


def _prime_below(limit: int) -> int:
    """Return the largest prime below `limit`, which is well above 2."""
    number = limit - 1 | 1
    if number >= limit:
        number -= 2
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number -= 2
    return number
