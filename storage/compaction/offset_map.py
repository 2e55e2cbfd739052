"""The last offset of each key, in a bounded memory: what a cleaning knows of the records that it has not written yet.

Kafka's SkimpyOffsetMap: not the keys are kept but 16 bytes of a hash of each, beside 8 of the offset, in three arrays
with open addressing, so that a key takes 24 bytes whatever its length. Two keys with one hash would be taken for one;
at 128 bits nobody will see that (ten million keys: one in 10^24).
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct

ENTRY_BYTES = 24
# With double hashing a look-up tries some four places at this load, for a key that is not there.
LOAD_FACTOR = 0.75
# Too few to be worth counting.
MIN_KEYS = 64
# No two primes that follow each other are further apart, up to 2^32.
MAX_PRIME_GAP = 354

_NO_OFFSET = -1
_unpack = Struct("=QQ").unpack


class OffsetMap:
    """See the module's text. `max_bytes` bounds it; `keys` is how many there can be at most, if that is less."""

    __slots__ = ("_first", "_offsets", "_second", "_slots", "latest_offset", "max_keys", "size")

    def __init__(self, max_bytes: int, keys: int) -> None:
        wanted = max(int(keys / LOAD_FACTOR) + 2, MIN_KEYS * 2) + MAX_PRIME_GAP
        self._slots = _prime_below(min(max_bytes // ENTRY_BYTES, wanted) + 1)
        self.max_keys = int(self._slots * LOAD_FACTOR)
        self.size = 0  # Invariant: <= max_keys, so that every search comes to an end
        self.latest_offset = _NO_OFFSET  # all records up to this one were looked at
        self._first = array("Q", [0]) * self._slots  # Invariant: 0 where the place is free
        self._second = array("Q", [0]) * self._slots
        self._offsets = array("q", [0]) * self._slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note a later offset of a key; False where the key is new and there is no room for it."""
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
        """Return the place of the key with this hash, or the free one where it belongs, from its first place on."""
        slots, table, others = self._slots, self._first, self._second
        # The number of places is prime: steps of any width come by all of them.
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
