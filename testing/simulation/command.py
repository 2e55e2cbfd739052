"""A child process of a simulated broker: a program that reads lines from its input and writes lines to its output.

The work that a line asks for is one step, at a time that the seed draws. What it writes arrives line by line.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TextIO

# What a program does with a line of its input.
Program = Callable[[str, TextIO], None]
_STDIN, _STDOUT = 0, 1
_KILLED = -9
# Nobody asks the system about it.
_PID = 2


class Parent(Protocol):
    """The process that has begun a command."""

    is_alive: bool

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def thread_delay_s(self) -> float: ...

    def in_thread(self, work: Callable[[], Any], /) -> asyncio.Future[Any]: ...


class Command(asyncio.SubprocessTransport):
    """The command as asyncio's subprocesses see it."""

    def __init__(self, parent: Parent, program: Program, protocol: asyncio.SubprocessProtocol) -> None:
        super().__init__()
        self._parent, self._program, self._protocol = parent, program, protocol
        self._input = _Input(self._take, self.kill, lambda: parent.is_alive)
        self._code: int | None = None
        self._ended = parent.loop.create_future()
        # When the last line that it has said comes.
        self._said_s = 0.0

    def get_pid(self) -> int:
        return _PID

    def get_returncode(self) -> int | None:
        return self._code

    def get_pipe_transport(self, fd: int) -> Any:
        return {_STDIN: self._input, _STDOUT: _Output()}.get(fd)

    async def _wait(self) -> int | None:
        """Wait for the end. asyncio's Process calls it."""
        await asyncio.wait([self._ended])
        return self._code

    def kill(self) -> None:
        """End it. It is between two steps: what it has written stays."""
        if self._code is None:
            self._code = _KILLED
            self._parent.loop.call_soon(self._end)

    def close(self) -> None:
        self.kill()

    def _end(self) -> None:
        for fd in (_STDIN, _STDOUT):
            self._protocol.pipe_connection_lost(fd, None)
        self._protocol.process_exited()
        self._ended.set_result(None)

    def _take(self, line: str) -> None:
        self._parent.in_thread(partial(self._work, line)).add_done_callback(self._tell)

    def _work(self, line: str) -> str:
        out = io.StringIO()
        if self._code is None:
            self._program(line, out)
        return out.getvalue()

    def _tell(self, done: asyncio.Future[str]) -> None:
        loop = self._parent.loop
        for each in done.result().splitlines(keepends=True):
            self._said_s = max(self._said_s, loop.time() + self._parent.thread_delay_s())
            loop.call_at(self._said_s, self._say, each.encode())

    def _say(self, data: bytes) -> None:
        if self._code is None:
            self._protocol.pipe_data_received(_STDOUT, data)


class _Input(asyncio.WriteTransport):
    """The input of a command, which ends with it."""

    def __init__(self, take: Callable[[str], None], end: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        super().__init__()
        self._take, self._end, self._is_wanted = take, end, is_wanted
        self._text, self._is_closing = b"", False

    def write(self, data: Any) -> None:
        *lines, self._text = (self._text + bytes(data)).split(b"\n")
        for each in lines:
            self._take(each.decode())

    def is_closing(self) -> bool:
        return self._is_closing or not self._is_wanted()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end()


class _Output(asyncio.ReadTransport):
    """The output of a command: what comes is taken at once."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...
