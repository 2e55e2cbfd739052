"""Memory for the columns of Arrow batches: of Arrow's pool, or mapped in large pages.

A page of 4 KiB that is touched for the first time costs more than the decoding of all the records in it. Columns that
are dropped soon (Spark's, those of a poll) come from Arrow's pool, which hands out the same memory again. Columns that
stay (a whole topic) are new memory in any case: the large ones are mapped in pages of 2 MiB, where the system has them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

# Takes a number of bytes, and returns a `pyarrow.Buffer` of them that may be written to.
Memory = Callable[[int], Any]

_LARGE_PAGE_BYTES = 2 << 20
# So many rows of a repeated text are written one by one.
_FIRST_ROWS = 1024
_ADVICE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux alone


def pool(size: int) -> Any:
    """Return memory of Arrow's pool."""
    return pa.allocate_buffer(size)


def large_pages(size: int) -> Any:
    """Return mapped memory in large pages; of Arrow's pool where a page is too large. Used as far as it is filled."""
    if size < _LARGE_PAGE_BYTES or _ADVICE is None:
        return pool(size)
    # The system aligns a mapping with its large pages where it has a whole number of them.
    whole = -(-size // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES
    # Private: shared memory, which is the default, has no large pages.
    mapped = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without large pages: the memory is as good as any
        mapped.madvise(_ADVICE)
    return pa.py_buffer(mapped)


def filled(count: int, kind: Any, content: int, memory: Memory = pool) -> Any:
    """Return memory with `count` times the same number."""
    made = memory(count * np.dtype(kind).itemsize)
    np.frombuffer(made, kind, count)[:] = content
    return made


def repeated(content: int | str, rows: int, memory: Memory) -> Any:
    """Return an Arrow column that holds an int32 or a text in each row.

    pyarrow's own way imports pandas, which takes a second.
    """
    if isinstance(content, int):
        return pa.Array.from_buffers(pa.int32(), rows, [None, filled(rows, np.int32, content, memory)], 0)
    text = content.encode()
    size, first = len(text), min(rows, _FIRST_ROWS)
    ends, texts = memory((rows + 1) * 4), memory(rows * size)
    places, letters = np.frombuffer(ends, np.int32, rows + 1), np.frombuffer(texts, np.uint8, rows * size)
    places[: first + 1] = np.arange(0, (first + 1) * size, size)
    letters[: first * size] = np.frombuffer(text * first, np.uint8)
    while first < rows:  # what is there doubles: no second column of this length is made for it
        more = min(first, rows - first)
        np.add(places[1 : more + 1], first * size, out=places[first + 1 : first + more + 1])
        letters[first * size : (first + more) * size] = letters[: more * size]
        first += more
    return pa.Array.from_buffers(pa.string(), rows, [None, ends, texts], 0)
