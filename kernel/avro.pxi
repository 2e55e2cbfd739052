"""Records of Avro to the columns of an Arrow array of any type.

Python compiles a writer's and a reader's schema to a program of steps (client/schemas/avro_program.py). A step reads one
value and appends it to one open column, or to none. A row whose bytes are not usual leaves a null.
"""

# What an open column holds.
cdef enum:
    NUMBERS = 0
    BINARY = 1
    LISTS = 2
    STRUCTS = 3

# What a step does.
cdef enum:
    NOTHING = 0
    NOT_USUAL = 1
    CELL = 2
    BOOLEAN = 3
    WHOLE = 4
    WHOLE_AS_REAL = 5
    FLOAT = 6
    DOUBLE = 7
    BLOB = 8
    DECIMAL = 9
    UNION = 10
    RECORD = 11
    ARRAY = 12
    MAP = 13
    STEPS = 14

cdef enum:
    # A byte 0 and the id of the writer's schema.
    FRAME_SIZE = 5
    # The keys of a larger map are found by their hashes, each in so many places: a map whose keys collide is not usual.
    FEW_KEYS = 8
    MOST_PROBES = 64
    DECIMAL_SIZE = 16


cdef struct Step:
    int64_t what
    # -1: the value goes nowhere.
    int64_t column
    # Of bytes: how many, -1 where their length stands in front of them.
    int64_t size
    # WHOLE: the factor of a number. BLOB: 1 for bytes that must be UTF-8. CELL, DECIMAL: the place of constants.
    int64_t argument
    # WHOLE: the least and the largest number.
    int64_t least
    int64_t most
    # The places of its parts in `links`.
    int64_t first
    int64_t count


cdef struct Shape:
    int64_t what
    # Of a number.
    int64_t width
    # Other columns, -1 for none.
    int64_t child
    int64_t sibling


cdef struct Column:
    Shape shape
    int64_t length
    # A byte for each value, from the first null on.
    Growing valid
    Growing data
    Growing ends


cdef Bytes behind_character(Bytes at, Bytes end) noexcept nogil:
    """Return the place behind a character that is not ASCII, NULL where there is none in UTF-8."""
    cdef unsigned char first = at[0], least = 0x80, most = 0xBF
    cdef int more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    cdef int index
    if first < 0xC2 or first > 0xF4 or end - at <= more:
        return NULL
    if first == 0xE0:
        least = 0xA0
    elif first == 0xED:
        most = 0x9F
    elif first == 0xF0:
        least = 0x90
    elif first == 0xF4:
        most = 0x8F
    if at[1] < least or at[1] > most:
        return NULL
    for index in range(2, more + 1):
        if at[index] & 0xC0 != 0x80:
            return NULL
    return at + more + 1


cdef inline bint is_text(Bytes at, Bytes end) noexcept nogil:
    cdef uint64_t eight
    while at != NULL and at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if eight & 0x8080808080808080U == 0:
                at += 8
                continue
        at = at + 1 if at[0] < 0x80 else behind_character(at, end)
    return at != NULL


cdef bint decimal_of(Bytes at, int64_t size, Bytes limit, uint64_t *number) noexcept nogil:
    """Read a big-endian number as the two halves of a decimal; return whether its magnitude is within the limit."""
    cdef uint64_t high, low, most_high, most_low
    cdef unsigned char sign = 0xFF if size and at[0] & 0x80 else 0
    cdef int64_t index
    while size > 1 and at[0] == sign and (at[1] ^ sign) & 0x80 == 0:
        at += 1
        size -= 1
    if size > DECIMAL_SIZE:
        return False
    high = low = ~<uint64_t> 0 if sign else 0
    for index in range(size):
        high = high << 8 | low >> 56
        low = low << 8 | at[index]
    number[0], number[1] = low, high
    if sign:
        low = ~low + 1
        high = ~high + (low == 0)
    memcpy(&most_low, limit, 8)
    memcpy(&most_high, limit + 8, 8)
    return high < most_high or (high == most_high and low <= most_low)


