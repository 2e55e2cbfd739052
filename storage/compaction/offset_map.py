"""The last offset of each key, in bounded memory: a cleaning looks up here whether a record is its key's last.

It begins as a dict, which takes the keys of some hundred records by a few calls. A dict takes some 200 bytes a key.
Once it has grown to its part of the memory, it is packed into Kafka's SkimpyOffsetMap: 16 bytes of a hash of each key
and 8 of the offset, in three arrays with open addressing, so that a key takes 24 bytes whatever its length. Two keys
with the same hash would count as one there. With ten million keys the chance of that is one in 10^24. The hash is
Python's own (SipHash), of the key and of the key behind another byte: two calls of it take a third of the time of one
BLAKE2.

Beside them it keeps a byte for each offset of the dirty part, 1 where a record is the last of its key. So the second
reading of the dirty part needs no key: it copies or drops most batches unparsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from itertools import pairwise, starmap
from operator import lt

from ...protocol.records.filter import Keys

ENTRY_BYTES = 24
# What a key takes in a dict beside its own bytes: its object, that of its offset, and the entry of a dict that has just
# grown.
DICT_ENTRY_BYTES = 180
# The part of the memory that the dict may take.
DICT_SHARE = 0.25
# A map of less memory begins with the arrays.
MIN_DICT_MEMORY_BYTES = 1 << 20
# At this load, double hashing tries some four places to find that a key is missing.
LOAD_FACTOR = 0.75
# A smaller map would save nothing.
MIN_KEYS = 64
# Up to 2^32 no two successive primes are further apart.
MAX_PRIME_GAP = 354
# The part of the memory that the bytes of the offsets may take. A dirty part of more offsets does without them.
MARKS_SHARE = 0.25

_NO_OFFSET = -1


class OffsetMap:
    """The last offsets of keys in [first_offset, end_offset). `max_bytes` bounds its memory."""

    __slots__ = (
        "_dict",
        "_dict_bytes",
        "_first",
        "_first_offset",
        "_marks",
        "_max_dict_bytes",
        "_offsets",
        "_packed",
        "_second",
        "_slots",
        "has_tombstones",
        "latest_offset",
        "max_keys",
    )

    def __init__(self, max_bytes: int, first_offset: int, end_offset: int) -> None:
        span = max(end_offset - first_offset, 0)
        # 0 where a run of keys could be more than the arrays have room for.
        self._max_dict_bytes = int(max_bytes * DICT_SHARE) if max_bytes >= MIN_DICT_MEMORY_BYTES else 0
        # 1 for each offset whose record is the last of its key; None: not kept.
        self._marks = bytearray(span) if span <= max_bytes * MARKS_SHARE else None
        packed_bytes = max_bytes - self._max_dict_bytes - len(self._marks or b"")
        wanted = max(int(span / LOAD_FACTOR) + 2, MIN_KEYS * 2) + MAX_PRIME_GAP
        self._slots = _prime_below(min(packed_bytes // ENTRY_BYTES, wanted) + 1)
        # Invariant: not less than the dict can have.
        self.max_keys = int(self._slots * LOAD_FACTOR)
        self.latest_offset = first_offset - 1  # the map covers all records up to here
        self._first_offset = first_offset
        # Whether a record without a value was put.
        self.has_tombstones = False
        # The keys, or None once they are packed.
        self._dict: dict[bytes, int] | None = {}
        self._dict_bytes = 0
        self._packed = 0  # Invariant: <= max_keys, so that every search ends
        self._first = array("q")  # Invariant: 0 where the place is free
        self._second = array("q")
        self._offsets = array("q")
        if not self._max_dict_bytes:
            self._pack({})

    @property
    def size(self) -> int:
        """How many keys there are."""
        return self._packed if self._dict is None else len(self._dict)

    def put_all(self, runs: Iterable[Keys], last_offset: int) -> bool:
        """Note the records of a batch that ends with `last_offset`; return False where the map is full.

        The map then covers the records before the first that has no place.
        """
        before = self._first_offset - 1
        for offsets, keys, has_tombstone in runs:
            if offsets and offsets[0] < self._first_offset:
                offsets, keys = self._from_first(offsets, keys)
            if not offsets:
                continue
            self.has_tombstones |= has_tombstone
            if not (before < offsets[0] and offsets[-1] <= last_offset and all(starmap(lt, pairwise(offsets)))):
                # The batch does not say where its records are. Keys tell what stays.
                self._marks = None
            before = offsets[-1]
            if self._dict is not None:
                self._put_dict(self._dict, offsets, keys)
            elif not self._put_packed(offsets, keys):
                return False
        self.latest_offset = max(self.latest_offset, last_offset)
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if there is none."""
        if self._dict is not None:
            return self._dict.get(key, _NO_OFFSET)
        first, second = _hashes(key)
        slot = self._probe(first % self._slots, first, second)
        return self._offsets[slot] if self._first[slot] else _NO_OFFSET

    # -- Without keys ------------------------------------------------------------------------------

    def marks_of(self, base_offset: int, last_offset: int) -> bytearray | None:
        """Return a byte for each offset of a batch, 1 where the record is the last of its key.

        None where the map did not see all of the batch, or keeps no marks.
        """
        if self._marks is None or base_offset < self._first_offset or last_offset > self.latest_offset:
            return None
        return self._marks[base_offset - self._first_offset : last_offset + 1 - self._first_offset]

    # -- How keys are kept -------------------------------------------------------------------------

    def _from_first(self, offsets: list[int], keys: list[bytes]) -> tuple[list[int], list[bytes]]:
        """Return the records from the first offset of the map on."""
        chosen = [pair for pair in zip(offsets, keys, strict=True) if pair[0] >= self._first_offset]
        return [offset for offset, _ in chosen], [key for _, key in chosen]

    def _put_dict(self, known: dict[bytes, int], offsets: list[int], keys: list[bytes]) -> None:
        last = dict(zip(keys, offsets, strict=True))
        if self._marks is not None:
            self._mark(offsets, last.values(), map(known.get, last))
        before = len(known)
        known.update(last)
        new = len(known) - before
        if new:
            # The new ones of a run are as long as all of it, on average.
            self._dict_bytes += new * (DICT_ENTRY_BYTES + sum(map(len, last)) // len(last))
        self.latest_offset = offsets[-1]
        if self._dict_bytes > self._max_dict_bytes:
            self._pack(known)

    def _mark(self, offsets: list[int], last: Collection[int], before: Iterable[int | None]) -> None:
        """Mark those of `offsets` that are the `last` of their keys, and no longer those that were it `before`."""
        marks, first = self._marks, self._first_offset
        assert marks is not None
        for offset in before:
            if offset is not None:
                marks[offset - first] = 0
        begin, end = offsets[0] - first, offsets[-1] + 1 - first
        if len(last) == end - begin:
            marks[begin:end] = b"\1" * len(last)
        else:
            for offset in last:
                marks[offset - first] = 1

    def _pack(self, known: dict[bytes, int]) -> None:
        """Move all keys from the dict into the arrays."""
        self._dict = None
        self._first, self._second, self._offsets = (array("q", [0]) * self._slots for _ in range(3))
        for key, offset in known.items():
            first, second = _hashes(key)
            slot = self._probe(first % self._slots, first, second)
            self._first[slot], self._second[slot], self._offsets[slot] = first, second, offset
        self._packed = len(known)

    def _put_packed(self, offsets: list[int], keys: list[bytes]) -> bool:
        first_offset, marks, slots = self._first_offset, self._marks, self._slots
        firsts, seconds, known = self._first, self._second, self._offsets
        for offset, key in zip(offsets, keys, strict=True):
            first, second = hash(key) or 1, hash(b"\0" + key)
            slot = first % slots
            if firsts[slot] != first or seconds[slot] != second:
                slot = self._probe(slot, first, second)
            if not firsts[slot]:
                if self._packed == self.max_keys:
                    return False
                firsts[slot], seconds[slot] = first, second
                self._packed += 1
            elif marks is not None:
                marks[known[slot] - first_offset] = 0
            if marks is not None:
                marks[offset - first_offset] = 1
            known[slot] = self.latest_offset = offset
        return True

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


def _hashes(key: bytes) -> tuple[int, int]:
    """Return 16 bytes of a hash; the first half is not 0."""
    return hash(key) or 1, hash(b"\0" + key)


def _prime_below(limit: int) -> int:
    """Return the largest prime below `limit`, which is well above 2."""
    number = limit - 1 | 1
    if number >= limit:
        number -= 2
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number -= 2
    return number
