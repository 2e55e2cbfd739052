"""Records as Python's objects: bytes, and tuples of them."""

# -- Decode


cdef inline object content(Bytes begin, int64_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *> begin, size)


cdef inline void give(object made, Py_ssize_t place, object cell):
    Py_INCREF(cell)
    PyTuple_SET_ITEM(made, place, cell)


def decode_rows(
    bytes data, Py_ssize_t position, Py_ssize_t count, object first_offset, object first_timestamp,
    object append_time, type kind, tuple before, tuple between,
):
    """Return (records, the position behind them), or None. A record is a tuple of `kind`, a subclass of tuple:

        (*before, offset, timestamp, *between, key, value, headers)

    The garbage collector does not go through them: what decoding makes, and the texts and numbers around it, can be
    part of no cycle.
    """
    cdef Bytes start = <Bytes> PyBytes_AS_STRING(data)
    cdef Bytes end = start + PyBytes_GET_SIZE(data)
    cdef Bytes at = start + position
    cdef Fields fields
    cdef Py_ssize_t index, place, lead = PyTuple_GET_SIZE(before), more = PyTuple_GET_SIZE(between)
    cdef object none_known = (), made, timestamp = append_time
    cdef int64_t known_late_ms = 0
    if position < 0 or position > end - start or count < 0 or count > (end - at) // SMALLEST_RECORD:
        return None
    if not is_near(first_offset) or not is_near(first_timestamp):
        return None
    if not issubclass(kind, tuple) or not are_plain(before) or not are_plain(between):
        return None
    cdef int64_t base_offset = first_offset
    cdef int64_t base_timestamp = first_timestamp
    cdef list found = PyList_New(count)
    if timestamp is None:
        timestamp = first_timestamp
    for index in range(count):
        at = walk(at, end, &fields)
        if at == NULL or not -FAR < fields.late_ms < FAR or not -FAR < fields.delta < FAR:
            return None
        some = none_known
        if has_headers(&fields):
            some = decode_headers(fields.headers, fields.end)
            if some is None:
                return None
        if fields.late_ms != known_late_ms and append_time is None:
            known_late_ms = fields.late_ms
            timestamp = PyLong_FromLongLong(base_timestamp + known_late_ms)
        made = PyType_GenericAlloc(<PyTypeObject *> kind, lead + more + 5)
        PyObject_GC_UnTrack(made)
        put(found, index, made)
        share(made, 0, before)
        give(made, lead, PyLong_FromLongLong(base_offset + fields.delta))
        give(made, lead + 1, timestamp)
        share(made, lead + 2, between)
        place = lead + 2 + more
        give(made, place, content(fields.key, fields.key_size))
        give(made, place + 1, content(fields.value, fields.value_size))
        give(made, place + 2, some)
    return found, at - start


cdef object decode_headers(Bytes at, Bytes end):
    """Return the headers that fill the bytes, as a tuple; None if they do not."""
    cdef int64_t count, index, name_size, size
    cdef Bytes begin, name
    cdef object found, pair
    at = header_count(at, end, &count)
    if at == NULL:
        return None
    found = PyTuple_New(count)
    for index in range(count):
        at = header(at, end, &name, &name_size, &begin, &size)
        if at == NULL:
            return None
        pair = PyTuple_New(2)
        give(pair, 0, PyUnicode_DecodeUTF8(<const char *> name, name_size, "surrogateescape"))
        give(pair, 1, content(begin, size))
        give(found, index, pair)
    return found if at == end else None


cdef inline void put(list column, Py_ssize_t index, object entry):
    Py_INCREF(entry)
    PyList_SET_ITEM(column, index, entry)


