"""The life of an asyncio client: from one start to one stop in one event loop, however many tasks ask for them.

A start or a stop that several tasks ask for happens once, and all of them wait for its end: of several limits of a stop
the earliest holds. A stop ends a start that is under way. Code of the user that a stop waits for, such as a rebalance
listener, may ask for the stop as well: it gets no end to wait for, because that end waits for it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from ..errors import ClientStopped, WrongEventLoop

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
        self._stop = object()
        around = _stops_around.set(_stops_around.get() | {self._stop})
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
                _stops_around.reset(around)
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
