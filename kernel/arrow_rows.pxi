"""Arrow columns to the records of open batches, one batch a partition."""

cdef enum:
    # More than a record has beside its key and its value: six varints and two bytes.
    ROW_OVERHEAD = 48


cdef inline bint is_set(Bytes bitmap, Py_ssize_t bit) noexcept nogil:
    return bitmap == NULL or bitmap[bit >> 3] >> (bit & 7) & 1


cdef Bytes bits_of(object bitmap, Py_ssize_t count, list kept) except? NULL:
    """Return a bitmap of what is not null, NULL where nothing is. Raises ValueError if it is too small."""
    if bitmap is None:
        return NULL
    memory = Memory(bitmap)
    if memory.size * 8 < count:
        raise ValueError("a bitmap is too small")
    kept.append(memory)
    return memory.at


cdef struct Cells:
    # Rows of Arrow's bytes or texts, `first` before the first. No ends: rows do not have the column.
    Bytes valid
    Bytes data
    int32_t *ends
    Py_ssize_t first


cdef inline int64_t find(Cells *cells, Py_ssize_t row, Bytes *begin) noexcept nogil:
    """Return the size of a row's bytes, -1 for a null, and where they begin."""
    row += cells.first
    if cells.ends == NULL or not is_set(cells.valid, row):
        return -1
    begin[0] = cells.data + cells.ends[row]
    return cells.ends[row + 1] - cells.ends[row]


@cython.final
cdef class BytesColumn:
    """A column of Arrow's bytes or texts: `length` rows from `first` on."""
    cdef list kept
    cdef Cells cells
    cdef Py_ssize_t length
    # Of the bytes of all rows, also those in front.
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t first, Py_ssize_t length, valid, ends, data):
        cdef Memory memory = Memory(ends), content = Memory(b"" if data is None else data)
        cdef int32_t *places = <int32_t *> memory.at + first
        cdef Py_ssize_t row
        cdef int32_t falls = 0
        if first < 0 or length < 0 or (length and memory.size < 4 * (first + length + 1)):
            raise ValueError("a column has more rows than ends")
        self.kept = [memory, content]
        self.length, self.size = length, content.size
        self.cells.valid = bits_of(valid, first + length, self.kept)
        self.cells.data, self.cells.ends, self.cells.first = content.at, <int32_t *> memory.at, first
        for row in range(length):
            falls |= places[row + 1] < places[row]
        if falls or (length and (places[0] < 0 or places[length] > content.size)):
            raise ValueError("the ends of a column fall, or lie behind its bytes")


cdef struct Numbers:
    # Rows of Arrow's numbers, `first` before the first. No data: rows do not have the column.
    Bytes valid
    void *data
    Py_ssize_t first


@cython.final
cdef class NumbersColumn:
    """A column of Arrow's numbers, each of `size` bytes: `length` rows from `first` on."""
    cdef list kept
    cdef Numbers cells
    cdef Py_ssize_t length
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t first, Py_ssize_t length, valid, data, Py_ssize_t size):
        cdef Memory memory = Memory(data)
        if first < 0 or length < 0 or memory.size < size * (first + length):
            raise ValueError("a column has more rows than numbers")
        self.kept = [memory]
        self.length, self.size = length, size
        self.cells.valid = bits_of(valid, first + length, self.kept)
        self.cells.data, self.cells.first = memory.at, first


@cython.final
cdef class ArrowRows:
    """The columns of rows. None: they do not have it. `header_ends` are the numbers of headers up to each row."""
    cdef list kept
    cdef Py_ssize_t length
    cdef int64_t now_ms
    cdef Cells value
    cdef Cells key
    cdef Numbers partition
    cdef Numbers time_ms
    cdef int32_t *header_ends
    cdef Cells header_keys
    cdef Cells header_values

    def __cinit__(
        self, int64_t now_ms, BytesColumn value not None, BytesColumn key, NumbersColumn partition,
        NumbersColumn time_ms, NumbersColumn header_ends, BytesColumn header_keys, BytesColumn header_values,
    ):
        self.kept = [value, key, partition, time_ms, header_ends, header_keys, header_values]
        self.now_ms, self.length, self.value = now_ms, value.length, value.cells
        if key is not None:
            self.check(key.length, 0)
            self.key = key.cells
        if partition is not None:
            self.check(partition.length, partition.size - 4)
            self.partition = partition.cells
        if time_ms is not None:
            self.check(time_ms.length, time_ms.size - 8)
            self.time_ms = time_ms.cells
        if header_ends is not None:
            self.take_headers(header_ends, header_keys, header_values)

    cdef int check(self, Py_ssize_t length, Py_ssize_t wrong_size) except -1:
        if length != self.length or wrong_size:
            raise ValueError("columns have the same number of rows, and numbers of their size")
        return 0

    cdef int take_headers(self, NumbersColumn given, BytesColumn keys, BytesColumn values) except -1:
        cdef int32_t *ends = <int32_t *> given.cells.data
        cdef int32_t falls = 0
        cdef Py_ssize_t row
        if given.cells.first or given.size != 4 or given.length != self.length + 1 or ends[0]:
            raise ValueError("there is an end of headers for each row, and a 0 in front")
        for row in range(self.length):
            falls |= ends[row + 1] < ends[row]
        if falls or ends[self.length] > keys.length or ends[self.length] > values.length:
            raise ValueError("the ends of headers fall, or there are fewer headers")
        self.header_ends, self.header_keys, self.header_values = ends, keys.cells, values.cells
        return 0


cdef struct Batch:
    int64_t used
    int64_t count
    int64_t first_ms
    int64_t max_ms