def decode_columns(bytes data, Py_ssize_t position, Py_ssize_t count, object first_offset, object first_timestamp):
    """Return ((offsets, timestamps, keys, values, headers), the position behind the records), or None."""
    cdef Bytes start = <Bytes> PyBytes_AS_STRING(data)
    cdef Bytes end = start + PyBytes_GET_SIZE(data)
    cdef Bytes at = start + position
    cdef Fields fields
    cdef Py_ssize_t index
    cdef object none_known = ()
    if position < 0 or position > end - start or count < 0 or count > (end - at) // SMALLEST_RECORD:
        return None
    if not is_near(first_offset) or not is_near(first_timestamp):
        return None
    cdef int64_t base_offset = first_offset
    cdef int64_t base_timestamp = first_timestamp
    cdef list offsets = PyList_New(count)
    cdef list timestamps = PyList_New(count)
    cdef list keys = PyList_New(count)
    cdef list values = PyList_New(count)
    cdef list headers = PyList_New(count)
    for index in range(count):
        at = walk(at, end, &fields)
        if at == NULL or not -FAR < fields.late_ms < FAR or not -FAR < fields.delta < FAR:
            return None
        put(offsets, index, PyLong_FromLongLong(base_offset + fields.delta))
        put(timestamps, index, PyLong_FromLongLong(base_timestamp + fields.late_ms))
        put(keys, index, content(fields.key, fields.key_size))
        put(values, index, content(fields.value, fields.value_size))
        some = none_known
        if has_headers(&fields):
            some = decode_headers(fields.headers, fields.end)
            if some is None:
                return None
        put(headers, index, some)
    return (offsets, timestamps, keys, values, headers), at - start


cdef inline void share(object made, Py_ssize_t place, tuple cells):
    """Put cells into a new tuple from `place` on."""
    cdef Py_ssize_t index
    cdef object cell
    for index in range(PyTuple_GET_SIZE(cells)):
        cell = <object> PyTuple_GET_ITEM(cells, index)
        Py_INCREF(cell)
        PyTuple_SET_ITEM(made, place + index, cell)


cdef bint are_plain(tuple cells):
    """Whether all are texts or numbers, which refer to nothing."""
    for cell in cells:
        if not isinstance(cell, (str, int)):
            return False
    return True


def decode_values(bytes data, Py_ssize_t count):
    """Return the values of the `count` records that fill the bytes, or None."""
    cdef Bytes at = <Bytes> PyBytes_AS_STRING(data)
    cdef Bytes end = at + PyBytes_GET_SIZE(data)
    cdef Fields fields
    cdef Py_ssize_t index
    cdef int64_t headers, names, contents
    if count < 0 or count > (end - at) // SMALLEST_RECORD:
        return None
    cdef list values = PyList_New(count)
    for index in range(count):
        at = walk(at, end, &fields)
        if at == NULL or (has_headers(&fields) and not count_headers(&fields, &headers, &names, &contents)):
            return None
        put(values, index, content(fields.value, fields.value_size))
    return values if at == end else None


# -- Encode


cdef inline Py_ssize_t size_of(object given) noexcept:
    """Return the length of a key or value, -1 for None, -2 for what Python has to look at."""
    if given is None:
        return -1
    return PyBytes_GET_SIZE(given) if PyBytes_CheckExact(given) else -2


cdef inline unsigned char *put_field(unsigned char *at, object given, Py_ssize_t size) noexcept:
    at = put_varint(at, size)
    if size > 0:
        memcpy(at, PyBytes_AS_STRING(given), size)
        at += size
    return at


cdef bytes encode_headers(object headers):
    """Return the bytes of headers with their number in front; None where Python has to look at them."""
    cdef unsigned char number[10]
    cdef Py_ssize_t size
    if type(headers) is not tuple:
        return None
    out = [PyBytes_FromStringAndSize(<char *> number, put_varint(number, len(headers)) - number)]
    for header in headers:
        if not PyTuple_CheckExact(header) or PyTuple_GET_SIZE(header) != 2:
            return None
        name, given = header
        if type(name) is not str:
            return None
        try:
            key = (<str> name).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return None
        size = size_of(given)
        if size == -2:
            return None
        for part in (key, given):
            size = size_of(part)
            out.append(PyBytes_FromStringAndSize(<char *> number, put_varint(number, size) - number))
            if size > 0:
                out.append(part)
    return b"".join(out)


