"""The record decoder: record batches v2 in a buffer -> the columns of an Arrow batch.

Four kernels, all free of Python objects and of the GIL:

    scan_batches    walks the 61-byte batch headers of a buffer into a table, one row of int64 a batch
    decode_rows     walks the records of the table's batches and appends keys, values and numbers to open columns
    decode_headers  does the same for the record headers of rows that decode_rows has walked already
    pickle_column   writes keys or values so that Python's `pickle` makes a list of them

Promise: for any bytes, no kernel reads outside its source or writes outside a column, because it compares every length
with the bytes left before it uses the length. Broken bytes end a kernel with a negative status, and `decoder` raises a
typed error for it. `protocol.records` decodes the same bytes in pure Python; the tests compare the two.

Arguments and results are int64: numbers, and addresses of memory that the caller keeps. numba compiles this module to
an object file once on a host (`machine_code.py`), and tasks load that file without numba.
"""
# pyright: basic, reportCallIssue=false
# numba has no types; `decoder` is the typed door.

from __future__ import annotations

from typing import NamedTuple

import numba

from .layout import (
    ATTRIBUTES,
    BAD_HEADER,
    BAD_LENGTH,
    BAD_RECORD,
    BAD_SECTION,
    BAD_TIMESTAMP,
    BAD_VARINT,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH,
    BYTE,
    BYTE_LIMIT,
    COUNT,
    CRC,
    DONE,
    FULL,
    HEADER_KEY_BYTES,
    HEADER_KEY_DATA_AT,
    HEADER_KEY_ENDS_AT,
    HEADER_KEY_LIMIT,
    HEADER_LIMIT,
    HEADER_NULLS,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_DATA_AT,
    HEADER_VALUE_ENDS_AT,
    HEADER_VALUE_LIMIT,
    HEADER_VALUE_VALID_AT,
    HEADERS,
    HEADERS_AT,
    KEY_BYTES,
    KEY_ENDS_AT,
    KEY_NULLS,
    LAST_OFFSET,
    LEFT_OVER,
    LIST_ENDS_AT,
    LIST_VALID_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    NEEDED_BYTES,
    OFFSETS_AT,
    PICKLED_BYTES,
    PICKLED_NONE,
    POSITION,
    PRODUCER_ID,
    RECORD,
    RECORDS_END,
    RECORDS_START,
    ROW_LIMIT,
    ROWS,
    SCAN_BAD_MAGIC,
    SCAN_BAD_SIZE,
    SCAN_END,
    SCAN_OLD_MAGIC,
    SCAN_TABLE_FULL,
    SCAN_TORN,
    SIZE,
    TABLE_WIDTH,
    TIMESTAMP_TYPES_AT,
    TIMESTAMPS_AT,
    TOO_LARGE,
    VALUE_BYTES,
    VALUE_ENDS_AT,
    VALUE_NULLS,
    WANT_HEADERS,
    WANT_KEY,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_TIMESTAMP_TYPE,
    WANT_VALUE,
)  # fmt: skip
from .memory import add_to, clear_bit, copy, load8, load32, load64, load_be32, load_be64, store8, store32, store64

_HEADER_BYTES = 61
_MIN_BATCH_LENGTH = 49  # of an empty batch: the header without the base offset and the length field itself
_MAX_MS = (2**63 - 1) // 1000
_MAX_DELTA = 2**31


# -- Batches


def scan_batches(source, size, at, table, table_rows, found):
    """Fill `table` from byte `at`: -> status. `found` gets the rows, and the position of the first byte not scanned."""
    rows = 0
    status = SCAN_END
    while at < size:
        header = source + at
        if size - at < _HEADER_BYTES:
            # A whole message of magic 0 or 1 can be shorter than a v2 header.
            old = size - at > 16 and load8(header + 16) < 2 and size - at >= 12 + load_be32(header + 8)
            status = SCAN_OLD_MAGIC if old else SCAN_TORN
            break
        length = load_be32(header + 8)
        magic = load8(header + 16)
        if magic != 2:
            status = SCAN_OLD_MAGIC if magic < 2 else SCAN_BAD_MAGIC
            break
        if length < _MIN_BATCH_LENGTH:
            status = SCAN_BAD_SIZE
            break
        if length > size - at - 12:
            status = SCAN_TORN
            break
        if rows == table_rows:
            status = SCAN_TABLE_FULL
            break
        _note_batch(header, at, length, table + rows * (TABLE_WIDTH * 8))
        at += 12 + length
        rows += 1
    store64(found, rows)
    store64(found + 8, at)
    return status


@numba.njit
def _note_batch(header, at, length, row):
    store64(row + POSITION * 8, at)
    store64(row + SIZE * 8, length + 12)
    base = load_be64(header)
    store64(row + BASE_OFFSET * 8, base)
    store64(row + CRC * 8, load_be32(header + 17) & 0xFFFFFFFF)
    store64(row + ATTRIBUTES * 8, load_be32(header + 19) & 0xFFFF)
    store64(row + LAST_OFFSET * 8, base + load_be32(header + 23))
    store64(row + BASE_TIMESTAMP * 8, load_be64(header + 27))
    store64(row + MAX_TIMESTAMP * 8, load_be64(header + 35))
    store64(row + PRODUCER_ID * 8, load_be64(header + 43))
    store64(row + COUNT * 8, load_be32(header + 57))
    store64(row + RECORDS_START * 8, at + _HEADER_BYTES)
    store64(row + RECORDS_END * 8, at + 12 + length)


