"""A record that a test puts into a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

# What a record has as key or value: bytes, a text in UTF-8, a mapping in JSON, or nothing.
Content = bytes | str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record to `put`. Texts become UTF-8, mappings JSON; None as the value is a tombstone.

    `timestamp` is in ms since 1970 UTC.
    """

    value: Content
    key: Content = None
    timestamp: int | None = None
    headers: Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)
    # None: by the key's hash, as clients choose it.
    partition: int | None = None


# What `put` takes for one record: a value, a pair of key and value, or a whole Record.
RecordLike = Record | bytes | str | Mapping[str, Any] | tuple[Content, Content]


def records_of(given: Iterable[RecordLike], now_ms: int | None) -> list[Record]:
    """Return the records that a test means. `now_ms` is the time of those that have none of their own.

    TypeError for one value in the place of many.
    """
    if isinstance(given, str | bytes | Mapping | Record):
        raise TypeError(f"put takes a list of records, not {given!r:.100}: write [{given!r:.100}]")
    return [each if each.timestamp is not None else replace(each, timestamp=now_ms) for each in map(_record, given)]


def _record(given: RecordLike) -> Record:
    match given:
        case Record():
            return given
        case Mapping():
            return Record(given)
        case (key, value):
            return Record(value, key)
        case _:
            return Record(given)


def to_bytes(content: Content) -> bytes | None:
    """Return the bytes of a key or value. ValueError for a mapping with a number that JSON does not have."""
    text = json.dumps(dict(content), allow_nan=False) if isinstance(content, Mapping) else content
    return text.encode() if isinstance(text, str) else text
