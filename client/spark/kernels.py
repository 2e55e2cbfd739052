"""The record decoder in numba: record batches v2 in a buffer -> the columns of an Arrow batch.

Three kernels, all free of Python objects and of the GIL:

    scan_batches    walks the 61-byte batch headers of a buffer into a table, one row of int64 a batch
    decode_rows     walks the records of the table's batches and appends keys, values and numbers to open columns
    decode_headers  does the same for the record headers of rows that decode_rows has walked already

Promise: for any bytes, no kernel reads outside `source` or writes outside a column, because it compares every length
with the bytes left before it uses the length. Broken bytes end a kernel with a negative status, and `decoder` raises a
typed error for it. `protocol.records` decodes the same bytes in pure Python; the tests compare the two.

Importing this module imports numba and compiles (or loads from numba's cache): only a running task does that.
"""
# pyright: basic, reportCallIssue=false
# numba has no types; `decoder` is the typed door.

from __future__ import annotations

from typing import Any, NamedTuple

import numba

from .memory import add_to, address_of, clear_bit, copy, kernel, load8, load64, load_be32, load_be64, store32, store64

# Columns of the batch table.
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, COUNT, ATTRIBUTES = 0, 1, 2, 3, 4, 5
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, CRC, RECORDS_START, RECORDS_END = 6, 7, 8, 9, 10, 11
TABLE_WIDTH = 12

# Why the scan ended.
SCAN_END, SCAN_TORN, SCAN_TABLE_FULL, SCAN_OLD_MAGIC, SCAN_BAD_SIZE, SCAN_BAD_MAGIC = 0, 1, 2, 3, -1, -2

# Cells of the cursor that decode_rows keeps between calls: first its place in the table, then counts of the columns.
BATCH, BYTE, RECORD = 0, 1, 2
ROWS, KEY_BYTES, VALUE_BYTES, KEY_NULLS, VALUE_NULLS = 3, 4, 5, 6, 7
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, NEEDED_BYTES = 8, 9, 10, 11
CURSOR_WIDTH = 12

# Why decode_rows stopped: the table has ended; the columns are full; the next row alone is larger than the columns.
DONE, FULL, TOO_LARGE = 0, 1, 2
BAD_RECORD, BAD_LENGTH, BAD_VARINT, BAD_HEADER, LEFT_OVER, BAD_TIMESTAMP, BAD_SECTION = -1, -2, -3, -4, -5, -6, -7
REASONS = {
    BAD_RECORD: "a record goes beyond the bytes of its batch",
    BAD_LENGTH: "a record's fields do not end where its length says",
    BAD_VARINT: "a varint is longer than 64 bits",
    BAD_HEADER: "a record's headers are broken",
    LEFT_OVER: "bytes are left after the last record of the batch",
    BAD_TIMESTAMP: "a timestamp does not fit into 64 bits of microseconds",
    BAD_SECTION: "a batch lies outside its buffer",
}

# Bits of `wanted`: the other columns are walked, but not copied.
WANT_KEY, WANT_VALUE, WANT_OFFSET, WANT_TIMESTAMP, WANT_TIMESTAMP_TYPE, WANT_HEADERS = 1, 2, 4, 8, 16, 32

_HEADER_BYTES = 61
_MIN_BATCH_LENGTH = 49  # of an empty batch: the header without the base offset and the length field itself
LOG_APPEND_TIME = 8
_MAX_MS = (2**63 - 1) // 1000
_MAX_DELTA = 2**31


# -- Batches