cdef enum:
    ALL_APPENDED = 0
    BATCH_FULL = 1
    ALONE = 2


@cython.final
cdef class OpenBatches:
    """The records of one open batch for each partition, in memory that is lent: `limit_bytes` for each."""
    cdef Memory memory
    cdef Batch *batches
    cdef Py_ssize_t partitions
    cdef Py_ssize_t limit
    # The partition of rows that have neither a key nor a partition.
    cdef public Py_ssize_t sticky

    def __cinit__(self, Py_ssize_t partitions, Py_ssize_t limit_bytes, memory):
        if partitions < 1 or limit_bytes < 1:
            raise ValueError("there is room for one partition at least")
        self.memory = lent(memory, partitions * limit_bytes)
        self.partitions, self.limit = partitions, limit_bytes
        self.batches = <Batch *> calloc(partitions, sizeof(Batch))
        if self.batches == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.batches)

    def append(self, ArrowRows rows not None, Py_ssize_t row):
        """Append rows from `row` on: -> None, or (row, partition, whether the row has to be sent alone).

        Otherwise its batch is full. The partition is -1 for one that the topic does not have.
        """
        cdef Py_ssize_t partition = 0
        cdef int status = ALL_APPENDED
        if row < 0 or not 0 <= self.sticky < self.partitions:
            raise ValueError("there is no such row or partition")
        with nogil:
            while status == ALL_APPENDED and row < rows.length:
                status = self.append_row(rows, row, &partition)
                row += 1
        return None if status == ALL_APPENDED else (row - 1, partition, status == ALONE)

    cdef inline int append_row(self, ArrowRows rows, Py_ssize_t row, Py_ssize_t *partition) noexcept nogil:
        cdef Bytes key = NULL, value = NULL
        cdef int64_t key_size = find(&rows.key, row, &key), value_size = find(&rows.value, row, &value)
        cdef int64_t size, headers_size = 1, time = rows.now_ms
        cdef Py_ssize_t first = 0, last = 0
        cdef Batch *batch
        cdef unsigned char *at
        partition[0] = self.partition_of(rows, row, key, key_size)
        if rows.header_ends != NULL:
            first, last = rows.header_ends[row], rows.header_ends[row + 1]
            headers_size = size_of_headers(rows, first, last)
        size = ROW_OVERHEAD + max(key_size, 0) + max(value_size, 0) + headers_size - 1
        if partition[0] < 0 or size > self.limit:
            return ALONE
        batch = &self.batches[partition[0]]
        if batch.used + size > self.limit:
            return BATCH_FULL
        if rows.time_ms.data != NULL and is_set(rows.time_ms.valid, rows.time_ms.first + row):
            time = (<int64_t *> rows.time_ms.data)[rows.time_ms.first + row]
        if batch.count == 0:
            batch.first_ms = batch.max_ms = time
        batch.max_ms = max(batch.max_ms, time)
        time -= batch.first_ms
        size = 1 + varint_size(time) + varint_size(batch.count) + varint_size(key_size) + varint_size(value_size)
        size += max(key_size, 0) + max(value_size, 0) + headers_size
        at = put_varint(self.memory.at + partition[0] * self.limit + batch.used, size)
        at[0] = 0  # attributes
        at = put_varint(put_varint(at + 1, time), batch.count)
        at = put_cell(put_cell(at, key, key_size), value, value_size)
        if first == last:
            at[0] = 0
            at += 1
        else:
            at = put_headers(at, rows, first, last)
        batch.used = at - self.memory.at - partition[0] * self.limit
        batch.count += 1
        return ALL_APPENDED

    cdef inline Py_ssize_t partition_of(
        self, ArrowRows rows, Py_ssize_t row, Bytes key, int64_t key_size
    ) noexcept nogil:
        cdef Py_ssize_t number
        if rows.partition.data != NULL and is_set(rows.partition.valid, rows.partition.first + row):
            number = (<int32_t *> rows.partition.data)[rows.partition.first + row]
            return number if 0 <= number < self.partitions else -1
        if key_size < 0:
            return self.sticky
        return (hash_of(key, key_size) & 0x7FFFFFFF) % <uint32_t> self.partitions

    def take(self, Py_ssize_t partition):
        """Return (size, records, first and largest timestamp) of a batch. The next one is open then."""
        if not 0 <= partition < self.partitions:
            raise ValueError("there is no such partition")
        cdef Batch *batch = &self.batches[partition]
        found = batch.used, batch.count, batch.first_ms, batch.max_ms
        batch.used = batch.count = 0
        return found


cdef inline unsigned char *put_cell(unsigned char *at, Bytes begin, int64_t size) noexcept nogil:
    at = put_varint(at, size)
    if size > 0:
        memcpy(at, begin, size)
        at += size
    return at


cdef int64_t size_of_headers(ArrowRows rows, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Bytes begin = NULL
    cdef int64_t size, total = varint_size(last - first)
    cdef Py_ssize_t index
    for index in range(first, last):
        size = find(&rows.header_keys, index, &begin)
        total += varint_size(size) + max(size, 0)
        size = find(&rows.header_values, index, &begin)
        total += varint_size(size) + max(size, 0)
    return total


cdef unsigned char *put_headers(unsigned char *at, ArrowRows rows, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Bytes begin = NULL
    cdef int64_t size
    cdef Py_ssize_t index
    at = put_varint(at, last - first)
    for index in range(first, last):
        size = find(&rows.header_keys, index, &begin)
        at = put_cell(at, begin, size)
        size = find(&rows.header_values, index, &begin)
        at = put_cell(at, begin, size)
    return at
