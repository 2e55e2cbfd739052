"""The disk of a running broker: it logs each write that takes a second or more, with the file and the time.

A write goes to the page cache, which takes microseconds. Where the system has no room for more unwritten pages, or the
disk hangs, a write waits, and most writes happen on the event loop: meanwhile no client gets an answer. The watchdog
logs that the loop is held; this tells which file was written, how large the write was and how long it took.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ...storage.files import Buffer, Disk, File
from ..clock import Clock

SLOW_MS = 1000
# At most one write is reported in this time. The next report counts those between.
REPORT_INTERVAL_MS = 10_000

_log = logging.getLogger(__name__)


class TimedDisk(Disk):
    """The real file system, with an eye on the clock."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic_ms = clock.monotonic_ms
        self._reported_ms: int | None = None
        self._unreported = 0

    def write(self, file: File, data: Buffer, position: int) -> None:
        began_ms = self._monotonic_ms()
        try:
            super().write(file, data, position)
        finally:
            took_ms = self._monotonic_ms() - began_ms
            if took_ms >= SLOW_MS:
                self._report(file.path, len(data), took_ms, began_ms + took_ms)

    def _report(self, path: Path, size: int, took_ms: int, now_ms: int) -> None:
        if self._reported_ms is not None and now_ms - self._reported_ms < REPORT_INTERVAL_MS:
            self._unreported += 1
            return
        before = f"; {self._unreported} more since the last report" if self._unreported else ""
        text = "a write of %d bytes to %s took %.1f s: the disk is slow or has too much to write%s"
        _log.warning(text, size, path, took_ms / 1000, before)
        self._reported_ms, self._unreported = now_ms, 0