# -- Records
# From here on, `at` and `end` are addresses. A negative address is a status that says what is broken.


@numba.njit
def _varint(at, end):
    """-> (value, address after it or a negative status)."""
    # One or two bytes, as nearly all varints have, in code so short that each caller gets a copy of it.
    if end - at > 1:
        number = load8(at)
        if number < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        number += (load8(at + 1) << 7) - 0x80
        if number < 0x4000:
            return (number >> 1) ^ -(number & 1), at + 2
    return _long_varint(at, end)


@numba.njit
def _long_varint(at, end):
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


@numba.njit
def _room_for(walked, cursor, wanted, columns, budget):
    """Tell whether the row fits into the open columns: DONE, FULL, or TOO_LARGE with NEEDED_BYTES in the cursor."""
    rows = load64(cursor + ROWS * 8)
    if rows == load64(columns + ROW_LIMIT * 8):
        return FULL
    key_bytes = max(walked.key_length, 0) if wanted & WANT_KEY else 0
    value_bytes = max(walked.value_length, 0) if wanted & WANT_VALUE else 0
    total = load64(cursor + KEY_BYTES * 8) + key_bytes + load64(cursor + VALUE_BYTES * 8) + value_bytes
    if wanted & WANT_HEADERS:
        total += load64(cursor + HEADER_KEY_BYTES * 8) + walked.header_key_bytes
        total += load64(cursor + HEADER_VALUE_BYTES * 8) + walked.header_value_bytes
    if total <= budget:  # Invariant: budget <= BYTE_LIMIT
        return DONE
    if rows > 0:
        return FULL
    if max(key_bytes, value_bytes) <= load64(columns + BYTE_LIMIT * 8):
        return DONE
    store64(cursor + NEEDED_BYTES * 8, max(key_bytes, value_bytes))
    return TOO_LARGE


@numba.njit
def _append_bytes(at, length, row, columns, used, nulls):
    """Append to the binary column whose addresses are at `columns`. `used` and `nulls` are cells of the cursor."""
    filled = load64(used)
    if length < 0:
        clear_bit(load64(columns + 16), row)
        store64(nulls, load64(nulls) + 1)
    else:
        copy(load64(columns + 8) + filled, at, length)
        filled += length
        store64(used, filled)
    store32(load64(columns) + 4 * (row + 1), filled)


@numba.njit
def _append_row(walked, offset, timestamp, timestamp_type, base, columns, cursor, wanted):
    row = load64(cursor + ROWS * 8)
    if wanted & WANT_KEY:
        key = columns + KEY_ENDS_AT * 8
        _append_bytes(walked.key_at, walked.key_length, row, key, cursor + KEY_BYTES * 8, cursor + KEY_NULLS * 8)
    if wanted & WANT_VALUE:
        value, used, nulls = columns + VALUE_ENDS_AT * 8, cursor + VALUE_BYTES * 8, cursor + VALUE_NULLS * 8
        _append_bytes(walked.value_at, walked.value_length, row, value, used, nulls)
    if wanted & WANT_OFFSET:
        store64(load64(columns + OFFSETS_AT * 8) + row * 8, offset)
    if wanted & WANT_TIMESTAMP:
        store64(load64(columns + TIMESTAMPS_AT * 8) + row * 8, timestamp * 1000)
    if wanted & WANT_TIMESTAMP_TYPE:
        store32(load64(columns + TIMESTAMP_TYPES_AT * 8) + row * 4, timestamp_type)
    if wanted & WANT_HEADERS:
        store64(load64(columns + HEADERS_AT * 8) + row * 8, walked.headers_at - base)
        add_to(cursor + HEADERS * 8, walked.headers)
        add_to(cursor + HEADER_KEY_BYTES * 8, walked.header_key_bytes)
        add_to(cursor + HEADER_VALUE_BYTES * 8, walked.header_value_bytes)
    store64(cursor + ROWS * 8, row + 1)


@numba.njit
def _microseconds_fit(timestamp):
    """Tell whether a time in ms fits into 64 bits of microseconds. Spark's connector cannot hold others either."""
    return -_MAX_MS <= timestamp <= _MAX_MS


