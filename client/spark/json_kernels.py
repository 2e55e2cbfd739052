"""Lines of JSON objects: the values of a binary column -> one text that a JSON reader takes line by line.

pyarrow's reader takes several objects from one line, and a `null` between lines ends the process (seen in 26.0.1). So
only a value that is one object, by its braces and strings, reaches it; every other one is marked as bad. Compiled as
`kernels.py` is.
"""
# pyright: basic, reportCallIssue=false
# ruff: noqa: SIM109
# numba has no types, and compiles `in` a tuple to a loop.

from __future__ import annotations

import numba

from .memory import copy, load8, load32, store8, store64

# A reader that recurses has an end of its stack.
MAX_DEPTH = 64

_QUOTE, _BACKSLASH, _NEWLINE, _RETURN, _SPACE, _TAB = 34, 92, 10, 13, 32, 9
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = 123, 125, 91, 93
BROKEN, ONE_LINE, MORE_LINES = 0, 1, 2


@numba.njit
def _shape(at, end):
    """Tell whether bytes are one object, and whether they are on one line."""
    depth, in_text, escaped, closed, shape = 0, False, False, False, ONE_LINE
    while at < end:
        byte = load8(at)
        at += 1
        if in_text:
            if byte < _SPACE:
                return BROKEN
            if escaped:
                escaped = False
            elif byte == _BACKSLASH:
                escaped = True
            elif byte == _QUOTE:
                in_text = False
            continue
        if byte == _NEWLINE or byte == _RETURN:
            shape = MORE_LINES
        elif byte == _SPACE or byte == _TAB:
            continue
        elif closed or (depth == 0 and byte != _OPEN_BRACE):
            return BROKEN
        elif byte == _QUOTE:
            in_text = True
        elif byte == _OPEN_BRACE or byte == _OPEN_BRACKET:
            depth += 1
            if depth > MAX_DEPTH:
                return BROKEN
        elif byte == _CLOSE_BRACE or byte == _CLOSE_BRACKET:
            depth -= 1
            closed = depth == 0
    return shape if closed else BROKEN


@numba.njit
def _without_line_ends(at, end):
    while at < end:
        byte = load8(at)
        if byte == _NEWLINE or byte == _RETURN:
            store8(at, _SPACE)
        at += 1


def join_objects(data, ends, valid, rows, lines, line_ends, bad):
    """Write a line for each row, `{}` for a null and for a bad one, and mark the bad ones: -> bytes written.

    `data` and `ends` (int32, rows + 1) are the column, and `valid` its bitmap, or 0. `lines` has room for each value
    and three bytes more; `line_ends` (int64, rows + 1) gets where lines end; `bad` has a byte for each row.
    """
    filled = 0
    store64(line_ends, 0)
    for row in range(rows):
        start, end = data + load32(ends + 4 * row), data + load32(ends + 4 * (row + 1))
        shape = BROKEN
        if valid == 0 or (load8(valid + (row >> 3)) >> (row & 7)) & 1:
            shape = _shape(start, end)
            if shape == BROKEN:
                store8(bad + row, 1)
        if shape == BROKEN:
            store8(lines + filled, _OPEN_BRACE)
            store8(lines + filled + 1, _CLOSE_BRACE)
            filled += 2
        else:
            copy(lines + filled, start, end - start)
            if shape == MORE_LINES:
                _without_line_ends(lines + filled, lines + filled + end - start)
            filled += end - start
        store8(lines + filled, _NEWLINE)
        filled += 1
        store64(line_ends + 8 * (row + 1), filled)
    return filled


KERNELS = (join_objects,)
