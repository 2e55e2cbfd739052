"""The life of an asyncio client, and the end of its tasks.

A start or a stop that several tasks ask for happens once, and all of them wait for its end: of several limits of a stop
the earliest holds. A stop ends a start that is under way. Code of the user that a stop waits for, such as a rebalance
listener, may ask for the stop as well: it gets no end to wait for, because that end waits for it.

Tasks end in three ways: a stop cancels them, callers share them, or a cancellation must not cut them in half.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from ..errors import ClientStopped, ErrorCode, KafkaError, WrongEventLoop
from .options import KnowsOtherNames

Step = Callable[[], Awaitable[object]]

# The stops that wait for the code that runs now.
_stops_around: ContextVar[frozenset[object]] = ContextVar("stops around", default=frozenset())


class Lifetime:
    """Starts and stops one client, such as "producer"."""

    def __init__(self, client: str) -> None:
        self._client = client
        # Held by the start or the stop that is under way.
        self._lock = asyncio.Lock()
        # The loop of the start, until the end of the stop.
        self._loop: asyncio.AbstractEventLoop | None = None
        # Whether the user knows that the loop has ended before the client.
        self._is_over = False
        # What ends the start, or the first part of the stop, that is under way.
        self._limit: asyncio.Timeout | None = None
        # What `_stops_around` has while a stop is under way.
        self._stop: object | None = None

    async def start(self, work: Step) -> None:
        """Do `work`, if the client is not started. Raises ClientStopped if it is stopped meanwhile, WrongEventLoop."""
        async with self._lock:
            if self._loop is not None:
                self.check_loop()
                return
            self._loop = asyncio.get_running_loop()
            limit = asyncio.timeout(None)
            try:
                async with limit as self._limit:
                    await work()
            except BaseException as error:
                self._loop = None
                if isinstance(error, TimeoutError) and limit.expired():
                    raise ClientStopped(f"the {self._client} was stopped while it started") from None
                raise
            finally:
                self._limit = None

    async def stop(self, close: Step, finish: Step | None = None, limit_ms: float | None = None) -> bool:
        """Do `finish` within `limit_ms`, then `close` in any case. Return False if the limit cut `finish` short.

        Nothing happens to a client that is not started. Raises WrongEventLoop, and what the two raise.
        """
        if not self._is_started() or self._stop in _stops_around.get():
            return True
        self._check_loop_to_stop()
        self._hurry(limit_ms)
        async with self._lock:
            return not self._is_started() or await self._stop_once(close, finish, limit_ms)

    def _is_started(self) -> bool:
        return self._loop is not None

    def _check_loop_to_stop(self) -> None:
        """Raise WrongEventLoop. Nothing of a client whose loop has ended can be closed any more."""
        try:
            self.check_loop()
        except WrongEventLoop:
            if self._loop is not None and self._loop.is_closed():
                self._is_over = True
            raise

    def _hurry(self, limit_ms: float | None) -> None:
        """End a start that is under way, and a stop within the limit."""
        limit = self._limit
        if limit is None or limit.expired():
            return
        now = asyncio.get_running_loop().time()
        if self._stop is None:
            limit.reschedule(now)
        elif limit_ms is not None:
            when = limit.when()
            limit.reschedule(now + limit_ms / 1000 if when is None else min(when, now + limit_ms / 1000))

    async def _stop_once(self, close: Step, finish: Step | None, limit_ms: float | None) -> bool:
        stop = self._stop = object()
        _stops_around.set(_stops_around.get() | {stop})
        limit = asyncio.timeout(None if limit_ms is None else limit_ms / 1000)
        try:
            if finish is not None:
                async with limit as self._limit:
                    await finish()
            return True
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        finally:
            self._limit = None
            try:
                await close()
            finally:
                # Not by a token: a stop that its loop has not ended is closed by the collector, in any context.
                _stops_around.set(_stops_around.get() - {stop})
                self._loop = self._stop = None

    def check_loop(self) -> None:
        """Raise WrongEventLoop if the client was started in another event loop than the one that runs now."""
        if self._loop is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            return
        what = "was started in another event loop: call it there, or use odradek.client.blocking in threads"
        if self._loop.is_closed():
            what = "was not stopped before its event loop ended: make one in each loop, with `async with`"
        raise WrongEventLoop(f"the {self._client} {what}")

    def __del__(self) -> None:
        if self._loop is not None and not self._is_over:
            text = f"a {self._client} was not stopped: use `async with`, or await stop() before the event loop ends"
            warnings.warn(text, ResourceWarning, stacklevel=1, source=self)


class StartedClient(KnowsOtherNames):
    """A client that is started and stopped: by its user, or by `async with`."""

    _lifetime: Lifetime

    async def start(self) -> None:
        """Reach the cluster; joining a group continues in the background.

        Raises ConnectionLost, which is NoBrokerReachable if no bootstrap server responds.
        """
        await self._lifetime.start(self._start)

    async def stop(self) -> None:
        """Close the connections; may be called again."""
        await self._lifetime.stop(self._close)

    async def _start(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.stop()


T = TypeVar("T")

_log = logging.getLogger(__name__)

# A task of the client ends at once. One that runs the user's code may take its time, and a stop must not.
_PATIENCE_S = 0.2


class CancelledInside(Exception):
    """Code of the user raised CancelledError, and nobody had cancelled the task that runs it."""


async def end_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended. A task that goes on is left alone, with a line in the log."""
    for task in tasks:
        task.cancel()
    pending = (await asyncio.wait(tasks, timeout=_PATIENCE_S))[1] if tasks else set[asyncio.Task[Any]]()
    for task in pending:
        why = "the task %r still runs %g s after its cancellation; nobody waits for it any longer"
        _log.warning(why, task.get_name(), _PATIENCE_S)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved: nobody else asks for it


