"""A record that a test puts into a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Record:
    """A record to `put`. Texts become UTF-8; None as the value is a tombstone; `timestamp` is in ms since 1970 UTC."""

    value: bytes | str | None
    key: bytes | str | None = None
    timestamp: int | None = None
    headers: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)
    # None: by the key's hash, as clients choose it.
    partition: int | None = None


# What `put` takes for one record: a value, a pair of key and value, or a whole Record.
RecordLike = Record | bytes | str | tuple[bytes | str | None, bytes | str | None]


def records_of(given: Iterable[RecordLike], now_ms: int | None) -> list[Record]:
    """Return the records that a test means. `now_ms` is the time of those that have none of their own.

    TypeError for one value in the place of many.
    """
    if isinstance(given, str | bytes | Record):
        raise TypeError(f"put takes a list of records, not {given!r:.100}: write [{given!r:.100}]")
    return [each if each.timestamp is not None else replace(each, timestamp=now_ms) for each in map(_record, given)]


def _record(given: RecordLike) -> Record:
    match given:
        case Record():
            return given
        case (key, value):
            return Record(value, key)
        case _:
            return Record(given)


def to_bytes(text: bytes | str | None) -> bytes | None:
    """Return the bytes of a key or value."""
    return text.encode() if isinstance(text, str) else text
