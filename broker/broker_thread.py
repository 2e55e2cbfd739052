"""The thread in which a broker serves a program that has no event loop, such as a test or a notebook.

`with Broker(config) as broker:` runs the broker's loop here, so that blocking clients of the program reach it. The
thread never outlives its program: at the interpreter's exit it stops the broker, if nobody did before.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import wait
from contextlib import suppress
from typing import Any, TypeVar

R = TypeVar("R")

# A thread that runs on after this has lost its stop: the broker gives up on clients and on the disk sooner.
STOPPED_WITHIN_S = 15.0
# How often a call looks whether the thread still runs.
_LOOK_AGAIN_S = 1.0


class StopError(Exception):
    """The broker's thread did not end in time, so the broker may still run."""


class BrokerThread:
    """A thread with an event loop that runs `start`, waits for `stop`, and runs `end`.

    `start` must leave nothing behind where it fails.
    """

    def __init__(self, start: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[None]]) -> None:
        self._start_broker = start
        self._end_broker = end
        self._settled = threading.Event()
        self._failure: BaseException | None = None
        # Made in the thread before `_settled` is set.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        # A daemon: an ordinary thread would keep the interpreter from coming to its exit handlers.
        self._thread = threading.Thread(target=self._run, name="odradek-broker", daemon=True)

    def start(self) -> None:
        """Start the broker and return once it serves. Raises the errors of its start."""
        atexit.register(self.stop)
        self._thread.start()
        try:
            self._settled.wait()
        except BaseException:  # Ctrl-C: the caller gets no broker to stop
            self.stop()
            raise
        if self._failure is not None:
            self.stop()

    def stop(self) -> None:
        """Stop the broker and wait for the thread's end. Idempotent. Raises the errors of its stop.

        StopError if the thread does not end in time.
        """
        atexit.unregister(self.stop)
        if self._thread.ident is None:
            return
        self._settled.wait(STOPPED_WITHIN_S)
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # a thread that is about to end has closed its loop
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOPPED_WITHIN_S)
        if self._thread.is_alive():
            raise StopError(f"the broker's thread did not end within {STOPPED_WITHIN_S:g} s")
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run `work` on the broker's loop, and return its result or raise its error. Not for the loop's own thread.

        StopError if the thread has ended.
        """
        if self._loop is None or not self._thread.is_alive():
            raise StopError("the broker's thread has ended")
        coroutine = work()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:  # its loop is closed
            coroutine.close()
            raise StopError("the broker's thread has ended") from error
        # A loop that ends meanwhile leaves the future as it is.
        while not wait([future], _LOOK_AGAIN_S).done and self._thread.is_alive():
            pass
        if not future.done():
            raise StopError("the broker's thread ended before it had done its work")
        return future.result()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._failure = error
        finally:
            self._settled.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await self._start_broker()
        self._settled.set()
        try:
            await self._stopping.wait()
        finally:
            await self._end_broker()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        from uvloop import new_event_loop
    except ImportError:  # not on every platform; asyncio's own loop is slower
        from asyncio import new_event_loop
    return new_event_loop()
