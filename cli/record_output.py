"""Standard output for records: written without blocking the event loop, and watched for a reader that goes away.

A slow reader must not stop the heartbeats of a group. A reader that has closed its pipe must end the command even if no
record ever comes again.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from array import array

# POSIX promises that a pipe which polls as writable takes this many bytes without blocking.
_PIPE_BYTES = select.PIPE_BUF
_FILE_BYTES = 1 << 20


class RecordOutput:
    """Writes bytes to a descriptor. `stop` is set when the reader of a pipe goes away, and ends a write that waits."""

    def __init__(self, fd: int, stop: asyncio.Event) -> None:
        kind = os.fstat(fd).st_mode
        self.is_pipe = stat.S_ISFIFO(kind)
        self.is_closed = False
        self._fd = fd
        self._stop = stop
        self._is_file = stat.S_ISREG(kind)
        self._written = 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        if self.is_pipe:
            # The write end of a pipe is never readable: the callback means that the reader has gone.
            asyncio.get_running_loop().add_reader(fd, self._close)

    async def write(self, data: bytes) -> None:
        """Write all of `data`, unless `stop` is set meanwhile."""
        view = memoryview(data)
        size = _FILE_BYTES if self._is_file else _PIPE_BYTES
        while view and not self.is_closed and await self._writable():
            try:
                count = os.write(self._fd, view[:size])
            except BrokenPipeError:
                self._close()
                return
            self._written += count
            view = view[count:]

    def taken_bytes(self) -> int:
        """Return how many of the written bytes the reader of the pipe has taken out."""
        if not self.is_pipe:
            return self._written
        import fcntl
        import termios

        unread = array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, unread)
        return self._written - unread[0]

    async def _writable(self) -> bool:
        """Wait until a write does not block. Return False if `stop` is set first."""
        if self._is_file or self._poll.poll(0):
            return True
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._fd, ready.set)
        waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_writer(self._fd)
            for each in waits:
                each.cancel()
        return ready.is_set()

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        self.is_closed = True
        self._stop.set()
