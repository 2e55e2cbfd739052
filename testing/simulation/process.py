"""A simulated process: its loop, clocks, threads and randomness. It can be killed, paused and started again.

What a killed process has begun never goes on: its callbacks, timers and threads are gone, its descriptors point
nowhere, and its connections are reset. Its coroutines are kept until the end, because their `finally` would still act.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from random import Random
from typing import Any

from ...broker import clock as broker_clock
from ...broker import turns
from ...client.core import clock as client_clock
from ...client.core import randomness as client_randomness
from .loop import Program, SimulatedLoop
from .network import Network
from .world import EPOCH_MS, World

# A broker that stops waits longer for its disk.
_LONGEST_FSYNC_S = 8.0


class Clocks(broker_clock.Clock, client_clock.Clock):
    """The clocks of one machine: the wall clock may be wrong, and jump."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self._world.now_ns // 1_000_000 + self.ahead_ms

    def wall_clock_ms(self) -> int:
        return self.now_ms()

    def monotonic_ms(self) -> int:
        return self._world.now_ns // 1_000_000

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        return self._look

    def _look(self) -> int:
        """Return the time, which goes on whenever somebody looks: slices end, too."""
        self._world.now_ns += 1_000
        return self._world.now_ns


class Process:
    """One process on a host, from its start to its end."""

    def __init__(self, world: World, network: Network, host: str, clocks: Clocks | None = None) -> None:
        self.world, self.network, self.host = world, network, host
        self.number = world.next_number()
        self.clocks = clocks or Clocks(world)
        self.is_alive = self.is_powered = True
        self.commands: dict[str, Program] = {}
        # By how much its threads are slower than usual, and by how much its fsyncs are slower still.
        self.slowness = 1.0
        self.fsync_slowness: Callable[[], float] = lambda: 1.0
        self._chance = world.random(f"threads {host} {self.number}")
        self.context: Context = copy_context()
        self.context.run(self._set_doors, world.random(f"ids {host} {self.number}"))
        self.loop = SimulatedLoop(world, self)
        self.loop.set_exception_handler(self._note_error)
        self.errors: list[str] = []

    def _set_doors(self, source: Random) -> None:
        broker_clock.drawn_from(source)
        client_randomness.drawn_from(source)
        client_clock.use(self.clocks)

    def _note_error(self, _: Any, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def start(self, coro: Coroutine[Any, Any, Any], name: str = "main") -> asyncio.Task[Any]:
        """Begin a coroutine in this process."""
        return self.loop.create_task(coro, name=name, context=self.context.copy())

    def run(self, coro: Coroutine[Any, Any, Any], within_s: float = 3600.0) -> Any:
        """Run the world until a coroutine in this process has its result. Raises NothingLeft, TooLate."""
        task = self.start(coro)
        self.world.run_until(task.done, within_s)
        return task.result()

    # -- Threads

    def new_pool(self, name: str, size: int) -> SimulatedPool:
        """Return what a broker has in the place of a pool of threads."""
        return SimulatedPool(self, size, is_fsync=name.endswith("fsync"))

    def in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run work as `run_in_executor` does."""
        future = self.loop.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            if not future.done():
                future.set_result(result) if error is None else future.set_exception(error)

        def run() -> None:
            try:
                result, error = work(), None
            except Exception as raised:  # noqa: BLE001 - passed on to the future
                result, error = None, raised
            self.loop.call_soon_threadsafe(finish, result, error)

        SimulatedPool(self, 1).submit(run)
        return future

    def thread_delay_s(self) -> float:
        """Draw how long a thread waits before its step: for the processor, or the disk."""
        draw = self._chance.random()
        return (self._chance.uniform(0.002, 0.05) if draw > 0.97 else draw * 0.0005) * self.slowness

    # -- The end

    def pause(self) -> None:
        """Stop the process (SIGSTOP)."""
        self.world.paused.add(self.loop)

    def go_on(self) -> None:
        """Let it go on (SIGCONT)."""
        self.world.paused.discard(self.loop)

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped."""
        return self.loop in self.world.paused

    def kill(self) -> None:
        """End the process (SIGKILL). Others hear of it."""
        self._end()
        self.network.drop_all(self)

    def cut_power(self) -> None:
        """End the process with its machine: nobody hears of it before `boot`."""
        self._end()
        self.is_powered = False

    def boot(self) -> None:
        """Have the machine run again, without this process: its kernel knows none of its connections."""
        if not self.is_powered:
            self.is_powered = True
            self.network.drop_all(self)
            self.network.heal()

    def _end(self) -> None:
        self.is_alive = False
        self.go_on()

    def discard(self) -> None:
        """Close what the process has left, at the end of the world. Nothing that it does then counts."""
        self.is_alive = False
        events._set_running_loop(self.loop)
        try:
            for task in self.loop.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with suppress(BaseException):
                        coro: Any = task.get_coro()
                        coro.close()
        finally:
            events._set_running_loop(None)
        self.loop.close()
        turns.forget(self.loop)


class SimulatedPool:
    """Threads whose work is one step each, at a time that the seed draws."""

    def __init__(self, process: Process, size: int, *, is_fsync: bool = False) -> None:
        self._process, self._size, self._is_fsync = process, size, is_fsync
        self._queue: deque[Callable[[], None]] = deque()
        self._running = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` in one of the threads, in the order of the calls."""
        if self._running == self._size:
            self._queue.append(work)
        else:
            self._running += 1
            self._begin(work)

    def _begin(self, work: Callable[[], None]) -> None:
        process = self._process
        context = process.context.copy()
        delay_s = process.thread_delay_s()
        if self._is_fsync:
            delay_s = min(delay_s * process.fsync_slowness(), _LONGEST_FSYNC_S)
        process.loop.call_at(process.world.now_s + delay_s, self._step, work, context=context)

    def _step(self, work: Callable[[], None]) -> None:
        self._process.loop.outside(work)
        if self._queue:
            self._begin(self._queue.popleft())
        else:
            self._running -= 1

    def close(self) -> None:
        """Leave: work that is queued is still run."""
