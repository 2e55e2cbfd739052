# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, always_allow_keywords=False
"""The compiled kernel of Odradek: the loops over records of a batch, in C.

Each function does what a Python function of `odradek` does, for the bytes and objects that are usual. For anything
else it returns None, and Python decides: what is broken, and how the error reads, stands there alone.

    decode_columns   odradek/protocol/records/columns.py    the records of a batch by column
    decode_rows      odradek/protocol/records/columns.py    the same as named tuples
    decode_values    odradek/protocol/records/values.py     their values alone
    encode_records   odradek/protocol/records/record.py     the bytes of records
    murmur2          odradek/client/producer/partitioner.py the hash of a key
    spread           odradek/client/producer/spreading.py   (key, value) pairs as records by partition
    prepare          odradek/client/producer/preparation.py a record for the buffer
    places           odradek/client/producer/batch.py       where acknowledged records are

Promise: no function reads outside of the bytes that it was given, or writes outside of those that it made. Each length
is compared with the bytes that are left before it is used, and lists are made for no more records than the bytes hold.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_CheckExact, PyLong_FromLongLong
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    void PyObject_GC_UnTrack(object made)
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t count)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)

# What the Python side needs to find, so that an older kernel is not called. Goes up when a function changes.
INTERFACE = 3

ctypedef const unsigned char *Bytes

DEF SMALLEST_RECORD = 7
# The most that a record adds to its key, value and headers: five varints of ten bytes, attributes, no headers.
DEF MOST_AROUND = 52
# The same for the usual numbers, without headers: how Python's side reckons the room of a record in a batch.
DEF RECORD_OVERHEAD = 36
# Sums of numbers within these bounds stay within 64 bits.
cdef int64_t FAR = 1 << 61


cdef inline bint is_near(object number):
    """Whether a number is an int whose sums with other such numbers stay within 64 bits."""
    return PyLong_CheckExact(number) and -FAR < number < FAR


# -- Decode


cdef inline Bytes varint(Bytes at, Bytes end, int64_t *number) noexcept nogil:
    """Read a zigzag varint of at most nine bytes; return the place behind it, NULL if there is none."""
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef unsigned char byte
    while at < end and shift < 63:
        byte = at[0]
        at += 1
        found |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = <int64_t> (found >> 1) ^ -<int64_t> (found & 1)
            return at
        shift += 7
    return NULL


cdef inline Bytes field(Bytes at, Bytes end, Bytes *begin, int64_t *size) noexcept nogil:
    """Read bytes with their length in front. A length below zero means null; return the place behind, or NULL."""
    at = varint(at, end, size)
    if at == NULL or size[0] > end - at:
        return NULL
    begin[0] = at
    return at + size[0] if size[0] > 0 else at


cdef struct Fields:
    int64_t late_ms
    int64_t delta
    Bytes key
    int64_t key_size
    Bytes value
    int64_t value_size
    Bytes headers
    Bytes end


cdef inline Bytes walk(Bytes at, Bytes end, Fields *fields) noexcept nogil:
    """Find the fields of the record at `at`, whose headers end where it ends; return that place, or NULL."""
    cdef int64_t size
    at = varint(at, end, &size)
    if at == NULL or size < 1 or size > end - at:
        return NULL
    end = at + size
    at = varint(at + 1, end, &fields.late_ms)  # behind the attributes, of which Kafka defines none
    if at != NULL:
        at = varint(at, end, &fields.delta)
    if at != NULL:
        at = field(at, end, &fields.key, &fields.key_size)
    if at != NULL:
        at = field(at, end, &fields.value, &fields.value_size)
    if at == NULL or at == end:
        return NULL
    fields.headers = at
    fields.end = end
    return end


cdef inline object content(Bytes begin, int64_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *> begin, size)


cdef object decode_headers(Bytes at, Bytes end):
    """Return the headers that fill the bytes, as a tuple; None if they do not."""
    cdef int64_t count, size
    cdef Bytes begin
    at = varint(at, end, &count)
    # Each header takes two bytes or more.
    if at == NULL or count < 0 or count > (end - at) // 2:
        return None
    found = []
    for _ in range(count):
        at = field(at, end, &begin, &size)
        if at == NULL or size < 0:
            return None
        name = PyUnicode_DecodeUTF8(<const char *> begin, size, "surrogateescape")
        at = field(at, end, &begin, &size)
        if at == NULL:
            return None
        found.append((name, content(begin, size)))
    return tuple(found) if at == end else None


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
        if fields.headers + 1 != fields.end or fields.headers[0]:
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


cdef inline void give(object made, Py_ssize_t place, object cell):
    Py_INCREF(cell)
    PyTuple_SET_ITEM(made, place, cell)


def decode_rows(
    bytes data, Py_ssize_t position, Py_ssize_t count, object first_offset, object first_timestamp,
    object append_time, type kind, tuple before, tuple between,
):
    """Return (records, the position behind them), or None. A record is a tuple of `kind`, a subclass of tuple:

        (*before, offset, timestamp, *between, key, value, headers)

    The garbage collector does not go through them: what decoding makes, and the texts and numbers around it, can be part
    of no cycle.
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
        if fields.headers + 1 != fields.end or fields.headers[0]:
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


