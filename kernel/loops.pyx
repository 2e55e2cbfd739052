# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, always_allow_keywords=False
"""The compiled kernel of Odradek: the loops over records of a batch, in C, with two faces.

    objects.pxi      decode_columns, decode_rows, decode_values,     records as Python's objects
                     encode_records, encode_values
    producing.pxi    murmur2, spread, prepare, places                what producers do with each record
    arrow.pxi        scan_batches, OpenColumns                       record batches to Arrow columns
    arrow_rows.pxi   OpenBatches                                     Arrow columns to record batches
    json.pxi         join_objects                                    values of JSON to lines
    avro.pxi         AvroProgram, AvroColumns                        records of Avro to Arrow columns

Each does what a Python function of `odradek` does, for the bytes and objects that are usual (door.py names it). For
anything else it says so, and Python decides: what is broken, and how the error reads, stands there alone.

Promise: no function reads outside of the bytes that it was given, or writes outside of the memory that it was lent.
Each length is compared with the bytes that are left before it is used, and room is made for no more records than the
bytes hold.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_CheckExact, PyLong_FromLongLong
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport (
    PyTuple_Check, PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM,
)
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    void PyObject_GC_UnTrack(object made)
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t count)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)

# What the Python side needs to find: a clone may hold what was built from older sources. Goes up when a function
# changes.
INTERFACE = 7

ctypedef const unsigned char *Bytes

cdef enum:
    SMALLEST_RECORD = 7
    # The most that a record adds to its key, value and headers: five varints of ten bytes, attributes, no headers.
    MOST_AROUND = 52
    # The same for the usual numbers, without headers: how Python's side reckons the room of a record in a batch.
    RECORD_OVERHEAD = 36
# Sums of numbers within these bounds stay within 64 bits.
cdef int64_t FAR = 1 << 61


cdef inline bint is_near(object number):
    """Whether a number is an int whose sums with other such numbers stay within 64 bits."""
    return PyLong_CheckExact(number) and -FAR < number < FAR


include "walk.pxi"
include "objects.pxi"
include "producing.pxi"
include "arrow.pxi"
include "arrow_rows.pxi"
include "json.pxi"
include "avro.pxi"
