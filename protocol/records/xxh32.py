"""xxHash32 of short inputs: the checksum in the header of an LZ4 frame, to mend or to keep KAFKA-3160's mistake.

The `lz4` package checks headers but lends its hash to nobody. Headers have at most 18 bytes with the magic number, so
this needs no speed; 16 bytes and more (a header with content size and dictionary id) take the four-lane loop.
"""

from __future__ import annotations

_PRIME_1 = 2654435761
_PRIME_2 = 2246822519
_PRIME_3 = 3266489917
_PRIME_4 = 668265263
_PRIME_5 = 374761393
_MASK = 0xFFFFFFFF


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK


def xxh32(data: bytes) -> int:
    """Return the unsigned xxHash32, seed 0, of `data`."""
    position = 0
    if len(data) >= 16:
        lanes = [(_PRIME_1 + _PRIME_2) & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate((lanes[lane] + word * _PRIME_2) & _MASK, 13) * _PRIME_1 & _MASK
                position += 4
        total = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = _PRIME_5
    total = (total + len(data)) & _MASK
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        total = _rotate((total + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        position += 4
    for byte in data[position:]:
        total = _rotate((total + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    total = (total ^ total >> 15) * _PRIME_2 & _MASK
    total = (total ^ total >> 13) * _PRIME_3 & _MASK
    return total ^ total >> 16