cdef bint are_plain(tuple cells):
    """Whether all are texts or numbers, which refer to nothing."""
    for cell in cells:
        if not isinstance(cell, (str, int)):
            return False
    return True


def decode_values(bytes data, Py_ssize_t count):
    """Return the values of the `count` records that fill the bytes, or None. Headers are not looked at."""
    cdef Bytes at = <Bytes> PyBytes_AS_STRING(data)
    cdef Bytes end = at + PyBytes_GET_SIZE(data)
    cdef Fields fields
    cdef Py_ssize_t index
    if count < 0 or count > (end - at) // SMALLEST_RECORD:
        return None
    cdef list values = PyList_New(count)
    for index in range(count):
        at = walk(at, end, &fields)
        if at == NULL:
            return None
        put(values, index, content(fields.value, fields.value_size))
    return values if at == end else None


# -- Encode


cdef inline unsigned char *put_varint(unsigned char *at, int64_t number) noexcept nogil:
    cdef uint64_t left = (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)
    while left > 0x7F:
        at[0] = <unsigned char> (left & 0x7F | 0x80)
        at += 1
        left >>= 7
    at[0] = <unsigned char> left
    return at + 1


cdef inline int varint_size(int64_t number) noexcept nogil:
    cdef uint64_t left = (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)
    cdef int size = 1
    while left > 0x7F:
        left >>= 7
        size += 1
    return size


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
    cdef bint has_headers = bool(headers)
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
        extra = headers.get(index) if has_headers else None
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


# -- Producers

cdef object END = object()
cdef object NO_OFFSET = -1
cdef object NO_HEADERS = ()


cdef inline uint32_t hash_of(Bytes data, Py_ssize_t size) noexcept nogil:
    """MurmurHash 2 with Kafka's seed."""
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = 0x9747B28CU ^ <uint32_t> size
    cdef uint32_t k
    while size >= 4:
        k = data[0] | <uint32_t> data[1] << 8 | <uint32_t> data[2] << 16 | <uint32_t> data[3] << 24
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
        data += 4
        size -= 4
    if size:
        if size == 3:
            h ^= <uint32_t> data[2] << 16
        if size >= 2:
            h ^= <uint32_t> data[1] << 8
        h ^= data[0]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ h >> 15


