"""The transactional ids of a query's participants: `odradek-query/QUERY/TASK/SALT`.

All of them belong to the partition of `__transaction_state` that the query id belongs to, because one record batch
commits them. The salt is the first text that leads there by Java's hash of the whole id. The coordinator chooses it, so
that clients need not know the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..partition_hash import INT_MIN, java_hash, partition_for

PREFIX = "odradek-query/"
# Every printable character but the slash. Those that read well come first.
_LETTERS = "".join(chr(code) for code in (*range(48, 58), *range(97, 123), *range(65, 91)))
_REST = "".join(chr(code) for code in range(33, 127) if chr(code) not in _LETTERS + "/")
_ALPHABET = _LETTERS + _REST


def participant_name(query_id: str, task: str, partitions: int) -> str:
    """Return the transactional id of a task. `task` has no slash."""
    stem = f"{PREFIX}{query_id}/{task}/"
    wanted, code = partition_for(query_id, partitions), java_hash(stem)
    for salt in _salts():
        if _partition(code, salt, partitions) == wanted:
            return stem + salt
    raise AssertionError("salts never end")


def query_of(transactional_id: str) -> str | None:
    """Return the query id of a participant, None for another transactional id."""
    if not transactional_id.startswith(PREFIX):
        return None
    parts = transactional_id[len(PREFIX) :].rsplit("/", 2)
    return parts[0] if len(parts) == 3 else None


def _salts() -> Iterator[str]:
    length = 1
    while True:
        yield from map("".join, product(_ALPHABET, repeat=length))
        length += 1


def _partition(code: int, salt: str, partitions: int) -> int:
    """Return `partition_for(stem + salt)`, from the hash of the stem."""
    for letter in salt:
        code = code * 31 + ord(letter)
    code &= 0xFFFFFFFF
    signed = code - 2**32 if code & 0x80000000 else code
    return 0 if signed == INT_MIN else abs(signed) % partitions
