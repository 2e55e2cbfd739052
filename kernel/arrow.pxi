"""Record batches to the columns of an Arrow batch, without Python's objects and without its lock."""

# Columns of the table of batches (odradek/client/arrow/batches.py).
cdef enum:
    POSITION = 0
    SIZE = 1
    BASE_OFFSET = 2
    LAST_OFFSET = 3
    COUNT = 4
    ATTRIBUTES = 5
    BASE_TIMESTAMP = 6
    MAX_TIMESTAMP = 7
    PRODUCER_ID = 8
    CRC = 9
    RECORDS_START = 10
    RECORDS_END = 11
    TABLE_WIDTH = 12

cdef enum:
    HEADER_SIZE = 61
    # The length of an empty batch: its header without the base offset and the length itself.
    LEAST_LENGTH = 49
    LOG_APPEND_TIME = 8
# A time of more milliseconds does not fit into 64 bits of microseconds.
cdef int64_t MAX_MS = 9223372036854775
# Offsets are of 32 bits within a batch.
cdef int64_t MAX_DELTA = <int64_t> 1 << 31


@cython.final
cdef class Memory:
    """The memory of any object with a buffer, held while this lives."""
    cdef Py_buffer held
    cdef unsigned char *at
    cdef Py_ssize_t size

    def __cinit__(self, owner, bint writable=False):
        PyObject_GetBuffer(owner, &self.held, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.at = <unsigned char *> self.held.buf
        self.size = self.held.len

    def __dealloc__(self):
        PyBuffer_Release(&self.held)


cdef Memory lent(object owner, Py_ssize_t least):
    """Return memory to write to. Raises ValueError where it is too small."""
    memory = Memory(owner, True)
    if memory.size < least:
        raise ValueError(f"memory of {memory.size} bytes, where {least} are needed")
    return memory


cdef inline uint64_t big_endian(Bytes at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int index
    for index in range(size):
        number = number << 8 | at[index]
    return number


cdef inline int64_t be64(Bytes at) noexcept nogil:
    return <int64_t> big_endian(at, 8)


cdef inline int64_t be32(Bytes at) noexcept nogil:
    return <int32_t> <uint32_t> big_endian(at, 4)


def scan_batches(records, table):
    """Write a row of `table` for each whole batch of magic 2: -> (rows, position behind them), or None.

    `table` has TABLE_WIDTH int64 a row. It ends at its own end, and at a batch that is cut off.
    """
    cdef Memory source = Memory(records), target = Memory(table, True)
    cdef Py_ssize_t most = target.size // (8 * TABLE_WIDTH), rows = 0, at = 0
    cdef int64_t *row = <int64_t *> target.at
    cdef int64_t length
    cdef Bytes head
    while source.size - at >= HEADER_SIZE and rows < most:
        head = source.at + at
        length = be32(head + 8)
        if head[16] != 2 or length < LEAST_LENGTH:
            return None
        if length > source.size - at - 12:
            break
        row[POSITION] = at
        row[SIZE] = length + 12
        row[BASE_OFFSET] = be64(head)
        row[CRC] = <int64_t> big_endian(head + 17, 4)
        row[ATTRIBUTES] = <int64_t> big_endian(head + 21, 2)
        row[LAST_OFFSET] = <int64_t> (<uint64_t> row[BASE_OFFSET] + <uint64_t> be32(head + 23))
        row[BASE_TIMESTAMP] = be64(head + 27)
        row[MAX_TIMESTAMP] = be64(head + 35)
        row[PRODUCER_ID] = be64(head + 43)
        row[COUNT] = be32(head + 57)
        row[RECORDS_START] = at + HEADER_SIZE
        at += length + 12
        row[RECORDS_END] = at
        row += TABLE_WIDTH
        rows += 1
    return rows, at


cdef struct Binary:
    # An open column of bytes: `rows + 1` ends, the bytes, and a bit a row, all of which are set at first.
    int32_t *ends
    unsigned char *data
    unsigned char *valid
    int64_t room
    int64_t used
    int64_t nulls


cdef inline void put_bytes(Binary *column, Py_ssize_t row, Bytes begin, int64_t size) noexcept nogil:
    if size < 0:
        column.valid[row >> 3] &= ~(1 << (row & 7))
        column.nulls += 1
    else:
        memcpy(column.data + column.used, begin, size)
        column.used += size
    column.ends[row + 1] = <int32_t> column.used


cdef Binary binary_of(object memories, list kept, Py_ssize_t rows):
    """Return an open column of three memories: its ends, its bytes and its bits. None: it is not wanted."""
    cdef Binary column
    cdef Memory ends, data, valid
    column.used = column.nulls = column.room = 0
    column.ends, column.data, column.valid = NULL, NULL, NULL
    if memories is not None:
        ends, data, valid = lent(memories[0], 4 * (rows + 1)), lent(memories[1], 0), lent(memories[2], (rows + 7) // 8)
        kept += [ends, data, valid]
        column.ends, column.data, column.valid = <int32_t *> ends.at, data.at, valid.at
        column.room = min(data.size, 0x7FFFFFFF)
        column.ends[0] = 0
    return column


cdef struct Growing:
    # Memory of our own, which grows.
    unsigned char *at
    int64_t used
    int64_t room


cdef inline unsigned char *grown(Growing *memory, int64_t size) noexcept nogil:
    """Return where the next `size` bytes go; NULL where there is no memory for them."""
    cdef unsigned char *at
    cdef int64_t room
    if memory.at == NULL or memory.used + size > memory.room:
        room = max(2 * memory.room, memory.used + size, 64)
        at = <unsigned char *> realloc(memory.at, room)
        if at == NULL:
            return NULL
        memory.at, memory.room = at, room
    memory.used += size
    return memory.at + memory.used - size


cdef enum:
    # The parts of the headers' column: ends of rows; ends and bytes of keys, then of values; a byte for each value, 0
    # for a null.
    ROW_ENDS = 0
    KEY_ENDS = 1
    KEYS = 2
    VALUE_ENDS = 3
    VALUES = 4
    IS_VALUE = 5
    HEADER_PARTS = 6


# Why `append` returned.
cdef enum:
    ENDED = 0
    FULL = 1
    TOO_LARGE = 2
    UNUSUAL = 3
    NO_MEMORY = 4


@cython.final
cdef class OpenColumns:
    """The open columns of an Arrow batch, in memory that is lent. None: the column is not wanted."""
    cdef Binary key
    cdef Binary value
    cdef int64_t *offsets
    cdef int64_t *timestamps
    cdef int32_t *timestamp_types
    cdef bint with_headers
    cdef Growing headers[HEADER_PARTS]
    cdef list kept
    cdef Py_ssize_t most_rows
    cdef readonly Py_ssize_t rows
    # The bytes of the row that was too large.
    cdef readonly int64_t needed_bytes

    def __cinit__(
        self, Py_ssize_t most_rows, key, value, offsets, timestamps, timestamp_types, bint with_headers
    ):
        cdef int part
        self.kept = []
        self.most_rows = most_rows
        self.key = binary_of(key, self.kept, most_rows)
        self.value = binary_of(value, self.kept, most_rows)
        self.offsets = <int64_t *> self.numbers(offsets, 8)
        self.timestamps = <int64_t *> self.numbers(timestamps, 8)
        self.timestamp_types = <int32_t *> self.numbers(timestamp_types, 4)
        self.with_headers = with_headers
        for part in (ROW_ENDS, KEY_ENDS, VALUE_ENDS):
            if grown(&self.headers[part], 4) == NULL:
                raise MemoryError
            (<int32_t *> self.headers[part].at)[0] = 0

    def __dealloc__(self):
        cdef int part
        for part in range(HEADER_PARTS):
            free(self.headers[part].at)

    cdef unsigned char *numbers(self, owner, Py_ssize_t size) except? NULL:
        if owner is None:
            return NULL
        cdef Memory memory = lent(owner, self.most_rows * size)
        self.kept.append(memory)
        return memory.at

    @property
    def key_sizes(self):
        """The bytes of all keys, and how many are null."""
        return self.key.used, self.key.nulls

    @property
    def value_sizes(self):
        """The bytes of all values, and how many are null."""
        return self.value.used, self.value.nulls

    def header_parts(self):
        """Return the parts of the headers' column, as bytes: see ROW_ENDS."""
        return [
            PyBytes_FromStringAndSize(<const char *> self.headers[part].at, self.headers[part].used)
            for part in range(HEADER_PARTS)
        ]

    def append(self, records, table, place, int64_t start, int64_t end, int64_t budget):
        """Append the records of `table` from `place` on whose offsets are in [start, end): -> (why it ended, place).

        A place is (batch, record, position). `budget` bounds the bytes of all keys, values and headers; a single row
        may have more. After UNUSUAL nothing may be appended any more.
        """
        cdef Memory source = Memory(records), batches = Memory(table)
        cdef Py_ssize_t number, record, at
        cdef int status = ENDED
        number, record, at = place
        while status == ENDED and number < batches.size // (8 * TABLE_WIDTH):
            with nogil:
                status = self.append_batch(
                    source, <int64_t *> batches.at + number * TABLE_WIDTH, &record, &at, start, end, budget
                )
            if status == ENDED:
                number, record = number + 1, 0
        if status == NO_MEMORY:
            raise MemoryError
        return status, (number, record, at)

    cdef int append_batch(
        self, Memory source, int64_t *batch, Py_ssize_t *record, Py_ssize_t *place, int64_t start, int64_t end,
        int64_t budget,
    ) noexcept nogil:
        cdef Fields fields
        cdef Bytes at, following, last
        cdef bint appended = (batch[ATTRIBUTES] & LOG_APPEND_TIME) != 0
        cdef int64_t count = batch[COUNT], offset, timestamp = batch[MAX_TIMESTAMP]
        cdef int64_t headers, name_bytes, content_bytes
        cdef int status
        if record[0] == 0:
            place[0] = batch[RECORDS_START]
        if place[0] < 0 or place[0] > batch[RECORDS_END] or batch[RECORDS_END] > source.size:
            return UNUSUAL
        at, last = source.at + place[0], source.at + batch[RECORDS_END]
        while record[0] < count:
            following = walk(at, last, &fields)
            if following == NULL or not -MAX_DELTA <= fields.delta <= MAX_DELTA:
                return UNUSUAL
            headers = name_bytes = content_bytes = 0
            if has_headers(&fields) and not count_headers(&fields, &headers, &name_bytes, &content_bytes):
                return UNUSUAL
            offset = <int64_t> (<uint64_t> batch[BASE_OFFSET] + <uint64_t> fields.delta)
            if start <= offset < end:
                if not appended:
                    timestamp = <int64_t> (<uint64_t> batch[BASE_TIMESTAMP] + <uint64_t> fields.late_ms)
                if not -MAX_MS <= timestamp <= MAX_MS:
                    return UNUSUAL
                status = self.has_room(&fields, name_bytes + content_bytes, budget)
                if status != ENDED:
                    return status
                self.put(&fields, offset, timestamp, appended)
                if self.with_headers and not self.put_headers(&fields, headers, name_bytes, content_bytes):
                    return NO_MEMORY
            at = following
            record[0] += 1
            place[0] = at - source.at
        return ENDED if at == last else UNUSUAL

    cdef inline int has_room(self, Fields *fields, int64_t header_bytes, int64_t budget) noexcept nogil:
        cdef int64_t key = max(fields.key_size, 0) if self.key.ends != NULL else 0
        cdef int64_t value = max(fields.value_size, 0) if self.value.ends != NULL else 0
        cdef int64_t total = self.key.used + key + self.value.used + value
        if self.rows == self.most_rows:
            return FULL
        if self.with_headers:
            total += self.headers[KEYS].used + self.headers[VALUES].used + header_bytes
        if total > budget and self.rows > 0:
            return FULL
        if (key and self.key.used + key > self.key.room) or (value and self.value.used + value > self.value.room):
            if self.rows > 0:
                return FULL
            self.needed_bytes = max(key, value)
            return TOO_LARGE
        return ENDED

    cdef inline void put(self, Fields *fields, int64_t offset, int64_t timestamp, bint appended) noexcept nogil:
        cdef Py_ssize_t row = self.rows
        if self.key.ends != NULL:
            put_bytes(&self.key, row, fields.key, fields.key_size)
        if self.value.ends != NULL:
            put_bytes(&self.value, row, fields.value, fields.value_size)
        if self.offsets != NULL:
            self.offsets[row] = offset
        if self.timestamps != NULL:
            self.timestamps[row] = timestamp * 1000
        if self.timestamp_types != NULL:
            self.timestamp_types[row] = appended
        self.rows = row + 1

    cdef bint put_headers(
        self, Fields *fields, int64_t count, int64_t name_bytes, int64_t content_bytes
    ) noexcept nogil:
        """Append the headers of a record, which were counted; return whether there was memory."""
        cdef Growing *parts = self.headers
        cdef int64_t index, known, name_size = 0, size = 0, names = parts[KEYS].used, contents = parts[VALUES].used
        cdef Bytes name = NULL, begin = NULL, at = header_count(fields.headers, fields.end, &known)
        cdef int32_t *row_end = <int32_t *> grown(&parts[ROW_ENDS], 4)
        cdef int32_t *key_ends = <int32_t *> grown(&parts[KEY_ENDS], 4 * count)
        cdef int32_t *value_ends = <int32_t *> grown(&parts[VALUE_ENDS], 4 * count)
        cdef unsigned char *keys = grown(&parts[KEYS], name_bytes)
        cdef unsigned char *values = grown(&parts[VALUES], content_bytes)
        cdef unsigned char *is_value = grown(&parts[IS_VALUE], count)
        if not (row_end and key_ends and value_ends and keys and values and is_value):
            return False
        for index in range(count):
            at = header(at, fields.end, &name, &name_size, &begin, &size)
            memcpy(keys, name, name_size)
            keys += name_size
            names += name_size
            is_value[index] = size >= 0
            if size > 0:
                memcpy(values, begin, size)
                values += size
                contents += size
            key_ends[index], value_ends[index] = <int32_t> names, <int32_t> contents
        row_end[0] = <int32_t> parts[IS_VALUE].used
        return True
