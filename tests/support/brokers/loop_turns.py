"""A broker on an event loop of its own that measures how long each turn holds the loop."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from odradek.broker import Broker, BrokerConfig
from odradek.broker.clock import Clock
from odradek.protocol.apis import AnyKey, message
from odradek.protocol.schema import Message
from odradek.storage.files import DISK, Disk
from odradek.tests.support.clients.raw import Raw

Result = TypeVar("Result")
# A bound for a response that never comes: how long one takes depends on what else the machine does.
WAIT_S = 300
# The keeper of slices believes that the machine is so many times slower.
SLOWER = 3
# `make soak`, on a machine of its own, holds every turn to the 50 ms that are promised, on the slower machine. Beside
# other work the same turn takes several times as long, because caches and cores are shared: then turns are measured as
# they are, and only the slices are those of the slower machine.
LIMIT_MS = int(os.environ.get("ODRADEK_TURN_MS", "100"))
MEASURED_SLOWER = SLOWER if "ODRADEK_TURN_MS" in os.environ else 1


class SlowClock(Clock):
    """The real clock, but for slices: they are as short as they must be on a slower machine."""

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        return lambda: SLOWER * time.monotonic_ns()


class MeasuringSelector(selectors.DefaultSelector):
    """A selector that measures the CPU time of the loop's thread between two calls, so other processes do not count.

    Python's collections do not count either: the time of one depends on all objects of the process, and this process
    has the client too. docs/limits.md says what they cost a broker.
    """

    longest_s = 0.0
    _began_s: float | None = None
    _collecting_s = 0.0
    _thread_id = 0

    def forget(self) -> None:
        """Forget the turns so far."""
        self.longest_s = 0.0

    def note_collection(self, phase: str, _: dict[str, int]) -> None:
        """Move the beginning of the turn by the time of a collection in this thread."""
        if self._began_s is None or threading.get_ident() != self._thread_id:
            return
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._began_s += time.thread_time() - self._collecting_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._began_s is not None:
            self.longest_s = max(self.longest_s, time.thread_time() - self._began_s)
        ready = super().select(timeout)
        self._began_s, self._thread_id = time.thread_time(), threading.get_ident()
        return ready


class MeasuredBroker:
    """A running broker. `longest_turn_ms` is the longest turn since the last `begin`, by MEASURED_SLOWER."""

    def __init__(self, broker: Broker, selector: MeasuringSelector) -> None:
        self.address = broker.address
        self.broker = broker
        self._selector = selector
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """Forget the turns so far, also the one that has sent a response just now and may not have ended."""
        self.run(self._selector.forget)

    def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns on the broker's loop."""
        done: Future[Result] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(work()))
        return done.result(WAIT_S)

    async def exchange(self, key: AnyKey, version: int, request: Message) -> bool:
        """Begin, send a request and return whether it was answered; otherwise the connection was closed."""
        async with await Raw.connect(self.address, WAIT_S) as raw:
            self.begin()
            raw.send(key, version, request)
            try:
                await raw.receive(key, version)
            except (asyncio.IncompleteReadError, ConnectionError):
                return False
            return True

    async def warm_up(self, key: AnyKey, version: int) -> None:
        """Send a small request: the first one of an API makes its codecs and imports its handler."""
        request = message(key, "request")()
        if hasattr(request, "acks"):
            request.acks = 1
        await self.exchange(key, version, request)

    @property
    def longest_turn_ms(self) -> int:
        # The turn that has sent a response may not have ended yet.
        self.run(lambda: None)
        return round(self._selector.longest_s * MEASURED_SLOWER * 1000)


@contextmanager
def measured_broker(config: BrokerConfig, disk: Disk = DISK) -> Generator[MeasuredBroker]:
    """Run a broker in a thread. Python's collector skips older objects, because its passes would be long turns."""
    selector = MeasuringSelector()
    loop = asyncio.SelectorEventLoop(selector)
    stop = asyncio.Event()
    started: list[MeasuredBroker] = []
    ready = threading.Event()

    async def main() -> None:
        async with Broker(config, clock=SlowClock(), disk=disk) as broker:
            started.append(MeasuredBroker(broker, selector))
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(main())
        finally:
            ready.set()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    gc.collect()
    gc.freeze()
    gc.callbacks.append(selector.note_collection)
    thread = threading.Thread(target=run, name="measured-broker")
    thread.start()
    try:
        assert ready.wait(WAIT_S)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the broker does not stop"
        gc.callbacks.remove(selector.note_collection)
