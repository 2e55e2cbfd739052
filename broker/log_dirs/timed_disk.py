"""The disk of a running broker: it logs each write that takes a second or more, with the file and the time.

A write goes to the page cache, which takes microseconds. Where the system has no room for more unwritten pages, or the
disk hangs, a write waits, and most writes happen on the event loop: meanwhile no client gets an answer. The watchdog
logs that the loop is held; this tells which file was written, how large the write was and how long it took. Writes from
a millisecond on are lines of level DEBUG.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path

from ...storage.files import Disk

SLOW_S = 1.0
# At most one write is reported in this time. The next report counts those between.
REPORT_INTERVAL_S = 10.0

_log = logging.getLogger(__name__)


class TimedDisk(Disk):
    """The real file system, with an eye on the clock."""

    def __init__(self) -> None:
        self._reported_s = -math.inf
        self._unreported = 0

    def waited(self, path: Path, size: int, took_s: float) -> None:
        """Log a slow write."""
        if took_s < SLOW_S:
            _log.debug("a write of %d bytes to %s took %.1f ms", size, path, took_s * 1000)
            return
        now_s = self.now_s()
        if now_s - self._reported_s < REPORT_INTERVAL_S:
            self._unreported += 1
            return
        before = f"; {self._unreported} more since the last report" if self._unreported else ""
        text = "a write of %d bytes to %s took %.1f s: the disk is slow or has too much to write%s"
        _log.warning(text, size, path, took_s, before)
        self._reported_s, self._unreported = now_s, 0
