"""Lines of a child process, read by a thread, so that waiting for one has a time limit."""

from __future__ import annotations

import queue
import select
import subprocess
import threading
from typing import AnyStr

from odradek.tests.support.waiting import WITHIN_S


def first_line(process: subprocess.Popen[AnyStr]) -> AnyStr:
    """Return the first line of a process that may say nothing. Its standard output stays the caller's."""
    assert process.stdout
    assert select.select([process.stdout], [], [], WITHIN_S)[0], "it says nothing"
    return process.stdout.readline()


class Lines:
    """The standard output of a process, line by line. After the end, each further line is ""."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self._stream = process.stdout
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stream:
            self._lines.put(line)
        self._lines.put("")

    def next(self, within_s: float) -> str | None:
        """Return the next line, "" at the end, None if none comes in time."""
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            return None
        if line == "":
            self._lines.put("")
        return line

    def rest(self) -> list[str]:
        """Return the remaining lines of a process that has ended, and close its standard output."""
        self._reader.join(WITHIN_S)
        assert not self._reader.is_alive(), "somebody else has its standard output open"
        lines: list[str] = []
        while line := self.next(0):
            lines.append(line)
        self._stream.close()
        return lines