def broken_task(task: asyncio.Task[Any], what: str) -> KafkaError | None:
    """Return why a task of a running client has ended, None if it has returned.

    The client cancels it with its stop alone. Another cancellation comes with the end of the event loop, or from a
    program that cancels all tasks.
    """
    if task.cancelled():
        return ClientStopped(f"{what} was cancelled: the program cancelled all tasks, or its event loop has ended")
    error = task.exception()
    if error is None:
        return None
    failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what} broke: {error!r}")
    failure.__cause__ = error
    return failure


async def of_the_user(call: Awaitable[T]) -> T:
    """Return the result of a call of the user's code.

    Raises CancelledInside where it raises CancelledError and nobody has cancelled this task: it awaited something that
    was cancelled, and the task of the client that runs it would end without a word.
    """
    try:
        return await call
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CancelledInside("it awaited something that was cancelled") from error


async def without_cancelling(future: asyncio.Future[T]) -> T:
    """Return the result of a future that goes on where the caller is cancelled. Nobody is told of its error then.

    `asyncio.shield` does the same, but logs that error from Python 3.14 on.
    """
    try:
        if not future.done():
            await asyncio.wait((future,))
    except asyncio.CancelledError:
        future.add_done_callback(retrieve)
        raise
    return future.result()


def retrieve(future: asyncio.Future[Any]) -> None:
    """Mark a future's exception as retrieved, so that asyncio does not warn of it."""
    if not future.cancelled():
        future.exception()


async def shared(task: asyncio.Task[T]) -> T:
    """Return the result of a task that other callers may wait for, too: a caller that is cancelled leaves it running.

    Raises ClientStopped if the stop of the client has cancelled the task: its caller was not cancelled.
    """
    try:
        return await without_cancelling(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and caller is not None and not caller.cancelling():
            raise ClientStopped("this client was stopped") from None
        raise


async def to_the_end(work: Coroutine[Any, Any, None], name: str) -> None:
    """Finish `work`, such as closing, although the caller is cancelled meanwhile; then raise the cancellation.

    `work` must end soon by itself.
    """
    task = asyncio.create_task(work, name=name)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    task.result()
    if cancellation is not None:
        raise cancellation
