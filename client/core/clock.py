"""Time in the client: clocks, waits with a limit, and retries with the pauses before them.

Pauses are those of Kafka's clients (KIP-580): the first is `retry_backoff_ms`, each further one twice as long, up to
`retry_backoff_max_ms`. A random factor of 0.8 to 1.2 spreads the retries of many clients.

Retriable errors (a full disk, too few replicas in sync, a coordinator that is away) are retried until a time-out that
may be minutes away. After a second a warning names the error: without it a program that waits would not say why. There
is one line until none of what failed is retried any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from ...protocol.errors import KafkaError
from ..errors import RequestTimedOut
from .randomness import jitter

T = TypeVar("T")
log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JITTER = 0.2
# More doublings change nothing: 2**16 times the shortest pause is past any cap.
_MAX_DOUBLINGS = 16
# A shorter failure, as while a leader moves, is not worth a line.
_SAID_AFTER_S = 1.0
# What is retried fails again before this. What does not has been given up, as a partition that was revoked.
_RETRIED_WITHIN_S = 120.0


class Clock:
    """The clocks of a simulated machine. `use` holds for what runs in the present context."""

    def monotonic_ms(self) -> float:
        """Return a clock that only goes forward, in milliseconds."""
        raise NotImplementedError

    def wall_clock_ms(self) -> int:
        """Return the milliseconds since 1970 UTC."""
        raise NotImplementedError


# None: the clocks of this machine.
_given: ContextVar[Clock | None] = ContextVar("clock", default=None)


def use(clock: Clock) -> None:
    """Have the present context, and what it starts, take the time from `clock`."""
    _given.set(clock)


def monotonic_ms() -> float:
    """Return a clock that only goes forward, in milliseconds; for time-outs and pauses."""
    given = _given.get()
    return time.monotonic() * 1000 if given is None else given.monotonic_ms()


def wall_clock_ms() -> int:
    """Return the milliseconds since 1970 UTC; for timestamps of records."""
    given = _given.get()
    return time.time_ns() // 1_000_000 if given is None else given.wall_clock_ms()


def first_ms(moment: datetime) -> int:
    """Return the first millisecond since 1970 that is not before a moment; without a zone it is local time.

    A float of seconds would be a millisecond less for six times of a thousand.
    """
    return -((_EPOCH - moment.astimezone(UTC)) // timedelta(milliseconds=1))


async def wait_for(event: asyncio.Event, limit_ms: float | None) -> bool:
    """Wait until `event` is set, at most `limit_ms` (None: without a limit). Return whether it was set."""
    try:
        async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
            return await event.wait()
    except TimeoutError:
        return False


async def api_result(call: Awaitable[T], limit_ms: float) -> T:
    """Return the result of a call. Raises RequestTimedOut after `limit_ms`: it may have been carried out."""
    limit = asyncio.timeout(limit_ms / 1000)
    try:
        async with limit:
            return await call
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimedOut(f"no broker has answered within {limit_ms:g} ms (default_api_timeout_ms)") from None


# -- Retries


class Backoff:
    """Pauses by the number of failures in a row. `draw` returns 0.0 to 1.0; tests pass their own."""

    __slots__ = ("_cap_ms", "_draw", "_first_ms")

    def __init__(self, first_ms: float, cap_ms: float, draw: Callable[[], float] | None = None) -> None:
        self._first_ms = first_ms
        self._cap_ms = cap_ms
        self._draw = draw

    def pause_ms(self, failures: int) -> float:
        """Return the pause after `failures` (1 or more) failures in a row."""
        pause = min(self._cap_ms, self._first_ms * 2 ** min(failures - 1, _MAX_DOUBLINGS))
        draw = self._draw or jitter().random
        return pause * (1 - _JITTER + 2 * _JITTER * draw())


class RetryNotice:
    """What fails and is retried now, by a key that its owner chooses."""

    def __init__(self) -> None:
        # Invariant: the timer runs, or its line is written, while this is not empty.
        # The error of each, and when it came, the oldest first.
        self._failing: dict[object, tuple[KafkaError, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def failed(self, key: object, error: KafkaError) -> None:
        """Take down that `key` has failed with `error` and is retried."""
        now_s = asyncio.get_running_loop().time()
        self._failing.pop(key, None)
        while self._failing and now_s - next(iter(self._failing.values()))[1] > _RETRIED_WITHIN_S:
            self.done(next(iter(self._failing)))
        self._failing[key] = error, now_s
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(_SAID_AFTER_S, self._say)

    def errors(self) -> list[KafkaError]:
        """Return the last error of each that is retried now, the oldest first."""
        return [error for error, _ in self._failing.values()]

    def done(self, key: object) -> None:
        """Take down that `key` has succeeded, or is given up."""
        if self._failing.pop(key, None) is not None and not self._failing:
            self._stop_timer()

    @contextmanager
    def of(self, key: object) -> Generator[None]:
        """Say `done` of the key at the end of the block."""
        try:
            yield
        finally:
            self.done(key)

    def close(self) -> None:
        """Forget all, and write no line."""
        self._is_closed = True
        self._failing.clear()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self) -> None:
        error = list(self._failing.values())[-1][0]
        log.warning("%s (%s); it is retried", error.message.removesuffix("."), error.code.name)