def encode_records(object given, object base_offset, object base_timestamp):
    """Return (bytes, count, last offset delta, largest timestamp) of a list or tuple of records, or None."""
    # A copy, because encoding headers may run code of the user.
    cdef tuple records = tuple(given)
    cdef Py_ssize_t count = PyTuple_GET_SIZE(records)
    cdef Py_ssize_t index, key_size, value_size, bound = 0
    cdef object record, key, value, extra
    cdef dict headers = {}
    if not is_near(base_offset) or not is_near(base_timestamp):
        return None
    for index in range(count):
        record = <object> PyTuple_GET_ITEM(records, index)
        if not PyTuple_Check(record) or PyTuple_GET_SIZE(record) != 5:
            return None
        key_size = size_of(<object> PyTuple_GET_ITEM(record, 2))
        value_size = size_of(<object> PyTuple_GET_ITEM(record, 3))
        if key_size == -2 or value_size == -2:
            return None
        bound += MOST_AROUND + max(key_size, 0) + max(value_size, 0)
        extra = <object> PyTuple_GET_ITEM(record, 4)
        if extra:
            encoded = encode_headers(extra)
            if encoded is None:
                return None
            headers[index] = encoded
            bound += PyBytes_GET_SIZE(encoded)
    return write_records(records, count, bound, headers, base_offset, base_timestamp)


cdef object write_records(
    tuple records, Py_ssize_t count, Py_ssize_t bound, dict headers, int64_t base_offset, int64_t base_timestamp
):
    cdef object record, key, value
    cdef bytes extra
    cdef Py_ssize_t index, key_size, value_size, size
    cdef int64_t offset, timestamp, late, delta = -1, largest = -1
    cdef int overflow = 0, beyond = 0
    cdef bint some_have_headers = bool(headers)
    made = PyBytes_FromStringAndSize(NULL, bound)
    cdef unsigned char *start = <unsigned char *> PyBytes_AS_STRING(made)
    cdef unsigned char *at = start
    for index in range(count):
        record = <object> PyTuple_GET_ITEM(records, index)
        if not PyLong_CheckExact(<object> PyTuple_GET_ITEM(record, 0)):
            return None
        if not PyLong_CheckExact(<object> PyTuple_GET_ITEM(record, 1)):
            return None
        offset = PyLong_AsLongLongAndOverflow(<object> PyTuple_GET_ITEM(record, 0), &overflow)
        timestamp = PyLong_AsLongLongAndOverflow(<object> PyTuple_GET_ITEM(record, 1), &beyond)
        if overflow or beyond or offset > FAR or timestamp < -1:
            return None
        if offset < 0:
            delta += 1
        elif offset - base_offset > delta:
            delta = offset - base_offset
        else:
            return None
        if timestamp > largest:
            largest = timestamp
        late = <int64_t> (<uint64_t> timestamp - <uint64_t> base_timestamp)
        key = <object> PyTuple_GET_ITEM(record, 2)
        value = <object> PyTuple_GET_ITEM(record, 3)
        key_size, value_size = size_of(key), size_of(value)
        extra = headers.get(index) if some_have_headers else None
        size = 1 + varint_size(late) + varint_size(delta) + varint_size(key_size) + varint_size(value_size)
        size += max(key_size, 0) + max(value_size, 0) + (1 if extra is None else PyBytes_GET_SIZE(extra))
        at = put_varint(at, size)
        at[0] = 0  # attributes
        at = put_varint(put_varint(at + 1, late), delta)
        at = put_field(put_field(at, key, key_size), value, value_size)
        if extra is None:
            at[0] = 0
            at += 1
        else:
            memcpy(at, PyBytes_AS_STRING(extra), PyBytes_GET_SIZE(extra))
            at += PyBytes_GET_SIZE(extra)
    if delta > 0x7FFFFFFF:
        return None
    return made[: at - start], count, delta, largest


def encode_values(object given):
    """Return the bytes of records that have only these values, or None."""
    cdef tuple values = tuple(given)
    cdef Py_ssize_t count = PyTuple_GET_SIZE(values), index, size, bound = 0
    cdef object value
    for index in range(count):
        size = size_of(<object> PyTuple_GET_ITEM(values, index))
        if size < 0:
            return None
        bound += MOST_AROUND + size
    made = PyBytes_FromStringAndSize(NULL, bound)
    cdef unsigned char *start = <unsigned char *> PyBytes_AS_STRING(made)
    cdef unsigned char *at = start
    for index in range(count):
        value = <object> PyTuple_GET_ITEM(values, index)
        size = PyBytes_GET_SIZE(value)
        at = put_varint(at, 4 + varint_size(index) + varint_size(size) + size)
        at[0] = at[1] = 0  # attributes, and the difference in time
        at = put_varint(at + 2, index)
        at[0] = 1  # no key
        at = put_field(at + 1, value, size)
        at[0] = 0  # no headers
        at += 1
    return made[: at - start]
