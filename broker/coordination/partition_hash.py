"""The partition of its internal topic that an id belongs to: by Java's hash, as in every Kafka broker."""

from __future__ import annotations

import struct

INT_MIN = -(2**31)


def partition_for(key: str, partitions: int) -> int:
    """Return the absolute value of the hash, modulo the number of partitions. Kafka does not mask to 31 bits here."""
    code = java_hash(key)
    # Java's smallest int has no positive counterpart. Kafka uses 0 for it.
    return 0 if code == INT_MIN else abs(code) % partitions


def java_hash(text: str) -> int:
    """Return what Java's `String.hashCode()` does: a signed 32-bit number over UTF-16 units."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code - 2**32 if code & 0x80000000 else code