@kernel
def scan_batches(source, at, table):
    """Fill `table` from position `at`: -> (rows, position of the first byte not scanned, status)."""
    base, end = address_of(source), source.size
    rows = 0
    while at < end:
        header = base + at
        if end - at < _HEADER_BYTES:
            # A whole message of magic 0 or 1 can be shorter than a v2 header.
            old = end - at > 16 and load8(header + 16) < 2 and end - at >= 12 + load_be32(header + 8)
            return rows, at, SCAN_OLD_MAGIC if old else SCAN_TORN
        length = load_be32(header + 8)
        magic = load8(header + 16)
        if magic != 2:
            return rows, at, SCAN_OLD_MAGIC if magic < 2 else SCAN_BAD_MAGIC
        if length < _MIN_BATCH_LENGTH:
            return rows, at, SCAN_BAD_SIZE
        if length > end - at - 12:
            return rows, at, SCAN_TORN
        if rows == table.shape[0]:
            return rows, at, SCAN_TABLE_FULL
        table[rows, POSITION] = at
        table[rows, SIZE] = length + 12
        table[rows, BASE_OFFSET] = load_be64(header)
        table[rows, CRC] = load_be32(header + 17) & 0xFFFFFFFF
        table[rows, ATTRIBUTES] = load_be32(header + 19) & 0xFFFF
        table[rows, LAST_OFFSET] = table[rows, BASE_OFFSET] + load_be32(header + 23)
        table[rows, BASE_TIMESTAMP] = load_be64(header + 27)
        table[rows, MAX_TIMESTAMP] = load_be64(header + 35)
        table[rows, PRODUCER_ID] = load_be64(header + 43)
        table[rows, COUNT] = load_be32(header + 57)
        table[rows, RECORDS_START] = at + _HEADER_BYTES
        at += 12 + length
        table[rows, RECORDS_END] = at
        rows += 1
    return rows, at, SCAN_END


# -- Records
# From here on, `at` and `end` are addresses. A negative address is a status that says what is broken.


@numba.njit
def _varint(at, end):
    """-> (value, address after it or a negative status)."""
    if at >= end:
        return 0, BAD_RECORD
    byte = load8(at)
    at += 1
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if at >= end:
            return 0, BAD_RECORD
        byte = load8(at)
        at += 1
        if shift == 63 and byte > 1:
            return 0, BAD_VARINT
        number |= (byte & 0x7F) << shift
        shift += 7
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), at


@numba.njit
def _field(at, end):
    """Walk bytes with a length in front: -> (their address, length or -1 for null, address after them or a status)."""
    length, at = _varint(at, end)
    if at < 0:
        return at, length, at
    if length > end - at:
        return at, length, BAD_RECORD
    if length < 0:
        return at, -1, at
    return at, length, at + length


@numba.njit
def _walk_headers(at, end):
    """Walk the headers of a record: -> (count, bytes of keys, bytes of values, address after them or a status)."""
    key_bytes = value_bytes = 0
    count, at = _varint(at, end)
    if at < 0:
        return count, key_bytes, value_bytes, at
    # Each header takes two bytes or more, so a count that the record cannot hold is rejected before the loop.
    if count < 0 or count > (end - at) // 2:
        return count, key_bytes, value_bytes, BAD_HEADER
    for _ in range(count):
        _, length, at = _field(at, end)
        if at < 0 or length < 0:
            return count, key_bytes, value_bytes, BAD_HEADER
        key_bytes += length
        _, length, at = _field(at, end)
        if at < 0:
            return count, key_bytes, value_bytes, BAD_HEADER
        value_bytes += max(length, 0)
    return count, key_bytes, value_bytes, at


class Walked(NamedTuple):
    """The places and sizes of one record in the source. A length of -1 is a null."""

    status: int
    end: int
    delta_ms: int
    delta: int
    key_at: int
    key_length: int
    value_at: int
    value_length: int
    headers_at: int
    headers: int
    header_key_bytes: int
    header_value_bytes: int