def decode_rows(source, size, table, table_rows, cursor, wanted, start_offset, end_offset, budget, columns):
    """Append the records of `table` from the cursor on, if their offset is in [start_offset, end_offset): -> status.

    `budget` bounds the bytes of keys, values and headers of all open columns. A single row may exceed it.
    """
    number = load64(cursor + BATCH * 8)
    while number < table_rows:
        batch = table + number * (TABLE_WIDTH * 8)
        start, end = load64(batch + RECORDS_START * 8), load64(batch + RECORDS_END * 8)
        record = load64(cursor + RECORD * 8)
        at = load64(cursor + BYTE * 8) if record else start
        if at < 0 or at > end or end > size:
            return BAD_SECTION
        base_offset, base_timestamp = load64(batch + BASE_OFFSET * 8), load64(batch + BASE_TIMESTAMP * 8)
        append_time, attributes = load64(batch + MAX_TIMESTAMP * 8), load64(batch + ATTRIBUTES * 8)
        appended = (attributes & LOG_APPEND_TIME) >> 3
        if not _microseconds_fit(append_time if appended else base_timestamp):
            return BAD_TIMESTAMP
        status, at, end, count = DONE, source + at, source + end, load64(batch + COUNT * 8)
        while record < count:
            walked = _walk_record(at, end)
            status = walked.status
            if status != DONE:
                break
            offset = base_offset + walked.delta
            if start_offset <= offset < end_offset:
                timestamp = append_time if appended else base_timestamp + walked.delta_ms
                status = _room_for(walked, cursor, wanted, columns, budget)
                if not _microseconds_fit(timestamp):
                    status = BAD_TIMESTAMP
                if status != DONE:
                    break
                _append_row(walked, offset, timestamp, appended, source, columns, cursor, wanted)
            at = walked.end
            record += 1
        store64(cursor + BYTE * 8, at - source)
        store64(cursor + RECORD * 8, record)
        if status != DONE:
            return status
        if at != end:
            return LEFT_OVER
        number += 1
        store64(cursor + BATCH * 8, number)
        store64(cursor + RECORD * 8, 0)
    return DONE


def decode_headers(source, size, headers_at, first, last, columns):
    """Append the headers of rows [first, last), which decode_rows walked in this `source`: -> status."""
    end, list_ends, list_valid = source + size, load64(columns + LIST_ENDS_AT * 8), load64(columns + LIST_VALID_AT * 8)
    key_ends, key_data = load64(columns + HEADER_KEY_ENDS_AT * 8), load64(columns + HEADER_KEY_DATA_AT * 8)
    value_ends, value_data = load64(columns + HEADER_VALUE_ENDS_AT * 8), load64(columns + HEADER_VALUE_DATA_AT * 8)
    value_valid = load64(columns + HEADER_VALUE_VALID_AT * 8)
    done = load32(list_ends + 4 * first)
    for row in range(first, last):
        count, at = _varint(source + load64(headers_at + 8 * row), end)
        if at < 0 or count < 0 or count > load64(columns + HEADER_LIMIT * 8) - done:
            return BAD_HEADER
        if count == 0:
            clear_bit(list_valid, row)
        for _ in range(count):
            start, length, at = _field(at, end)
            filled = load32(key_ends + 4 * done)
            if at < 0 or length < 0 or length > load64(columns + HEADER_KEY_LIMIT * 8) - filled:
                return BAD_HEADER
            copy(key_data + filled, start, length)
            store32(key_ends + 4 * (done + 1), filled + length)
            start, length, at = _field(at, end)
            filled = load32(value_ends + 4 * done)
            if at < 0 or length > load64(columns + HEADER_VALUE_LIMIT * 8) - filled:
                return BAD_HEADER
            if length < 0:
                clear_bit(value_valid, done)
                add_to(columns + HEADER_NULLS * 8, 1)
                length = 0
            copy(value_data + filled, start, length)
            store32(value_ends + 4 * (done + 1), filled + length)
            done += 1
        store32(list_ends + 4 * (row + 1), done)
    return DONE


def pickle_column(source, size, table, table_rows, of_keys, start_offset, target, target_size, filled):
    """Write the keys or values of records from `start_offset` on as items of a pickle: -> status.

    `filled` gets the bytes written. An item takes fewer bytes than its record, so there is room where the target is as
    large as the records are.
    """
    written = 0
    for number in range(table_rows):
        batch = table + number * (TABLE_WIDTH * 8)
        at, end = load64(batch + RECORDS_START * 8), load64(batch + RECORDS_END * 8)
        if at < 0 or at > end or end > size or end - at > target_size - written:
            return BAD_SECTION
        at, end, base_offset = source + at, source + end, load64(batch + BASE_OFFSET * 8)
        for _ in range(load64(batch + COUNT * 8)):
            walked = _walk_record(at, end)
            if walked.status != DONE:
                return walked.status
            at = walked.end
            begin, length = (walked.key_at, walked.key_length) if of_keys else (walked.value_at, walked.value_length)
            if base_offset + walked.delta < start_offset:
                continue
            if length < 0:
                store8(target + written, PICKLED_NONE)
                written += 1
            else:
                store8(target + written, PICKLED_BYTES)
                store32(target + written + 1, length)
                copy(target + written + 5, begin, length)
                written += 5 + length
        if at != end:
            return LEFT_OVER
    store64(filled, written)
    return DONE


# What is compiled, under the name of each function.
KERNELS = (scan_batches, decode_rows, decode_headers, pickle_column)
