"""Limits on lines of the log that clients cause: so many in a window of time, then the number of those left out."""

from __future__ import annotations


class LineLimit:
    """At most so many lines in a window, which begins with its first line."""

    __slots__ = ("_lines", "_most_lines", "_window_ms", "began_ms", "left_out")

    def __init__(self, most_lines: int, window_ms: int) -> None:
        self._most_lines, self._window_ms = most_lines, window_ms
        self.began_ms = -window_ms
        self._lines = 0
        # Since they were last told.
        self.left_out = 0

    def take(self, now_ms: int) -> int | None:
        """Return None where a line is one too many; otherwise how many were left out before it, and not told."""
        if now_ms - self.began_ms >= self._window_ms:
            self.began_ms, self._lines = now_ms, 0
        self._lines += 1
        if self._lines > self._most_lines:
            self.left_out += 1
            return None
        return self.tell()

    def tell(self) -> int:
        """Return how many were left out, which is told now."""
        left_out, self.left_out = self.left_out, 0
        return left_out