@numba.njit
def _broken(status):
    return Walked(status, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@numba.njit
def _walk_record(at, end):
    """Walk the record at `at`. All its fields must lie inside its length, and its length inside `end`."""
    length, at = _varint(at, end)
    if at < 0:
        return _broken(at)
    if length < 0 or length > end - at:
        return _broken(BAD_RECORD)
    end = at + length
    delta_ms, at = _varint(at + 1, end)  # skips the byte of attributes, of which Kafka defines none
    if at < 0:
        return _broken(at)
    if delta_ms > _MAX_MS or delta_ms < -_MAX_MS:
        return _broken(BAD_TIMESTAMP)
    delta, at = _varint(at, end)
    if at < 0:
        return _broken(at)
    if delta > _MAX_DELTA or delta < -_MAX_DELTA:
        return _broken(BAD_RECORD)
    key_at, key_length, at = _field(at, end)
    if at < 0:
        return _broken(at)
    value_at, value_length, at = _field(at, end)
    if at < 0:
        return _broken(at)
    headers_at = at
    headers = key_bytes = value_bytes = 0
    if at + 1 == end and load8(at) == 0:  # the usual case: no headers
        at += 1
    else:
        headers, key_bytes, value_bytes, at = _walk_headers(at, end)
        if at < 0:
            return _broken(at)
    if at != end:
        return _broken(BAD_LENGTH)
    return Walked(
        DONE,
        end,
        delta_ms,
        delta,
        key_at,
        key_length,
        value_at,
        value_length,
        headers_at,
        headers,
        key_bytes,
        value_bytes,
    )


# -- Rows


class Columns(NamedTuple):
    """The open columns of an Arrow batch: arrays outside of the kernel, their addresses inside of it."""

    key_ends: Any  # int32, rows + 1
    key_data: Any  # uint8
    key_valid: Any  # uint8, a bit a row, all set at first
    value_ends: Any
    value_data: Any
    value_valid: Any
    offsets: Any  # int64, rows
    timestamps: Any  # int64, rows, microseconds
    timestamp_types: Any  # int32, rows
    headers_at: Any  # int64, rows: where the row's headers stand in the source


@numba.njit
def _room_for(walked, cursor, wanted, row_limit, byte_limit, budget):
    """Tell whether the row fits into the open columns: DONE, FULL, or TOO_LARGE with NEEDED_BYTES in the cursor."""
    rows = load64(cursor + ROWS * 8)
    if rows == row_limit:
        return FULL
    key_bytes = max(walked.key_length, 0) if wanted & WANT_KEY else 0
    value_bytes = max(walked.value_length, 0) if wanted & WANT_VALUE else 0
    total = load64(cursor + KEY_BYTES * 8) + key_bytes + load64(cursor + VALUE_BYTES * 8) + value_bytes
    if wanted & WANT_HEADERS:
        total += load64(cursor + HEADER_KEY_BYTES * 8) + walked.header_key_bytes
        total += load64(cursor + HEADER_VALUE_BYTES * 8) + walked.header_value_bytes
    if total <= budget:  # Invariant: budget <= byte_limit
        return DONE
    if rows > 0:
        return FULL
    if max(key_bytes, value_bytes) <= byte_limit:
        return DONE
    store64(cursor + NEEDED_BYTES * 8, max(key_bytes, value_bytes))
    return TOO_LARGE


@numba.njit
def _append_bytes(at, length, row, ends, data, valid, used, nulls):
    """Append to a binary column; `used` and `nulls` are the addresses of its cells in the cursor."""
    filled = load64(used)
    if length < 0:
        clear_bit(valid, row)
        store64(nulls, load64(nulls) + 1)
    else:
        copy(data + filled, at, length)
        filled += length
        store64(used, filled)
    store32(ends + 4 * (row + 1), filled)


@numba.njit
def _append_row(walked, offset, timestamp, timestamp_type, base, columns, cursor, wanted):
    row = load64(cursor + ROWS * 8)
    if wanted & WANT_KEY:
        _append_bytes(
            walked.key_at, walked.key_length, row, columns.key_ends, columns.key_data, columns.key_valid,
            cursor + KEY_BYTES * 8, cursor + KEY_NULLS * 8,
        )  # fmt: skip
    if wanted & WANT_VALUE:
        _append_bytes(
            walked.value_at, walked.value_length, row, columns.value_ends, columns.value_data, columns.value_valid,
            cursor + VALUE_BYTES * 8, cursor + VALUE_NULLS * 8,
        )  # fmt: skip
    if wanted & WANT_OFFSET:
        store64(columns.offsets + row * 8, offset)
    if wanted & WANT_TIMESTAMP:
        store64(columns.timestamps + row * 8, timestamp * 1000)
    if wanted & WANT_TIMESTAMP_TYPE:
        store32(columns.timestamp_types + row * 4, timestamp_type)
    if wanted & WANT_HEADERS:
        store64(columns.headers_at + row * 8, walked.headers_at - base)
        add_to(cursor + HEADERS * 8, walked.headers)
        add_to(cursor + HEADER_KEY_BYTES * 8, walked.header_key_bytes)
        add_to(cursor + HEADER_VALUE_BYTES * 8, walked.header_value_bytes)
    store64(cursor + ROWS * 8, row + 1)


@numba.njit
def _microseconds_fit(timestamp):
    """Tell whether a time in ms fits into 64 bits of microseconds. Spark's connector cannot hold others either."""
    return -_MAX_MS <= timestamp <= _MAX_MS


@kernel
def decode_rows(source, table, cursor, wanted, start_offset, end_offset, budget, columns):
    """Append the records of `table` from the cursor on, if their offset is in [start_offset, end_offset): -> status.

    `budget` bounds the bytes of keys, values and headers of all open columns. A single row may exceed it.
    """
    base, state = address_of(source), address_of(cursor)
    row_limit = columns.offsets.size
    byte_limit = min(columns.key_data.size, columns.value_data.size)
    targets = Columns(
        address_of(columns.key_ends), address_of(columns.key_data), address_of(columns.key_valid),
        address_of(columns.value_ends), address_of(columns.value_data), address_of(columns.value_valid),
        address_of(columns.offsets), address_of(columns.timestamps), address_of(columns.timestamp_types),
        address_of(columns.headers_at),
    )  # fmt: skip
    while cursor[BATCH] < table.shape[0]:
        number = cursor[BATCH]
        start, end, record = table[number, RECORDS_START], table[number, RECORDS_END], cursor[RECORD]
        at = cursor[BYTE] if record else start
        if at < 0 or at > end or end > source.size:
            return BAD_SECTION
        base_offset, base_timestamp = table[number, BASE_OFFSET], table[number, BASE_TIMESTAMP]
        append_time, appended = table[number, MAX_TIMESTAMP], (table[number, ATTRIBUTES] & LOG_APPEND_TIME) >> 3
        if not _microseconds_fit(append_time if appended else base_timestamp):
            return BAD_TIMESTAMP
        status, at, end, count = DONE, base + at, base + end, table[number, COUNT]
        while record < count:
            walked = _walk_record(at, end)
            status = walked.status
            if status != DONE:
                break
            offset = base_offset + walked.delta
            if start_offset <= offset < end_offset:
                timestamp = append_time if appended else base_timestamp + walked.delta_ms
                status = _room_for(walked, state, wanted, row_limit, byte_limit, budget)
                if not _microseconds_fit(timestamp):
                    status = BAD_TIMESTAMP
                if status != DONE:
                    break
                _append_row(walked, offset, timestamp, appended, base, targets, state, wanted)
            at = walked.end
            record += 1
        cursor[BYTE], cursor[RECORD] = at - base, record
        if status != DONE:
            return status
        if at != end:
            return LEFT_OVER
        cursor[BATCH], cursor[RECORD] = number + 1, 0
    return DONE


class HeaderColumns(NamedTuple):
    """The open headers column: a list of (key, value) for each row. decode_rows counts how large it must be."""

    list_ends: Any  # int32, rows + 1
    list_valid: Any  # uint8, a bit a row, all set at first: a row without headers has a null, as in Spark's connector
    key_ends: Any  # int32, headers + 1
    key_data: Any  # uint8
    value_ends: Any  # int32, headers + 1
    value_data: Any  # uint8
    value_valid: Any  # uint8, a bit a header, all set at first


@kernel
def decode_headers(source, headers_at, first, last, columns):
    """Append the headers of rows [first, last), which decode_rows walked in this `source`: -> (status, null values)."""
    base, end = address_of(source), address_of(source) + source.size
    list_valid, value_valid = address_of(columns.list_valid), address_of(columns.value_valid)
    key_data, value_data = address_of(columns.key_data), address_of(columns.value_data)
    done, nulls = columns.list_ends[first], 0
    for row in range(first, last):
        count, at = _varint(base + headers_at[row], end)
        if at < 0 or count < 0 or count > columns.key_ends.size - 1 - done:
            return BAD_HEADER, nulls
        if count == 0:
            clear_bit(list_valid, row)
        for _ in range(count):
            start, length, at = _field(at, end)
            filled = columns.key_ends[done]
            if at < 0 or length < 0 or length > columns.key_data.size - filled:
                return BAD_HEADER, nulls
            copy(key_data + filled, start, length)
            columns.key_ends[done + 1] = filled + length
            start, length, at = _field(at, end)
            filled = columns.value_ends[done]
            if at < 0 or length > columns.value_data.size - filled:
                return BAD_HEADER, nulls
            if length < 0:
                clear_bit(value_valid, done)
                nulls += 1
                length = 0
            copy(value_data + filled, start, length)
            columns.value_ends[done + 1] = filled + length
            done += 1
        columns.list_ends[row + 1] = done
    return DONE, nulls
