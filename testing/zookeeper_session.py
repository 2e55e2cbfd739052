"""Sessions with the model of ZooKeeper, in the place of connections to a real one: of brokers in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

from ..zookeeper.operations import Check, Pause, ReadAll, ReadChildren, SessionExpired, WriteAll
from ..zookeeper.requests import Requests
from ..zookeeper.security import OPEN, ZooKeeperSecurity
from ..zookeeper.session import Contact, OpenSession, Session
from .zookeeper import FakeZookeeper

_ANSWERED = (ReadAll, ReadChildren, WriteAll, Pause)


class Ensemble:
    """The model, and the sessions of the brokers that reach it, by node id."""

    def __init__(self) -> None:
        self.model = FakeZookeeper()
        self._sessions: dict[int, ModelledSession] = {}

    def opener(self, node: int) -> OpenSession:
        """Return what opens the session of a node, in the place of `Session`."""
        return partial(self._open, node)

    def _open(self, node: int, *given: Any) -> Session:
        self._sessions[node] = ModelledSession(self.model, self.deliver, *given)
        return self._sessions[node]

    def session_of(self, node: int) -> int:
        """Return the number of the session of a node."""
        return self._sessions[node].session_id

    def isolate(self, node: int) -> None:
        """End the session of a node, which learns of it when it is healed."""
        self._sessions[node].lose()
        self.deliver()

    def heal(self, node: int) -> None:
        """Let a node reach the model again, in a new session."""
        self._sessions[node].find()

    def deliver(self) -> None:
        """Tell every session what it watches."""
        for each in list(self._sessions.values()):
            each.deliver()


class ModelledSession(Session):
    """One session after another, as of `Session`, without a client of ZooKeeper."""

    def __init__(
        self,
        model: FakeZookeeper,
        deliver: Callable[[], None],
        connect: str,
        session_timeout_ms: float,
        connection_timeout_ms: float,
        on_change: Callable[[str], None],
        on_contact: Callable[[Contact], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        """Takes what a `Session` takes; the model asks nobody who they are."""
        self._model = model
        self._deliver_all = deliver
        self._timeout_ms = session_timeout_ms
        self._on_change = on_change
        self._on_contact = on_contact
        self._loop = asyncio.get_running_loop()
        self._is_stopping = False
        # Set while the model can be reached.
        self._connected = asyncio.Event()
        self._connected.set()
        self.renew()

    async def start(self, znodes: Sequence[str] = ()) -> None:
        """Make these znodes where they are missing."""
        for path in znodes:
            self._model.make(path)

    async def stop(self) -> None:
        """End the session."""
        if not self._is_stopping:
            self._is_stopping = True
            self._own.end()
            self._model.expire(self._own.number)
            self._deliver_all()

    @property
    def session_id(self) -> int:
        """The number of the session in the model."""
        return self._own.number

    @property
    def timeout_ms(self) -> float:
        return self._timeout_ms

    def renew(self) -> None:
        self._own = _ModelledRequests(self._model, self._connected, self._deliver_all)
        self._requests = cast("Requests", self._own)

    def deliver(self) -> None:
        """Report the changes that this session watches."""
        for _, path in self._model.events.pop(self._own.number, ()):
            self._loop.call_soon(self._on_change, path)

    def lose(self) -> None:
        """Lose the connection, for so long that the session expires."""
        self._connected.clear()
        self._model.expire(self._own.number)
        self._on_contact(Contact.SUSPENDED)

    def find(self) -> None:
        """Have a connection again: the session has expired, and there is a new one."""
        self._own.end()
        # Also where it was found before, and has begun another one since: two cuts of one node may overlap.
        self._model.expire(self._own.number)
        self._deliver_all()
        self._connected.set()
        self._on_contact(Contact.EXPIRED)
        self._on_contact(Contact.RENEWED)


class _ModelledRequests:
    """The requests of one session, as `Requests` makes them."""

    def __init__(self, model: FakeZookeeper, connected: asyncio.Event, deliver: Callable[[], None]) -> None:
        self.number = model.connect()
        self._model = model
        self._connected = connected
        self._deliver = deliver
        self._has_ended = False

    def end(self) -> None:
        """Let every request raise SessionExpired."""
        self._has_ended = True
        self._connected.set()

    async def execute(self, operation: Any, fence: Check | None, others: Callable[[Any], Awaitable[Any]] | None) -> Any:
        """Do one operation, as `Session.run` says."""
        if not isinstance(operation, _ANSWERED):
            assert others is not None, operation
            self._check()
            result = await others(operation)
            self._check()
            return result
        # As a real one, it answers in a later turn.
        await asyncio.sleep(0)
        await self._connected.wait()
        self._check()
        try:
            return self._model.run(self.number, operation, fence)
        finally:
            self._deliver()

    def _check(self) -> None:
        if self._has_ended:
            raise SessionExpired