def murmur2(bytes data):
    """Return the hash of a key, as an unsigned 32-bit number."""
    return hash_of(<Bytes> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline object new_record(type kind, object timestamp_ms, object key, object value):
    """Return a record without an offset and headers. `kind` is a subclass of tuple, as named tuples are."""
    made = PyType_GenericAlloc(<PyTypeObject *> kind, 5)
    PyObject_GC_UnTrack(made)  # numbers and bytes are part of no cycle
    give(made, 0, NO_OFFSET)
    give(made, 1, timestamp_ms)
    give(made, 2, key)
    give(made, 3, value)
    give(made, 4, NO_HEADERS)
    return made


def prepare(
    type kind, type record_kind, object topic, object partition, object key, object value, object timestamp_ms,
    Py_ssize_t max_size,
):
    """Return a tuple of `kind`, (topic, partition, key, record, size), or None. Headers there are none."""
    cdef Py_ssize_t key_size = size_of(key), value_size = size_of(value)
    cdef Py_ssize_t size = RECORD_OVERHEAD + max(key_size, 0) + max(value_size, 0)
    if key_size == -2 or value_size == -2 or size > max_size or type(topic) is not str:
        return None
    if not PyLong_CheckExact(timestamp_ms) or not (partition is None or PyLong_CheckExact(partition)):
        return None
    if not issubclass(kind, tuple) or not issubclass(record_kind, tuple):
        return None
    made = PyType_GenericAlloc(<PyTypeObject *> kind, 5)
    PyObject_GC_UnTrack(made)
    give(made, 0, topic)
    give(made, 1, partition)
    give(made, 2, key)
    give(made, 3, new_record(record_kind, timestamp_ms, key, value))
    give(made, 4, size)
    return made


def places(
    type kind, str topic, int partition, int64_t base_offset, int64_t append_time_ms, list indexes, list timestamps_ms,
):
    """Return a tuple of `kind`, (topic, partition, offset, timestamp), for each record, or None.

    `indexes` are the records' places behind the base offset, which is -1 where it is not known. The other -1 is an
    append time that there is not.
    """
    cdef Py_ssize_t index, count = len(indexes)
    cdef object offset = NO_OFFSET, time_ms = append_time_ms
    if not issubclass(kind, tuple) or len(timestamps_ms) != count or not -FAR < base_offset < FAR:
        return None
    cdef list found = PyList_New(count)
    for index in range(count):
        if base_offset >= 0:
            offset = base_offset + <int64_t> indexes[index]
        if append_time_ms < 0:
            time_ms = timestamps_ms[index]
            if not PyLong_CheckExact(time_ms):
                return None
        made = PyType_GenericAlloc(<PyTypeObject *> kind, 4)
        PyObject_GC_UnTrack(made)
        put(found, index, made)
        give(made, 0, topic)
        give(made, 1, partition)
        give(made, 2, offset)
        give(made, 3, time_ms)
    return found


def spread(
    object pairs, list records, list sizes, type kind, object timestamp_ms, Py_ssize_t keyless,
    Py_ssize_t max_records, Py_ssize_t max_bytes, Py_ssize_t max_size,
):
    """Move (key, value) pairs from an iterator to the lists of their partitions, as records, until a bound is reached.

    `sizes` gets the room that each takes in a batch. Return whether the pairs have ended, and a tuple: of the pair that
    Python has to look at, if there is one. That is so for a pair that has no room and is not the first. Raises what the
    iterator raises: the lists then hold what came before.
    """
    cdef Py_ssize_t key_size, value_size, size, at, partitions = len(records)
    if not issubclass(kind, tuple) or len(sizes) != partitions or not 0 <= keyless < partitions:
        raise TypeError("spread needs a kind of tuple, and as many lists of records as of sizes")
    cdef bint is_first = True
    for _ in range(max_records):
        pair = next(pairs, END)
        if pair is END:
            return True, ()
        if not PyTuple_CheckExact(pair) or PyTuple_GET_SIZE(pair) != 2:
            return False, (pair,)
        key = <object> PyTuple_GET_ITEM(pair, 0)
        value = <object> PyTuple_GET_ITEM(pair, 1)
        key_size, value_size = size_of(key), size_of(value)
        size = RECORD_OVERHEAD + max(key_size, 0) + max(value_size, 0)
        if key_size == -2 or value_size == -2 or size > max_size or (size > max_bytes and not is_first):
            return False, (pair,)
        at = keyless
        if key_size >= 0:
            at = (hash_of(<Bytes> PyBytes_AS_STRING(key), key_size) & 0x7FFFFFFF) % partitions
        (<list?> records[at]).append(new_record(kind, timestamp_ms, key, value))
        (<list?> sizes[at]).append(size)
        max_bytes -= size
        is_first = False
    return False, ()
