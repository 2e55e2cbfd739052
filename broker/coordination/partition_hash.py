"""The partition of its internal topic that an id belongs to: by Java's hash, as in every Kafka broker."""

from __future__ import annotations

INT_MIN = -(2**31)


def partition_for(key: str, partitions: int) -> int:
    """Return the absolute value of the hash, modulo the number of partitions. Kafka does not mask to 31 bits here."""
    code = java_hash(key)
    # Java's smallest int has no positive counterpart. Kafka uses 0 for it.
    return 0 if code == INT_MIN else abs(code) % partitions


def java_hash(text: str) -> int:
    """Return what Java's `String.hashCode()` does: a signed 32-bit number over UTF-16 units."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (code * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code - 2**32 if code & 0x80000000 else code
