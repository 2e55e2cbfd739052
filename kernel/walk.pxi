"""The walk over a record: the only code that knows where its fields lie. And the hash of a key."""


cdef inline Bytes varint(Bytes at, Bytes end, int64_t *number) noexcept nogil:
    """Read a zigzag varint; return the place behind it, NULL if there is none, or none of 64 bits."""
    cdef uint64_t found
    # One or two bytes, as nearly all have, in code so short that each caller gets a copy of it.
    if end - at > 1:
        found = at[0]
        if found < 0x80:
            number[0] = <int64_t> (found >> 1) ^ -<int64_t> (found & 1)
            return at + 1
        found += (<uint64_t> at[1] << 7) - 0x80
        if found < 0x4000:
            number[0] = <int64_t> (found >> 1) ^ -<int64_t> (found & 1)
            return at + 2
    return long_varint(at, end, number)


cdef Bytes long_varint(Bytes at, Bytes end, int64_t *number) noexcept nogil:
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef unsigned char byte
    while at < end:
        byte = at[0]
        at += 1
        if shift == 63 and byte > 1:
            return NULL
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


cdef inline bint has_headers(Fields *fields) noexcept nogil:
    return fields.headers + 1 != fields.end or fields.headers[0] != 0


cdef Bytes header_count(Bytes at, Bytes end, int64_t *count) noexcept nogil:
    """Read how many headers there are; return the place behind, NULL for a number that the bytes cannot hold."""
    at = varint(at, end, count)
    # Each header takes two bytes or more.
    if at == NULL or count[0] < 0 or count[0] > (end - at) // 2:
        return NULL
    return at


cdef inline Bytes header(
    Bytes at, Bytes end, Bytes *name, int64_t *name_size, Bytes *content, int64_t *content_size
) noexcept nogil:
    """Read one header; return the place behind it, or NULL."""
    at = field(at, end, name, name_size)
    if at == NULL or name_size[0] < 0:
        return NULL
    return field(at, end, content, content_size)


cdef bint count_headers(Fields *fields, int64_t *count, int64_t *name_bytes, int64_t *content_bytes) noexcept nogil:
    """Count the headers of a record and their bytes; return whether they fill it."""
    cdef int64_t number, name_size, size, names = 0, contents = 0
    cdef Bytes name, begin, at = header_count(fields.headers, fields.end, &number)
    cdef int64_t index
    if at == NULL:
        return False
    for index in range(number):
        at = header(at, fields.end, &name, &name_size, &begin, &size)
        if at == NULL:
            return False
        names += name_size
        contents += max(size, 0)
    count[0], name_bytes[0], content_bytes[0] = number, names, contents
    return at == fields.end


cdef inline unsigned char *put_varint(unsigned char *at, int64_t number) noexcept nogil:
    cdef uint64_t left = (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)
    if left <= 0x7F:
        at[0] = <unsigned char> left
        return at + 1
    while left > 0x7F:
        at[0] = <unsigned char> (left & 0x7F | 0x80)
        at += 1
        left >>= 7
    at[0] = <unsigned char> left
    return at + 1


cdef inline int varint_size(int64_t number) noexcept nogil:
    cdef uint64_t left = (<uint64_t> number << 1) ^ <uint64_t> (number >> 63)
    cdef int size = 1
    if left <= 0x7F:
        return 1
    while left > 0x7F:
        left >>= 7
        size += 1
    return size


cdef inline uint32_t hash_of(Bytes data, int64_t size) noexcept nogil:
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
