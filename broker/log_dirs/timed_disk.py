"""The disk of a running broker: it logs each write that takes a second or more, with the file and the time.

A write goes to the page cache, which takes microseconds. Where the system has no room for more unwritten pages, or the
disk hangs, a write waits, and most writes happen on the event loop: meanwhile no client gets an answer. The watchdog
logs that the loop is held; this tells which file was written, how large the write was and how long it took. Writes from
a millisecond on are lines of level DEBUG, and are counted: the broker says how many there were when it stops.
"""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path

from ...storage.files import Disk

SLOW_S = 1.0
# At most one write is reported in this time. The next report counts those between.
REPORT_INTERVAL_S = 10.0
# Slow writes are counted from each of these on. The first is that of `Disk.waited`.
COUNTED_FROM_MS = (1, 5, 50)

_log = logging.getLogger(__name__)


class TimedDisk(Disk):
    """The real file system, with an eye on the clock."""

    def __init__(self) -> None:
        self._reported_s = -math.inf
        self._unreported = 0
        self._longest_s = 0.0
        self._counts = dict.fromkeys(COUNTED_FROM_MS, 0)
        # Threads write, too.
        self._lock = threading.Lock()

    def waited(self, path: Path, size: int, took_s: float) -> None:
        """Count a slow write, and log it."""
        with self._lock:
            self._longest_s = max(self._longest_s, took_s)
            for each in COUNTED_FROM_MS:
                self._counts[each] += took_s * 1000 >= each
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

    def report_waits(self) -> None:
        """Log how many writes took long, if any did."""
        if self._longest_s:
            counts = ", ".join(f"{count} took {each} ms or more" for each, count in self._counts.items())
            _log.info("of all writes %s; the longest took %.1f ms", counts, self._longest_s * 1000)
