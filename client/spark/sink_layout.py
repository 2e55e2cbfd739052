"""The layouts that the sink's kernel and its caller share: the columns of rows, the open batches, and why it stopped.

Numbers alone, so that a task reads them without numba.
"""

from __future__ import annotations

# What append_rows takes: addresses of Arrow columns, 0 for a column that rows do not have. Each bitmap of what is not
# null comes with the number of the first row's bit; its address is 0 where nothing is null.
ROWS = 0
KEY_ENDS_AT, KEY_DATA_AT, KEY_VALID_AT, KEY_BIT = 1, 2, 3, 4  # int32, rows + 1; uint8
VALUE_ENDS_AT, VALUE_DATA_AT, VALUE_VALID_AT, VALUE_BIT = 5, 6, 7, 8
PARTITIONS_AT, PARTITIONS_VALID_AT, PARTITIONS_BIT = 9, 10, 11  # int32
TIMES_AT, TIMES_VALID_AT, TIMES_BIT = 12, 13, 14  # int64, milliseconds
NOW_MS = 15  # the time of rows without one
COLUMNS_WIDTH = 16

# The open batches: a few numbers for all, then a row for each partition.
PARTITION_COUNT, LIMIT_BYTES, STICKY, STOPPED_AT = 0, 1, 2, 3  # STICKY takes rows without a key
OPEN_WIDTH = 4
BUFFER_AT, USED_BYTES, COUNT, FIRST_MS, MAX_MS = 0, 1, 2, 3, 4
BATCH_WIDTH = 5

# More than a record has beside its key and its value: six varints and two bytes.
RECORD_OVERHEAD_BYTES = 48

# Results of append_rows below 0: the batch of the partition STOPPED_AT is full, or the row has to be sent alone. The
# row is `-result - 1 >> 1`, the reason `-result - 1 & 1`.
FULL, ALONE = 0, 1
