"""The partition of its internal topic that an id belongs to: by Java's hash, as in every Kafka broker."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_LANE_BITS: Final = 64
_UNITS_OF_A_LANE: Final = 4
_MODULUS: Final[int] = 2**32
# An id may have 32 KiB, and a request name it once for each of many partitions (share_states/coordinator.py). So it is
# hashed in chunks, and what was hashed just now is known: two of the longest ids.
_CHUNK_CHARS: Final = 1_024
_CHUNKS_KEPT: Final = 64


def partition_for(key: str, partitions: int) -> int:
    """Return the absolute value of the hash, modulo the number of partitions. Kafka does not mask to 31 bits here."""
    return partition_of_hash(java_hash(key), partitions)


def partition_of_hash(code: int, partitions: int) -> int:
    """Return the partition of a hash, of which the lowest 32 bits count, as a signed number."""
    code &= 0xFFFFFFFF
    # Java's smallest int has no positive counterpart. Kafka uses 0 for it.
    return 0 if code == 0x80000000 else min(code, _MODULUS - code) % partitions


def java_hash(text: str) -> int:
    """Return what Java's `String.hashCode()` does: a signed 32-bit number over UTF-16 units."""
    code = 0
    for at in range(0, len(text), _CHUNK_CHARS):
        chunk, factor = _hash(text[at : at + _CHUNK_CHARS])
        code = (code * factor + chunk) % _MODULUS
    return code - _MODULUS if code & 0x80000000 else code


@lru_cache(maxsize=_CHUNKS_KEPT)
def _hash(text: str) -> tuple[int, int]:
    """Return the hash of a chunk, unsigned, and what the hash of the text before it is multiplied by.

    This is arithmetic on the whole chunk as one number, which takes a tenth of the time of a loop over the units. Each
    lane of 64 bits holds a hash of 32, so that no product reaches the next lane. The first half of the lanes is
    multiplied for the length of the second half and added to it, until one lane is left. Zeros before a text do not
    change its hash.
    """
    encoded = text.encode("utf-16-be", "surrogatepass")
    lanes: int = 1
    low16, low32 = 0x0000FFFF_0000FFFF, 0x00000000_FFFFFFFF
    while lanes * 2 * _UNITS_OF_A_LANE < len(encoded):
        low16 |= low16 << _LANE_BITS * lanes
        low32 |= low32 << _LANE_BITS * lanes
        lanes *= 2
    code = int.from_bytes(encoded)
    code = (code >> 16 & low16) * 31 + (code & low16)
    code = (code >> 32 & low32) * 31**2 + (code & low32)
    while lanes > 1:
        lanes //= 2
        first = code >> _LANE_BITS * lanes
        second = code ^ first << _LANE_BITS * lanes
        low32 >>= _LANE_BITS * lanes
        code = (first * pow(31, _UNITS_OF_A_LANE * lanes, _MODULUS) + second) & low32
    return code, pow(31, len(encoded) // 2, _MODULUS)
