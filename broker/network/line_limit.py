"""A limit on lines of the log that clients cause: so many a second, and the next one tells how many were left out."""

from __future__ import annotations

LINES_PER_SECOND = 20


class LineLimit:
    """The lines of one connection."""

    __slots__ = ("_left_out", "_lines", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._lines = 0
        # Since the last line that was written.
        self._left_out = 0

    def take(self, now_ms: int) -> int | None:
        """Return None where a line is one too many; otherwise how many were left out before it."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        return left_out
