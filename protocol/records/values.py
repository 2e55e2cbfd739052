"""The bytes of records that have only values, and the values of any records: both for millions of short lines."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernel import door
from .columns import decode_columns
from .errors import InvalidRecord
from .record import Record, encode_records

# More records than a batch of the usual sizes has.
MAX_VALUES = 1 << 16


def encode_values(values: Sequence[bytes]) -> bytes:
    """Return the records of these values, without keys, headers and differences in time. At least one value.

    Raises InvalidRecord for more than MAX_VALUES.
    """
    if len(values) > MAX_VALUES:
        raise InvalidRecord(f"{len(values)} values are too many for one batch")
    if door.compiled is not None and (made := door.compiled.encode_values(values)) is not None:
        return made
    return encode_records([Record(value=value, timestamp_ms=0) for value in values], 0, 0)[0]


def decode_values(data: bytes, count: int) -> list[bytes | None]:
    """Return the values of the `count` records that fill `data`. Raises InvalidRecord."""
    if door.compiled is not None and (found := door.compiled.decode_values(data, count)) is not None:
        return found
    return decode_columns(data, count, 0, 0).values
