"""Standard input as lines: read in a thread, cut at line feeds, bounded in memory.

A thread reads, so that a line can be sent at once and does not wait for the next one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError

from .errors import CliError

_READ_BYTES = 256 * 1024
# Reads that may wait to be sent. With the producer's buffer, they bound the memory when the broker is slower.
_READS_AHEAD = 16
# A line is held in memory until its end. The topic's max.message.bytes decides which lines the broker accepts.
MAX_LINE_BYTES = 64 << 20


class LineCutter:
    """Cuts bytes into lines, however they come. `count` is for the caller: how many lines were sent."""

    def __init__(self) -> None:
        self.count = 0
        # The pieces of a line whose end has not come.
        self._open: list[bytes] = []
        # Invariant: the size of these pieces, at most MAX_LINE_BYTES.
        self._open_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`."""
        first, *rest = data.split(b"\n")
        self._open.append(first)
        self._open_bytes += len(first)
        whole: list[bytes] = []
        if rest:
            last = rest.pop()
            rest.insert(0, b"".join(self._open))
            whole = rest
            self._open, self._open_bytes = [last], len(last)
        if self._open_bytes > MAX_LINE_BYTES or (whole and len(whole[0]) > MAX_LINE_BYTES):
            number = self.count + (1 if whole and len(whole[0]) > MAX_LINE_BYTES else len(whole) + 1)
            raise CliError(f"line {number} is longer than {MAX_LINE_BYTES >> 20} MiB; {self.sent_text()}")
        return whole

    def end(self) -> list[bytes]:
        """Return the last line, if the input does not end with a line feed."""
        rest, self._open = b"".join(self._open), []
        return [rest] if rest else []

    def sent_text(self) -> str:
        """Return what is known of the lines before an error: all of them were acknowledged."""
        if not self.count:
            return "nothing was sent"
        return "line 1 was sent" if self.count == 1 else f"lines 1 to {self.count} were sent"


async def chunks(fd: int) -> AsyncIterator[bytes]:
    """Yield the bytes of `fd` as they come. Reads that came together are joined.

    The thread is a daemon: an input without an end, such as a terminal, must not keep the command from ending.
    """
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_READS_AHEAD)
    loop = asyncio.get_running_loop()

    def put(item: bytes | OSError) -> bool:
        """Put an item into the queue, and wait for room. Return False if the command has ended meanwhile."""
        putting = queue.put(item)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except (RuntimeError, CancelledError):
            putting.close()
            return False
        return True

    def pump() -> None:
        data = b"?"
        while data:
            try:
                data = os.read(fd, _READ_BYTES)
            except OSError as error:
                put(error)
                return
            if not put(data):
                return

    threading.Thread(target=pump, name="standard input", daemon=True).start()
    while True:
        parts = [await queue.get()]
        while not queue.empty():
            parts.append(queue.get_nowait())
        data: list[bytes] = []
        for part in parts:
            if isinstance(part, OSError):
                raise CliError(f"cannot read standard input: {part.strerror}") from part
            data.append(part)
        yield b"".join(data)
        if not data[-1]:
            return
