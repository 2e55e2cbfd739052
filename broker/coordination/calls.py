"""What the coordinators of groups and of transactional ids share: a request that may have to wait, and their seams.

The seams are protocols, so that an actor is tested with a clock, timers and a log of the test's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...protocol.errors import KafkaError


class Clock(Protocol):
    """Milliseconds: the wall for what is written down, the monotonic one for what waits."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...


class TimerHandle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The broker's one heap of timers."""

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> TimerHandle: ...


OnCommitted = Callable[[KafkaError | None], None]
"""Told once whether records are in their log: None, or why not."""


class Call:
    """A request, and its token in the machine: answered at once if it can be, else through a future."""

    __slots__ = ("_future", "_respond", "_response")

    def __init__(self, respond: Callable[[Any], Any]) -> None:
        self._respond = respond
        self._response: Any = None
        self._future: asyncio.Future[Any] | None = None

    def answer(self, answer: object) -> None:
        """Makes the response. A client that does not wait any more (its connection is gone) is no error."""
        if self._future is None:
            if self._response is None:
                self._response = self._respond(answer)
        elif not self._future.done():
            self._future.set_result(self._respond(answer))

    def result(self) -> Any:
        """The response, or the future of one."""
        if self._response is None:
            self._future = asyncio.get_running_loop().create_future()
            return self._future
        return self._response
