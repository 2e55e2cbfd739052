"""Limits on lines of the log that clients cause: so many in a window of time, then the number of those left out.

Strangers cause them. One that tries a password a thousand times a second would otherwise fill the disk of the log, and
hide what others do.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ..clock import Clock
from ..timers import Timers

# Denials of one connection.
DENIALS_PER_SECOND: Final = 20
# Clients of one processor, or of one listener's door, that are refused or closed.
MOST_LINES: Final = 100
WINDOW_MS: Final = 10_000

_log = logging.getLogger(__name__)


class LineLimit:
    """At most so many lines in a window, which begins with its first line."""

    __slots__ = ("_lines", "_most_lines", "_window_ms", "began_ms", "left_out")

    def __init__(self, most_lines: int = DENIALS_PER_SECOND, window_ms: int = 1_000) -> None:
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


class Rejections:
    """The lines about clients that are refused or closed. A timer tells how many more there were."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._limit = LineLimit(MOST_LINES, WINDOW_MS)

    def warn(self, log: logging.Logger, text: str, *values: object, extra: dict[str, Any] | None = None) -> None:
        """Write a line to `log`, or count it."""
        now_ms = self._clock.monotonic_ms()
        left_out = self._limit.take(now_ms)
        if left_out is not None:
            self._tell(left_out)
            log.warning(text, *values, extra=extra)
        elif self._limit.left_out == 1:
            end_ms = self._limit.began_ms + WINDOW_MS
            self._timers.after(end_ms - now_ms, lambda: self._tell(self._limit.tell()))

    def _tell(self, left_out: int) -> None:
        if left_out:
            _log.warning("%d more clients were refused or closed within %d s", left_out, WINDOW_MS // 1000)
