"""The record encoder of the sink: Arrow columns -> the records of open batches, one batch a partition.

Promise: nothing is written outside of a batch's buffer, because the size of a record is compared with the bytes left
before it is written. Compiled as `kernels.py` is. `protocol.records` encodes the same in pure Python; tests compare.
"""
# pyright: basic, reportCallIssue=false
# numba has no types; `sink_rows` is the typed door.

from __future__ import annotations

import numba

from .memory import add_to, copy, load8, load32, load64, store8, store64
from .sink_layout import (
    ALONE,
    BATCH_WIDTH,
    BUFFER_AT,
    COUNT,
    FIRST_MS,
    FULL,
    KEY_BIT,
    KEY_DATA_AT,
    KEY_ENDS_AT,
    KEY_VALID_AT,
    LIMIT_BYTES,
    MAX_MS,
    NOW_MS,
    OPEN_WIDTH,
    PARTITION_COUNT,
    PARTITIONS_AT,
    PARTITIONS_BIT,
    PARTITIONS_VALID_AT,
    RECORD_OVERHEAD_BYTES,
    ROWS,
    STICKY,
    STOPPED_AT,
    TIMES_AT,
    TIMES_BIT,
    TIMES_VALID_AT,
    USED_BYTES,
    VALUE_BIT,
    VALUE_DATA_AT,
    VALUE_ENDS_AT,
    VALUE_VALID_AT,
)

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


@numba.njit
def _cell(table, index):
    return load64(table + 8 * index)


@numba.njit
def _is_valid(bitmap, bit):
    return bitmap == 0 or load8(bitmap + (bit >> 3)) >> (bit & 7) & 1


@numba.njit
def _length(columns, ends, valid, bit, row):
    """Return the length of a key or a value, -1 for a null."""
    at = _cell(columns, ends)
    if at == 0 or not _is_valid(_cell(columns, valid), _cell(columns, bit) + row):
        return -1
    return load32(at + 4 * row + 4) - load32(at + 4 * row)


@numba.njit
def _murmur2(at, size):
    h = _SEED ^ size
    end = at + (size & ~3)
    while at < end:
        k = (load32(at) & _MASK) * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ (k >> 24)) * _M & _MASK)
        at += 4
    left = size & 3
    if left:
        tail = 0
        for number in range(left):
            tail |= load8(at + number) << 8 * number
        h = (h ^ tail) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


@numba.njit
def _partition(columns, opened, row, key_at, key_size):
    """Return the partition of a row, -1 for one that the topic does not have."""
    count, given = _cell(opened, PARTITION_COUNT), _cell(columns, PARTITIONS_AT)
    if given != 0 and _is_valid(_cell(columns, PARTITIONS_VALID_AT), _cell(columns, PARTITIONS_BIT) + row):
        number = load32(given + 4 * row)
        return number if 0 <= number < count else -1
    if key_size < 0:
        return _cell(opened, STICKY)
    return (_murmur2(key_at, key_size) & 0x7FFFFFFF) % count


@numba.njit
def _varint_size(number):
    bits, size = (number << 1) ^ (number >> 63), 1
    while bits > 127:
        bits >>= 7
        size += 1
    return size


@numba.njit
def _put_varint(at, number):
    """Write a number; return the address behind it."""
    bits = (number << 1) ^ (number >> 63)
    while bits > 127:
        store8(at, bits & 127 | 128)
        at += 1
        bits >>= 7
    store8(at, bits)
    return at + 1


@numba.njit
def _put_bytes(at, data, size):
    at = _put_varint(at, size)
    if size > 0:
        copy(at, data, size)
        at += size
    return at


@numba.njit
def _put_record(at, time_delta, offset_delta, key_at, key_size, value_at, value_size):
    """Write a record without headers; return the address behind it."""
    size = 2 + _varint_size(time_delta) + _varint_size(offset_delta) + _varint_size(key_size)
    size += _varint_size(value_size) + max(key_size, 0) + max(value_size, 0)
    at = _put_varint(at, size)
    store8(at, 0)  # attributes
    at = _put_varint(at + 1, time_delta)
    at = _put_varint(at, offset_delta)
    at = _put_bytes(at, key_at, key_size)
    at = _put_bytes(at, value_at, value_size)
    store8(at, 0)  # no headers
    return at + 1


@numba.njit
def _stopped(opened, row, partition, reason):
    store64(opened + 8 * STOPPED_AT, partition)
    return -(row << 1 | reason) - 1


@numba.njit
def _data_at(columns, ends, data, row):
    at = _cell(columns, ends)
    return _cell(columns, data) + load32(at + 4 * row) if at != 0 else 0


def append_rows(columns, opened, row):
    """Append rows from `row` on to the open batches: -> the number of rows, or a negative number (sink_layout.py)."""
    rows, limit = _cell(columns, ROWS), _cell(opened, LIMIT_BYTES)
    while row < rows:
        key_size = _length(columns, KEY_ENDS_AT, KEY_VALID_AT, KEY_BIT, row)
        value_size = _length(columns, VALUE_ENDS_AT, VALUE_VALID_AT, VALUE_BIT, row)
        key_at = _data_at(columns, KEY_ENDS_AT, KEY_DATA_AT, row)
        value_at = _data_at(columns, VALUE_ENDS_AT, VALUE_DATA_AT, row)
        partition = _partition(columns, opened, row, key_at, key_size)
        size = RECORD_OVERHEAD_BYTES + max(key_size, 0) + max(value_size, 0)
        if partition < 0 or size > limit:
            return _stopped(opened, row, partition, ALONE)
        batch = opened + 8 * (OPEN_WIDTH + BATCH_WIDTH * partition)
        used, count = _cell(batch, USED_BYTES), _cell(batch, COUNT)
        if used + size > limit:
            return _stopped(opened, row, partition, FULL)
        time, given = _cell(columns, NOW_MS), _cell(columns, TIMES_AT)
        if given != 0 and _is_valid(_cell(columns, TIMES_VALID_AT), _cell(columns, TIMES_BIT) + row):
            time = load64(given + 8 * row)
        if count == 0:
            store64(batch + 8 * FIRST_MS, time)
            store64(batch + 8 * MAX_MS, time)
        elif time > _cell(batch, MAX_MS):
            store64(batch + 8 * MAX_MS, time)
        start = _cell(batch, BUFFER_AT) + used
        end = _put_record(start, time - _cell(batch, FIRST_MS), count, key_at, key_size, value_at, value_size)
        add_to(batch + 8 * USED_BYTES, end - start)
        add_to(batch + 8 * COUNT, 1)
        row += 1
    return rows


KERNELS = (append_rows,)
