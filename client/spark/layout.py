"""The layouts that kernels and their callers share: the batch table, the cursor, columns, and what a status means.

Numbers alone, so that a task reads them without numba.
"""

from __future__ import annotations

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

LOG_APPEND_TIME = 8

# What decode_rows takes: addresses of the open columns of an Arrow batch, and their sizes.
KEY_ENDS_AT, KEY_DATA_AT, KEY_VALID_AT = 0, 1, 2  # int32, rows + 1; uint8; a bit a row, all set at first
VALUE_ENDS_AT, VALUE_DATA_AT, VALUE_VALID_AT = 3, 4, 5
OFFSETS_AT, TIMESTAMPS_AT, TIMESTAMP_TYPES_AT = 6, 7, 8  # int64; int64, microseconds; int32
HEADERS_AT = 9  # int64: where the row's headers stand in the source
ROW_LIMIT, BYTE_LIMIT = 10, 11
COLUMNS_WIDTH = 12

# What decode_headers takes: a list of (key, value) for each row. decode_rows counts how large it must be.
LIST_ENDS_AT = 0  # int32, rows + 1
LIST_VALID_AT = 1  # a bit a row, all set at first: a row without headers has a null, as in Spark's connector
HEADER_KEY_ENDS_AT, HEADER_KEY_DATA_AT = 2, 3  # int32, headers + 1; uint8
HEADER_VALUE_ENDS_AT, HEADER_VALUE_DATA_AT = 4, 5
HEADER_VALUE_VALID_AT = 6  # a bit a header, all set at first
HEADER_LIMIT, HEADER_KEY_LIMIT, HEADER_VALUE_LIMIT = 7, 8, 9
HEADER_NULLS = 10  # counted by the kernel
HEADER_COLUMNS_WIDTH = 11

# What pickle_column writes in front of bytes (then their length, int32 of little order) and for a null: the opcodes
# BINBYTES and NONE of the pickle format.
PICKLED_BYTES, PICKLED_NONE = ord("B"), ord("N")
