"""The event loop of one simulated process: asyncio's own but for time, the order of callbacks and what is outside.

Connections are pairs in memory (network.py), threads are steps (process.py). A child process is steps, too, where it
runs a program that its parent has (`commands`: the cleaner of a broker). What cannot be simulated is refused by name:
TLS, other subprocesses, signals, sockets and files of the system.
"""

from __future__ import annotations

import asyncio
import io
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Protocol, TextIO

from .network import Host, Network
from .world import World

# What a program does with a line of its input.
Program = Callable[[str, TextIO], None]
_STDIN, _STDOUT = 0, 1
_KILLED = -9
# The process id of each child process: the system has none.
_PID = 2


class Owner(Host, Protocol):
    """The process of a loop."""

    network: Network
    # The modules that it may run in processes of their own.
    commands: dict[str, Program]

    @property
    def loop(self) -> SimulatedLoop: ...

    def thread_delay_s(self) -> float: ...

    def in_thread(self, work: Callable[[], Any], /) -> asyncio.Future[Any]: ...


class CannotBeSimulated(Exception):
    """The program uses what is not in the world: the text names it."""


class _Future(asyncio.Future[Any]):
    """A future with a hash that does not come from its address: sets of futures keep one order in every run."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    """A task with such a hash."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **more: Any) -> None:
        # The base class puts it in a set.
        self._number = number
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of a process. The world runs it: it has no `run_until_complete` of its own."""

    def __init__(self, world: World, process: Owner) -> None:
        super().__init__()
        self._world = world
        self.process = process
        self.is_busy = False
        self._due: deque[events.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []

    # Debug mode says where a callback was made, and how long it takes: neither means anything here. asyncio asks for
    # each future and each callback, and `bool()` answers without a frame.
    get_debug = bool  # pyright: ignore[reportAssignmentType]

    def time(self) -> float:
        return self._world.now_s

    # -- Run by the world

    def take(self, handle: events.Handle) -> None:
        """Take what came from outside, or a timer, as the next to do."""
        if self.process.is_alive and not handle._cancelled:  # pyright: ignore[reportPrivateUsage]
            self._due.append(handle)
            if not self.is_busy:
                self._world.note_busy(self)

    def reader(self, read: Callable[[], object]) -> events.Handle:
        """Return what is to be taken whenever a connection can be read, as of `add_reader`."""
        return events.Handle(read, (), self)

    def turn(self, callbacks: int) -> int:
        """Run so many callbacks, if there are so many, and the process lives. Return how many."""
        due, process, done = self._due, self.process, 0
        events._set_running_loop(self)
        try:
            while due and done < callbacks and process.is_alive:
                handle = due.popleft()
                done += 1
                if not handle._cancelled:  # pyright: ignore[reportPrivateUsage]
                    handle._run()  # pyright: ignore[reportPrivateUsage]
        finally:
            events._set_running_loop(None)
        if not process.is_alive:
            due.clear()
        self.is_busy = bool(due)
        return done

    def outside(self, work: Callable[[], Any]) -> Any:
        """Run a step of a thread: no loop runs in it."""
        before = events._get_running_loop()
        events._set_running_loop(None)
        try:
            return work()
        finally:
            events._set_running_loop(before)

    # -- What asyncio's programs call

    def _own_context(self, context: Context | None) -> Context | None:
        """Return the context of a callback: of this process where another one, or nobody, asks for it."""
        if context is not None or events._get_running_loop() is self:
            return context
        return self.process.context.copy()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> events.Handle:
        handle = events.Handle(callback, args, self, context or self._own_context(context))
        if self.process.is_alive:
            self._due.append(handle)
            if not self.is_busy:
                self._world.note_busy(self)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context or self._own_context(context))
        if self.process.is_alive:
            self._world.at(when, self.take, timer)
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self._world.now_ns / 1e9 + max(delay, 0), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Leave it: the world passes over it."""

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = self._world.next_number()
        return future

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None, **_: Any) -> Any:
        number = self._world.next_number()
        context = self._own_context(context)
        task = _Task(number, coro, loop=self, name=name or f"Task-{number}", context=context)
        self.tasks.append(task)
        if len(self.tasks) > 1000:
            self.tasks = [each for each in self.tasks if not each.done()]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        return self.process.in_thread(lambda: func(*args))

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(2, 1, 6, "", (host, port))]

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        _refuse_tls(options)
        return self.process.network.listen(self.process, protocol_factory, port, **options)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        _refuse_tls(options)
        if options.get("sock") is not None:
            raise CannotBeSimulated("a socket of the system")
        return await self.process.network.connect(self.process, protocol_factory, host, port)

    def run_until_complete(self, future: Any) -> Any:
        raise CannotBeSimulated("a loop that is run inside of the simulation")

    async def subprocess_exec(self, protocol_factory: Any, *command_line: Any, **_: Any) -> Any:
        program = self.process.commands.get(command_line[-1])
        if program is None:
            raise CannotBeSimulated("a subprocess")
        protocol = protocol_factory()
        command = Command(self.process, program, protocol)
        protocol.connection_made(command)
        return command, protocol

    async def subprocess_shell(self, *_: Any, **__: Any) -> Any:
        raise CannotBeSimulated("a subprocess")

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        raise CannotBeSimulated("a signal")

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise CannotBeSimulated("a file descriptor of the system")

    def add_writer(self, fd: Any, callback: Any, *args: Any) -> None:
        raise CannotBeSimulated("a file descriptor of the system")


def _refuse_tls(options: dict[str, Any]) -> None:
    if options.get("ssl"):
        raise CannotBeSimulated("TLS")


# -- A child process: a program that reads lines from its input and writes lines to its output. The work that a line
# asks for is one step, at a time that the seed draws. What it writes arrives line by line.


class Command(asyncio.SubprocessTransport):
    """The command as asyncio's subprocesses see it."""

    def __init__(self, parent: Owner, program: Program, protocol: asyncio.SubprocessProtocol) -> None:
        super().__init__()
        self._parent, self._program, self._protocol = parent, program, protocol
        self._input = _Input(self._take, self.kill, lambda: parent.is_alive)
        self._code: int | None = None
        self._ended = parent.loop.create_future()
        # When its last line of output arrives.
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
