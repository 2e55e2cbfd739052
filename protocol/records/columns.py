"""The records of a batch by column: offsets, timestamps, keys, values and headers. The format is that of `record.py`.

Decoding is one loop with short varints inline that fills a list for each column, in the compiled kernel or in Python.
Whatever tuple a caller wants for a row, `zip` makes it of these lists in C. Broken bytes raise `InvalidRecord`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

from ...kernel import door
from .errors import InvalidRecord
from .record import MIN_RECORD_BYTES, Headers, Record, decode_headers, encode_records, read_long_varint

R = TypeVar("R", bound=tuple[Any, ...])
# Makes a named tuple without its Python-level constructor, in half the time.
_new: Callable[[type[Any], tuple[object, ...]], Any] = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

# More records than a batch of the usual sizes has.
MAX_VALUES = 1 << 16
# `decode_records` decodes so many records ahead of the one that it yields.
_AHEAD_RECORDS = 1024


class Columns(NamedTuple):
    """One entry a record in each list. Timestamps are milliseconds since 1970; keys and values are copies."""

    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


def decode_columns(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None = None
) -> Columns:
    """Return the `count` records that fill `data`. Raises InvalidRecord.

    `append_time_ms` replaces every timestamp (a batch of LogAppendTime).
    """
    _check_room(data, 0, count)
    columns, end = _decode(data, 0, 0, count, base_offset, base_timestamp, append_time_ms)
    _check_end(data, end, count)
    return columns


def iter_columns(data: bytes, count: int, base_offset: int, base_timestamp: int, most: int) -> Iterator[Columns]:
    """Do as `decode_columns`, but yield `most` records at a time, so that few are in memory."""
    _check_room(data, 0, count)
    position = 0
    for first in range(0, count, most):
        some = min(most, count - first)
        columns, position = _decode(data, position, first, some, base_offset, base_timestamp, None)
        yield columns
    _check_end(data, position, count)


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


class Shape(NamedTuple, Generic[R]):
    """A named tuple for a record: (*before, offset, timestamp, *between, key, value, headers)."""

    kind: type[R]
    before: tuple[str | int, ...] = ()
    between: tuple[str | int, ...] = ()

    def rows(self, columns: Columns) -> list[R]:
        """Return a named tuple for each row of columns."""
        offsets, timestamps, *rest = columns
        same = [[repeat(cell, len(offsets)) for cell in cells] for cells in (self.before, self.between)]
        cells = zip(*same[0], offsets, timestamps, *same[1], *rest, strict=True)
        return list(map(_new, repeat(self.kind), cells))


_RECORD = Shape(Record)


class RowReader(Generic[R]):
    """The records of one batch as named tuples, decoded as far as they are asked for. Arguments as `decode_columns`."""

    __slots__ = ("_count", "_data", "_position", "_shape", "_times", "left")

    def __init__(
        self,
        shape: Shape[R],
        data: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time_ms: int | None = None,
    ) -> None:
        self._shape = shape
        self._data = data
        self._count = count
        self._times = base_offset, base_timestamp, append_time_ms
        self._position = 0
        # How many records were not read yet.
        self.left = count

    def read(self, most: int) -> list[R]:
        """Return the next `most` records, fewer at the end. Raises InvalidRecord."""
        some, first = min(most, self.left), self._count - self.left
        _check_room(self._data, self._position, self.left)
        found = None
        if door.compiled is not None:
            found = door.compiled.decode_rows(self._data, self._position, some, *self._times, *self._shape)
        if found is None:
            columns, end = _decode(self._data, self._position, first, some, *self._times)
            found = self._shape.rows(columns), end
        self._position = found[1]
        self.left -= some
        if self.left <= 0:
            _check_end(self._data, self._position, self._count)
        return found[0]


def decode_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None = None
) -> Iterator[Record]:
    """Do as `decode_columns`, but yield records and hold few of them at a time.

    An InvalidRecord comes up to 1,024 records before the broken one.
    """
    reader = RowReader(_RECORD, data, count, base_offset, base_timestamp, append_time_ms)
    yield from reader.read(_AHEAD_RECORDS)
    while reader.left > 0:
        yield from reader.read(_AHEAD_RECORDS)


def _check_end(data: bytes, end: int, count: int) -> None:
    if end != len(data):
        raise InvalidRecord(f"{len(data) - end} bytes are left after the {count} records of the batch")


def _check_room(data: bytes, position: int, count: int) -> None:
    if count * MIN_RECORD_BYTES > len(data) - position:
        raise InvalidRecord(f"{count} records go beyond the {len(data)} bytes of their batch")


def _decode(
    data: bytes,
    position: int,
    first: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> tuple[Columns, int]:
    """Return `count` records from `position` on, where the record of index `first` is, and the position behind them.

    Raises InvalidRecord.
    """
    found = None
    if door.compiled is not None:
        found = door.compiled.decode_columns(data, position, count, base_offset, base_timestamp)
    if found is not None:
        columns, end = Columns(*found[0]), found[1]
    else:
        columns, end = _decode_in_python(data, position, first, count, base_offset, base_timestamp)
    return columns if append_time_ms is None else columns._replace(timestamps_ms=[append_time_ms] * count), end


def _decode_in_python(
    data: bytes, position: int, first: int, count: int, base_offset: int, base_timestamp: int
) -> tuple[Columns, int]:
    """Walk records by their fields: the one place in Python that does. Raises InvalidRecord."""
    # Filled with what is usual, so that the loop only writes what differs: a tenth to a fifth of its time.
    offsets = list(range(base_offset + first, base_offset + first + count))
    columns = Columns(offsets, [base_timestamp] * count, [None] * count, [None] * count, [()] * count)
    try:
        position = _decode_records(data, position, first, columns, base_offset, base_timestamp)
    except IndexError:
        raise InvalidRecord(f"a record goes beyond the {len(data)} bytes of its batch") from None
    return columns, position


def _decode_records(
    data: bytes, position: int, first: int, columns: Columns, base_offset: int, base_timestamp: int
) -> int:
    """Fill columns. Return the position behind the records. Raises InvalidRecord, IndexError."""
    offsets, timestamps, keys, values, headers = columns
    for index in range(len(offsets)):
        if (number := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            number += (byte << 7) - 0x80
            position += 2
        else:
            number, position = read_long_varint(data, position)
        twice_end = (position << 1) + number  # stays odd, and so never matches, where the length is negative
        position += 1  # attributes: none are defined
        if (number := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            number += (byte << 7) - 0x80
            position += 2
        else:
            number, position = _long_timestamp(data, position, base_timestamp)
        if number:
            timestamps[index] = base_timestamp - (number + 1 >> 1) if number & 1 else base_timestamp + (number >> 1)
        if (number := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            number += (byte << 7) - 0x80
            position += 2
        else:
            number, position = read_long_varint(data, position)
        if number != first + index << 1:
            offsets[index] = base_offset - (number + 1 >> 1) if number & 1 else base_offset + (number >> 1)
        if (number := data[position]) < 0x80:
            position += 1
        else:
            number, position = read_long_varint(data, position)
        if not number & 1:
            keys[index] = data[position : (position := position + (number >> 1))]
        if (number := data[position]) < 0x80:
            position += 1
        elif (byte := data[position + 1]) < 0x80:
            number += (byte << 7) - 0x80
            position += 2
        else:
            number, position = read_long_varint(data, position)
        if not number & 1:
            values[index] = data[position : (position := position + (number >> 1))]
        if data[position]:
            headers[index], position = decode_headers(data, position)
        else:
            position += 1
        if position << 1 != twice_end:
            raise InvalidRecord(f"record at offset {offsets[index]} does not end where its length says")
    return position


def _long_timestamp(data: bytes, position: int, base: int) -> tuple[int, int]:
    """Do as `read_long_varint` for a timestamp delta. The sum with `base` wraps at 64 bits, as in Java."""
    number, position = read_long_varint(data, position)
    timestamp = base + ((number >> 1) ^ -(number & 1))
    delta = ((timestamp + 2**63) & (2**64 - 1)) - 2**63 - base
    return (delta << 1 if delta >= 0 else (-delta << 1) - 1), position
