"""What producers do with each record before it is encoded."""

cdef object END = object()
cdef object NO_OFFSET = -1
cdef object NO_HEADERS = ()


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
