"""Lines of JSON objects: the values of a binary column -> one text that a JSON reader takes line by line.

pyarrow's reader takes several objects from one line, and a `null` between lines ends the process (seen in 26.0.1). So
only a value that is one object, by its braces and strings, reaches it; every other one is marked as bad. The compiled
kernel (kernel/json.pxi) does it where it was built, otherwise Python does.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...kernel import door
from .encoder import bytes_column

# A reader that recurses has an end of its stack.
MAX_DEPTH = 64
# A string, a brace or bracket, a run of other bytes. A string that does not end matches nothing.
_TOKENS = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*+"|[{}\[\]]|[^"{}\[\]]++', re.DOTALL)
_BLANK = b" \t\r\n"
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


def join_objects(column: Any, bad: NDArray[np.bool_]) -> tuple[memoryview, NDArray[np.int64]]:
    """Return a text with a line for each row of a binary column, and where the lines end.

    A null and a value that is no object become `{}`. The latter are marked in `bad`.
    """
    if door.compiled is None:
        return _join_in_python(column, bad)
    data, rows = column.buffers()[2], len(column)
    lines = np.empty((0 if data is None else data.size) + 3 * rows, np.uint8)
    ends = np.empty(rows + 1, np.int64)
    filled = door.compiled.join_objects(bytes_column(column), lines, ends, bad)
    return lines.data[:filled], ends


def _join_in_python(column: Any, bad: NDArray[np.bool_]) -> tuple[memoryview, NDArray[np.int64]]:
    lines = bytearray()
    ends = [0]
    for row, value in enumerate(column.to_pylist()):
        if value is not None and _is_object(value):
            lines += value.translate(_LINE_ENDS)
        else:
            bad[row] |= value is not None
            lines += b"{}"
        lines += b"\n"
        ends.append(len(lines))
    return memoryview(lines), np.array(ends, np.int64)


def _is_object(value: bytes) -> bool:
    """Whether braces, brackets and strings are those of one object. A closing one may be of the other kind."""
    depth, at, closed = 0, 0, False
    for token in _TOKENS.finditer(value):
        if token.start() != at:
            return False
        at, text = token.end(), token[0].strip(_BLANK)
        if not text:
            continue
        if closed or (depth == 0 and text != b"{"):
            return False
        if text in (b"{", b"["):
            depth += 1
            if depth > MAX_DEPTH:
                return False
        elif text in (b"}", b"]"):
            depth -= 1
            closed = depth == 0
    return closed and at == len(value)
