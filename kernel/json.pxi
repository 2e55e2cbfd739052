"""Values of JSON to lines that a reader takes one by one."""

# A reader that recurses has an end of its stack.
cdef enum:
    MAX_DEPTH = 64
    BROKEN = 0
    ONE_LINE = 1
    MORE_LINES = 2


cdef int shape_of(Bytes at, Bytes end) noexcept nogil:
    """Tell whether bytes are one object, and whether they are on one line."""
    cdef int depth = 0, shape = ONE_LINE
    cdef bint in_text = False, escaped = False, closed = False
    cdef unsigned char byte
    while at < end:
        byte = at[0]
        at += 1
        if in_text:
            if byte < c' ':
                return BROKEN
            if escaped:
                escaped = False
            elif byte == c'\\':
                escaped = True
            elif byte == c'"':
                in_text = False
        elif byte == c'\n' or byte == c'\r':
            shape = MORE_LINES
        elif byte == c' ' or byte == c'\t':
            continue
        elif closed or (depth == 0 and byte != c'{'):
            return BROKEN
        elif byte == c'"':
            in_text = True
        elif byte == c'{' or byte == c'[':
            depth += 1
            if depth > MAX_DEPTH:
                return BROKEN
        elif byte == c'}' or byte == c']':
            depth -= 1
            closed = depth == 0
    return shape if closed else BROKEN


def join_objects(BytesColumn values not None, lines, line_ends, bad):
    """Write a line for each value, `{}` for a null and for a bad one, and mark the bad ones: -> bytes written.

    `lines` has room for the bytes of all values and three more each; `line_ends` (int64, one more than rows) gets
    where lines end; `bad` has a byte for each row.
    """
    cdef Py_ssize_t rows = values.length
    cdef Memory target = lent(lines, values.size + 3 * rows)
    cdef Memory places = lent(line_ends, 8 * (rows + 1)), marks = lent(bad, rows)
    cdef unsigned char *at = target.at
    cdef unsigned char *stop
    cdef int64_t *ends = <int64_t *> places.at
    cdef int64_t size
    cdef Bytes begin = NULL
    cdef int shape
    cdef Py_ssize_t row
    with nogil:
        ends[0] = 0
        for row in range(rows):
            size = find(&values.cells, row, &begin)
            shape = BROKEN
            if size >= 0:
                shape = shape_of(begin, begin + size)
                if shape == BROKEN:
                    marks.at[row] = 1
            if shape == BROKEN:
                at[0], at[1] = c'{', c'}'
                at += 2
            else:
                memcpy(at, begin, size)
                stop = at + size
                if shape == MORE_LINES:
                    while at < stop:
                        if at[0] == c'\n' or at[0] == c'\r':
                            at[0] = c' '
                        at += 1
                at = stop
            at[0] = c'\n'
            at += 1
            ends[row + 1] = at - target.at
    return at - target.at
