"""The last offset of each key, in bounded memory: a cleaning looks up here whether a record is its key's last.

Kafka's SkimpyOffsetMap: it keeps 16 bytes of a hash of each key and 8 of the offset, in three arrays with open
addressing, so that a key takes 24 bytes whatever its length. Two keys with the same hash would count as one. With ten
million keys the chance of that is one in 10^24. The hash is Python's own (SipHash), of the key and of the key behind
another byte: two calls of it take a third of the time of one BLAKE2.

Beside them it keeps a byte for each offset of the dirty part, 1 where a record is the last of its key. So the second
reading of the dirty part needs no key: it copies or drops most batches unparsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

ENTRY_BYTES = 24
# At this load, double hashing tries some four places to find that a key is missing.
LOAD_FACTOR = 0.75
# A smaller map would save nothing.
MIN_KEYS = 64
# Up to 2^32 no two successive primes are further apart.
MAX_PRIME_GAP = 354
# The part of the memory that the bytes of the offsets may take. A dirty part of more offsets does without them.
MARKS_SHARE = 0.25

_NO_OFFSET = -1

# (offset, key, whether it has a value)
Keyed = tuple[int, bytes | None, bool]


class OffsetMap:
    """The last offsets of keys in [first_offset, end_offset). `max_bytes` bounds its memory."""

    __slots__ = (
        "_first",
        "_first_offset",
        "_has_tombstones",
        "_marks",
        "_offsets",
        "_second",
        "_slots",
        "latest_offset",
        "max_keys",
        "size",
    )

    def __init__(self, max_bytes: int, first_offset: int, end_offset: int) -> None:
        span = max(end_offset - first_offset, 0)
        # 1 for each offset whose record is the last of its key; None: not kept.
        self._marks = bytearray(span) if span <= max_bytes * MARKS_SHARE else None
        if self._marks is not None:
            max_bytes -= span
        wanted = max(int(span / LOAD_FACTOR) + 2, MIN_KEYS * 2) + MAX_PRIME_GAP
        self._slots = _prime_below(min(max_bytes // ENTRY_BYTES, wanted) + 1)
        self.max_keys = int(self._slots * LOAD_FACTOR)
        self.size = 0  # Invariant: <= max_keys, so that every search ends
        self.latest_offset = first_offset - 1  # the map covers all records up to here
        self._first_offset = first_offset
        self._has_tombstones = False
        self._first = array("q", [0]) * self._slots  # Invariant: 0 where the place is free
        self._second = array("q", [0]) * self._slots
        self._offsets = array("q", [0]) * self._slots

    def put_all(self, records: Iterable[Keyed], last_offset: int) -> bool:
        """Note the records of a batch that ends with `last_offset`; return False where the map is full.

        The map then covers the records before the first that has no place.
        """
        first_offset, marks, slots = self._first_offset, self._marks, self._slots
        firsts, seconds, offsets = self._first, self._second, self._offsets
        before = first_offset - 1
        for offset, key, has_value in records:
            if key is None or offset < first_offset:
                continue
            first, second = hash(key) or 1, hash(b"\0" + key)
            slot = first % slots
            if firsts[slot] != first or seconds[slot] != second:
                slot = self._probe(slot, first, second)
            is_new = not firsts[slot]
            if is_new:
                if self.size == self.max_keys:
                    return False
                firsts[slot], seconds[slot] = first, second
                self.size += 1
            if marks is not None:
                if not before < offset <= last_offset:
                    # The batch does not say where its records are. Keys tell what stays.
                    marks = self._marks = None
                else:
                    if not is_new:
                        marks[offsets[slot] - first_offset] = 0
                    marks[offset - first_offset] = 1
                    if not has_value:
                        self._has_tombstones = True
            offsets[slot] = self.latest_offset = before = offset
        self.latest_offset = max(self.latest_offset, last_offset)
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if there is none."""
        first, second = hash(key) or 1, hash(b"\0" + key)
        slot = first % self._slots
        if self._first[slot] != first or self._second[slot] != second:
            slot = self._probe(slot, first, second)
            if not self._first[slot]:
                return _NO_OFFSET
        return self._offsets[slot]

    # -- Without keys ------------------------------------------------------------------------------

    def marks_of(self, base_offset: int, last_offset: int) -> bytearray | None:
        """Return a byte for each offset of a batch, 1 where the record is the last of its key.

        None where the map did not see all of the batch, or keeps no marks.
        """
        if self._marks is None or base_offset < self._first_offset or last_offset > self.latest_offset:
            return None
        return self._marks[base_offset - self._first_offset : last_offset + 1 - self._first_offset]

    @property
    def has_tombstones(self) -> bool:
        """Whether a record without a value was put, as far as marks are kept."""
        return self._has_tombstones

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
