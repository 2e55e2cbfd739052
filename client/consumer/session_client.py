"""A client that has a session from its start to its stop: what `Consumer` and `ShareConsumer` share.

Nothing that runs holds the client itself. So one that the program has lost is collected, and then the event loop closes
its session, which leaves the group.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from ..core.cluster import Cluster
from ..core.lifetime import Lifetime, StartedClient, Step
from ..errors import ClientStopped, KafkaError
from .workers import Workers

_log = logging.getLogger(__name__)


class ClientSession(Protocol):
    """What a client has from its start to its stop."""

    cluster: Cluster

    async def leave(self) -> None:
        """Return no more records, and leave the group. What the user may still work on is not processed."""
        ...

    async def close(self) -> None:
        """Stop the tasks and close the connections."""
        ...


S = TypeVar("S", bound=ClientSession)


class SessionClient(StartedClient, Generic[S]):
    """A client with a session, and with workers while its `consume` runs. `kind` names it, such as "consumer"."""

    # None before start() and after stop().
    _session: S | None = None
    # Whether the last session has ended with a stop: then `async for` ends, and does not raise.
    _stopped = False
    _finalizer: weakref.finalize[..., Any]
    _workers: Workers | None = None

    def __init__(self, kind: str, request_timeout_ms: float) -> None:
        self._kind = kind
        self._stop_timeout_ms = request_timeout_ms
        self._lifetime = Lifetime(kind)

    async def _start(self) -> None:
        self._session = session = await self._open()
        self._stopped = False
        self._finalizer = weakref.finalize(self, _lose, asyncio.get_running_loop(), session, self._kind)
        self._finalizer.atexit = False

    async def _open(self) -> S:
        """Return a session that is started."""
        raise NotImplementedError

    async def _run(self, workers: Workers, drain_on: Sequence[signal.Signals]) -> None:
        self._workers = workers
        try:
            await workers.run(drain_on)
        finally:
            if self._workers is workers:
                self._workers = None

    async def drain(self) -> None:
        """Have `consume` poll no more, finish and commit what it has, and return. A handler that asks does not wait."""
        if self._workers is not None:
            await self._workers.drain()

    async def _stop_by(self, finish: Step, timeout_ms: float | None, later: Callable[[], Awaitable[None]]) -> None:
        """Do `finish` within the time-out (request_timeout_ms if none), then close the session in any case.

        A handler that asks for it does not wait: `consume` does it `later`, once the handlers have ended.
        """
        workers = self._workers
        if workers is not None and workers.are_around:
            workers.then = later
            workers.halt.set()
            return
        limit_ms = self._stop_timeout_ms if timeout_ms is None else timeout_ms
        if not await self._lifetime.stop(self._end, finish, limit_ms):
            _log.warning(
                "the %s was stopped before it could say what is processed and leave its group: its time is over",
                self._kind,
            )

    async def _end(self) -> None:
        session, self._session, self._stopped = self._session, None, True
        if session is not None:
            self._finalizer.detach()
            await session.close()

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open now; lost ones are opened again by themselves."""
        return self._session is not None and self._session.cluster.is_connected

    def _running(self) -> S:
        self._lifetime.check_loop()
        if self._session is None:
            raise ClientStopped(f"the {self._kind} is not running: use `with` or `async with`, or call start() first")
        return self._session


# They close the sessions of lost clients.
_closing: set[asyncio.Task[None]] = set()


def _lose(loop: asyncio.AbstractEventLoop, session: ClientSession, kind: str) -> None:
    """Have the loop close the session of a client that nobody can stop any more, if the loop is there.

    A finalizer calls this, in any thread and at any moment.
    """

    def close() -> None:
        task = loop.create_task(_close_lost(session, kind))
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    with suppress(RuntimeError):  # the loop is closed: its connections are, too
        loop.call_soon_threadsafe(close)


async def _close_lost(session: ClientSession, kind: str) -> None:
    try:
        async with asyncio.timeout(session.cluster.options.request_timeout_ms / 1000):
            await session.leave()
    except (KafkaError, TimeoutError) as error:
        _log.warning("a %s that was lost could not leave its group: %s", kind, error)
    finally:
        await session.close()