@cython.final
cdef class AvroProgram:
    """The steps that read a value of Avro into columns. A step comes behind its parts; the last one is the whole."""
    cdef list kept
    cdef Step *steps
    cdef int32_t *links
    cdef Bytes constants
    cdef Py_ssize_t length
    cdef readonly bytes shapes

    def __cinit__(self, bytes shapes not None, bytes steps not None, bytes links not None, bytes constants not None):
        self.kept = [steps, links, constants]
        self.shapes = shapes
        self.steps = <Step *> PyBytes_AS_STRING(steps)
        self.links = <int32_t *> PyBytes_AS_STRING(links)
        self.constants = <Bytes> PyBytes_AS_STRING(constants)
        self.length = len(steps) // sizeof(Step)
        cdef Py_ssize_t index
        cdef Shape *columns = <Shape *> PyBytes_AS_STRING(shapes)
        for index in range(self.length):
            if not self.fits(index, columns, len(shapes) // sizeof(Shape), len(links) // 4, len(constants)):
                raise ValueError(f"step {index} of a program does not fit its columns")
        if not self.length:
            raise ValueError("a program without steps")

    cdef bint fits(self, Py_ssize_t index, Shape *columns, Py_ssize_t width, Py_ssize_t links, Py_ssize_t constants):
        cdef Step *step = &self.steps[index]
        cdef int64_t part, size
        if not (0 <= step.what < STEPS and -1 <= step.column < width and step.size >= -1):
            return False
        if step.first < 0 or step.count < 0 or step.first > links - step.count:
            return False
        for part in range(step.first, step.first + step.count):
            if not 0 <= self.links[part] < index:
                return False
        if step.what == CELL or step.what == DECIMAL:
            size = DECIMAL_SIZE if step.what == DECIMAL else max(step.size, 0)
            if step.argument < 0 or step.argument > constants - size:
                return False
        if (step.what == ARRAY or step.what == MAP) and step.count != 1:
            return False
        if step.column < 0 or step.what in (NOTHING, NOT_USUAL, UNION):
            return True
        return takes(columns, width, &columns[step.column], step)


cdef bint takes(Shape *columns, Py_ssize_t width, Shape *column, Step *step):
    """Whether a column takes what a step reads."""
    cdef Shape *entries
    if step.what == CELL:
        return (column.what == BINARY and step.size >= 0 or column.what == LISTS and step.size == 0
                or column.what == NUMBERS and step.size == column.width)
    if step.what == BLOB:
        return column.what == BINARY
    if step.what == RECORD:
        return column.what == STRUCTS
    if step.what == ARRAY:
        return column.what == LISTS and 0 <= column.child < width
    if step.what == MAP:
        if column.what != LISTS or not 0 <= column.child < width:
            return False
        entries = &columns[column.child]
        return entries.what == STRUCTS and 0 <= entries.child < width and columns[entries.child].what == BINARY
    if column.what != NUMBERS:
        return False
    if step.what == WHOLE:
        return column.width in (1, 2, 4, 8)
    if step.what == DOUBLE:
        return column.width == 8
    if step.what == BOOLEAN or step.what == DECIMAL:
        return column.width == (1 if step.what == BOOLEAN else DECIMAL_SIZE)
    return column.width in (4, 8)


@cython.final
cdef class AvroColumns:
    """The open columns of one Arrow array, by the table of their shapes: of these, a child comes behind its parent."""
    cdef Column *columns
    cdef Py_ssize_t width
    cdef bytes shapes
    cdef Growing places
    # There was no memory.
    cdef bint has_failed
    # The ends of a column, which have 32 bits, hold no more.
    cdef readonly bint is_full

    def __cinit__(self, bytes shapes not None):
        cdef Shape *given = <Shape *> PyBytes_AS_STRING(shapes)
        cdef Py_ssize_t index
        self.shapes, self.width = shapes, len(shapes) // sizeof(Shape)
        self.columns = <Column *> calloc(max(self.width, 1), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        for index in range(self.width):
            self.columns[index].shape = given[index]
            for other in (given[index].child, given[index].sibling):
                if other != -1 and not index < other < self.width:
                    raise ValueError("a column is not behind the one that names it")
            if given[index].what == LISTS and given[index].child < 0:
                raise ValueError("a column of lists has no items")
            if not (0 <= given[index].what <= STRUCTS and 0 <= given[index].width <= DECIMAL_SIZE):
                raise ValueError("a column of a shape that there is not")
            if given[index].what in (BINARY, LISTS):
                self.end(&self.columns[index], 0)
        if not self.width or self.has_failed:
            raise MemoryError("columns without memory")

    def __dealloc__(self):
        cdef Py_ssize_t index
        if self.columns != NULL:
            for index in range(self.width):
                free(self.columns[index].valid.at)
                free(self.columns[index].data.at)
                free(self.columns[index].ends.at)
        free(self.columns)
        free(self.places.at)

    def part(self, Py_ssize_t number):
        """Return a column: its length, a byte a value where some are null, its ends and its data."""
        if not 0 <= number < self.width:
            raise IndexError(number)
        cdef Column *column = &self.columns[number]
        valid = None
        if column.valid.used:
            valid = PyBytes_FromStringAndSize(<const char *> column.valid.at, column.valid.used)
        ends = PyBytes_FromStringAndSize(<const char *> column.ends.at, column.ends.used)
        return column.length, valid, ends, PyBytes_FromStringAndSize(<const char *> column.data.at, column.data.used)

    def append(self, BytesColumn values not None, Py_ssize_t row, AvroProgram program, schema_id, unusual):
        """Append the rows from `row` on that one schema wrote, and nulls: -> (row behind them, its schema's id).

        `schema_id` None: rows have no frame. `unusual` has a byte a row, set for rows that leave a null though they are
        none: they have no frame, or are not of the program; there may be none. A column that is full ends it early.
        """
        cdef Memory marks = lent(unusual, values.length)
        cdef bint is_framed = schema_id is not None
        cdef int64_t wanted = schema_id if is_framed else 0, found = wanted, size, rows
        cdef Bytes at = NULL, end
        cdef bint is_read
        if row < 0 or (program is not None and program.shapes != self.shapes):
            raise ValueError("a row below 0, or a program of other columns")
        with nogil:
            while row < values.length and not self.has_failed:
                size = find(&values.cells, row, &at)
                end, is_read = at + max(size, 0), size >= 0
                if is_framed and is_read:
                    is_read = size >= FRAME_SIZE and at[0] == 0
                    if is_read:
                        found = be32(at + 1)
                        at += FRAME_SIZE
                    if is_read and found != wanted:
                        break
                rows = self.columns[0].length
                if not (is_read and program is not None and self.put(program, program.length - 1, at, end) == end):
                    self.cut(0, rows)
                    if self.has_failed or (self.is_full and rows):
                        break
                    self.is_full = False
                    self.nothing(0)
                    marks.at[row] = size >= 0
                row += 1
        if self.has_failed:
            raise MemoryError
        return row, found

    # -- Columns

    cdef inline unsigned char *more(self, Growing *memory, int64_t size) noexcept nogil:
        cdef unsigned char *at = grown(memory, size)
        if at == NULL:
            self.has_failed = self.is_full = True
        return at

    cdef inline void end(self, Column *column, int64_t place) noexcept nogil:
        """Append where a value of bytes, or a list, ends."""
        cdef int32_t *at
        if place > 0x7FFFFFFF:
            self.is_full = True
            return
        at = <int32_t *> self.more(&column.ends, 4)
        if at != NULL:
            at[0] = <int32_t> place

    cdef inline void count(self, Column *column) noexcept nogil:
        """Count a value that is not null."""
        cdef unsigned char *at
        column.length += 1
        if column.valid.used:
            at = self.more(&column.valid, 1)
            if at != NULL:
                at[0] = 1

    cdef void nothing(self, int64_t number) noexcept nogil:
        """Append a null."""
        cdef Column *column = &self.columns[number]
        cdef int64_t missing = column.length + 1 - column.valid.used, part
        cdef unsigned char *at = self.more(&column.valid, missing)
        if at == NULL:
            return
        memset(at, 1, missing - 1)
        at[missing - 1] = 0
        column.length += 1
        if column.shape.what == NUMBERS:
            at = self.more(&column.data, column.shape.width)
            if at != NULL:
                memset(at, 0, column.shape.width)
        elif column.shape.what == BINARY:
            self.end(column, column.data.used)
        elif column.shape.what == LISTS:
            self.end(column, self.columns[column.shape.child].length)
        else:
            part = column.shape.child
            while part >= 0:
                self.nothing(part)
                part = self.columns[part].shape.sibling

    cdef void cut(self, int64_t number, int64_t length) noexcept nogil:
        """Take the values behind the first ones away."""
        cdef Column *column = &self.columns[number]
        cdef int64_t part = column.shape.child
        column.length = length = min(length, column.length)
        column.valid.used = min(length, column.valid.used)
        if column.shape.what == NUMBERS:
            column.data.used = length * column.shape.width
        elif column.shape.what == STRUCTS:
            while part >= 0:
                self.cut(part, length)
                part = self.columns[part].shape.sibling
        else:
            column.ends.used = 4 * (length + 1)
            if column.shape.what == BINARY:
                column.data.used = (<int32_t *> column.ends.at)[length]
            else:
                self.cut(part, (<int32_t *> column.ends.at)[length])

    # -- Steps: each returns the place behind what it read, NULL where the bytes are not usual

    cdef Bytes put(self, AvroProgram program, int64_t number, Bytes at, Bytes end) noexcept nogil:
        cdef Step *step = &program.steps[number]
        cdef int64_t what = step.what, count, index
        if what == RECORD:
            for index in range(step.count):
                at = self.put(program, program.links[step.first + index], at, end)
                if at == NULL:
                    return NULL
            if step.column >= 0:
                self.count(&self.columns[step.column])
            return at
        if what == UNION:
            at = varint(at, end, &count)
            if at == NULL or count < 0 or count >= step.count:
                return NULL
            return self.put(program, program.links[step.first + count], at, end)
        if what == BLOB or what == CELL or what == DECIMAL:
            return self.put_bytes(program, step, at, end)
        if what == ARRAY or what == MAP:
            return self.put_items(program, step, at, end)
        if what == NOTHING:
            if step.column >= 0:
                self.nothing(step.column)
            return at
        if what == NOT_USUAL:
            return NULL
        return self.put_number(step, at, end)

    cdef inline Bytes put_number(self, Step *step, Bytes at, Bytes end) noexcept nogil:
        cdef Column *column = NULL if step.column < 0 else &self.columns[step.column]
        cdef int64_t number = 0, size = 1 if step.what == BOOLEAN else 4 if step.what == FLOAT else 8
        cdef int64_t width = 0 if column == NULL else column.shape.width
        cdef unsigned char *to
        cdef float single = 0
        cdef double real = 0
        if step.what == WHOLE or step.what == WHOLE_AS_REAL:
            at = varint(at, end, &number)
            if at == NULL or number < step.least or number > step.most:
                return NULL
            number *= step.argument
            real = <double> number
        elif size > end - at:
            return NULL
        elif step.what == BOOLEAN:
            number = at[0]
            if number > 1:
                return NULL
            at += size
        else:
            memcpy(&number, at, size)
            if step.what == FLOAT:
                memcpy(&single, at, 4)
                real = single
            at += size
        if column == NULL:
            return at
        to = self.more(&column.data, width)
        if to == NULL:
            return NULL
        self.count(column)
        if step.what == WHOLE_AS_REAL and width == 4:
            single = <float> real
            memcpy(to, &single, 4)
        elif step.what == WHOLE_AS_REAL or (step.what == FLOAT and width == 8):
            memcpy(to, &real, 8)
        else:
            memcpy(to, &number, width)
        return at

    cdef Bytes put_bytes(self, AvroProgram program, Step *step, Bytes at, Bytes end) noexcept nogil:
        cdef Column *column = NULL if step.column < 0 else &self.columns[step.column]
        cdef int64_t size = step.size
        cdef Bytes begin = at
        cdef uint64_t halves[2]
        cdef unsigned char *to
        if step.what == CELL:
            begin = program.constants + step.argument
        else:
            if size < 0:
                at = begin = varint(at, end, &size)
            if at == NULL or size < 0 or size > end - at:
                return NULL
            at += size
        if step.what == DECIMAL:
            if not decimal_of(begin, size, program.constants + step.argument, halves):
                return NULL
            begin, size = <Bytes> halves, DECIMAL_SIZE
        elif step.what == BLOB and step.argument and not is_text(begin, begin + size):
            return NULL
        if column == NULL:
            return at
        to = self.more(&column.data, size)
        if to == NULL:
            return NULL
        memcpy(to, begin, size)
        if column.shape.what == BINARY:
            self.end(column, column.data.used)
        elif column.shape.what == LISTS:
            self.end(column, self.columns[column.shape.child].length)
        self.count(column)
        if self.is_full:
            return NULL
        return at

    cdef Bytes put_items(self, AvroProgram program, Step *step, Bytes at, Bytes end) noexcept nogil:
        """Read the blocks of an array or a map, each of whose items takes a byte or more."""
        cdef Column *column = NULL if step.column < 0 else &self.columns[step.column]
        cdef Column *entries = NULL if column == NULL else &self.columns[column.shape.child]
        cdef Column *keys = &self.columns[entries.shape.child] if step.what == MAP and column != NULL else NULL
        cdef int64_t part = program.links[step.first], first = 0 if keys == NULL else keys.length, count, size, index
        cdef Bytes begin = NULL
        while True:
            at = varint(at, end, &count)
            if at == NULL or count == 0:
                break
            if count > end - at or count < at - end:
                return NULL
            if count < 0:
                # The size of the block stands behind the number of its items. Nobody needs it.
                count = -count
                at = varint(at, end, &size)
                if at == NULL:
                    return NULL
            for index in range(count):
                if step.what == MAP:
                    at = field(at, end, &begin, &size)
                    if at == NULL or size < 0 or not is_text(begin, at):
                        return NULL
                    if keys != NULL and not self.put_key(entries, keys, begin, size):
                        return NULL
                at = self.put(program, part, at, end)
                if at == NULL:
                    return NULL
        if at == NULL or column == NULL:
            return at
        if keys != NULL and not self.differ(keys, first):
            return NULL
        self.end(column, entries.length)
        self.count(column)
        if self.is_full:
            return NULL
        return at

    cdef inline bint put_key(self, Column *entries, Column *keys, Bytes begin, int64_t size) noexcept nogil:
        cdef unsigned char *to = self.more(&keys.data, size)
        if to == NULL:
            return False
        memcpy(to, begin, size)
        self.end(keys, keys.data.used)
        self.count(keys)
        self.count(entries)
        return not self.is_full

    cdef bint differ(self, Column *keys, int64_t first) noexcept nogil:
        """Return whether the keys from `first` on are known to differ: the last one of those alike would hold."""
        cdef int64_t count = keys.length - first, one, other, size = 1, probe, place
        cdef int32_t *slots
        if count <= FEW_KEYS:
            for one in range(first, keys.length):
                for other in range(first, one):
                    if alike(keys, one, other):
                        return False
            return True
        while size < 2 * count:
            size *= 2
        self.places.used = 0
        slots = <int32_t *> self.more(&self.places, 4 * size)
        if slots == NULL:
            return False
        memset(slots, 0xFF, 4 * size)
        for one in range(first, keys.length):
            place = hash_of_key(keys, one) & (size - 1)
            for probe in range(MOST_PROBES):
                if slots[place] < 0:
                    break
                if alike(keys, slots[place], one):
                    return False
                place = (place + 1) & (size - 1)
            else:
                return False
            slots[place] = <int32_t> one
        return True


cdef inline bint alike(Column *keys, int64_t one, int64_t other) noexcept nogil:
    cdef int32_t *ends = <int32_t *> keys.ends.at
    cdef int64_t size = ends[one + 1] - ends[one]
    if size != ends[other + 1] - ends[other]:
        return False
    return memcmp(keys.data.at + ends[one], keys.data.at + ends[other], size) == 0


cdef inline uint32_t hash_of_key(Column *keys, int64_t row) noexcept nogil:
    cdef int32_t *ends = <int32_t *> keys.ends.at
    return hash_of(keys.data.at + ends[row], ends[row + 1] - ends[row])
