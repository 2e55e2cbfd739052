"""The lines of the log about clients that are refused or closed: a bounded number of them, then a count.

Strangers cause these lines. One that tries a password a thousand times a second would otherwise fill the disk of the
log, and hide what others do. Of `WINDOW_MS` the first `MOST_LINES` are written, and at its end the number of the rest.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from ..clock import Clock
from ..timers import Timers

MOST_LINES: Final = 100
WINDOW_MS: Final = 10_000

_log = logging.getLogger(__name__)


class Rejections:
    """The lines of one processor, or of one listener's door."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._began_ms = -WINDOW_MS
        self._lines = 0
        self._unwritten = 0

    def warn(self, log: logging.Logger, text: str, *values: object, extra: dict[str, Any] | None = None) -> None:
        """Write a line to `log`, or count it."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._began_ms >= WINDOW_MS:
            self._count()
            self._began_ms, self._lines = now_ms, 0
        self._lines += 1
        if self._lines <= MOST_LINES:
            log.warning(text, *values, extra=extra)
            return
        if not self._unwritten:
            self._timers.after(self._began_ms + WINDOW_MS - now_ms, self._count)
        self._unwritten += 1

    def _count(self) -> None:
        if self._unwritten:
            seconds = WINDOW_MS // 1000
            _log.warning("%d more clients were refused or closed within %d s", self._unwritten, seconds)
            self._unwritten = 0
