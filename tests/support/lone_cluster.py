"""Brokers of one loop in a cluster, with a model of ZooKeeper in the place of the connection to one: no Java is needed.

with modelled_zookeeper():
    async with Broker(lone_member(config)) as broker: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.cluster import member
from odradek.tests.support.fake_zookeeper import FakeZookeeper
from odradek.zookeeper import session
from odradek.zookeeper.operations import Check
from odradek.zookeeper.requests import Requests


@contextmanager
def modelled_zookeeper() -> Iterator[FakeZookeeper]:
    """Let brokers that start meanwhile reach this model, whatever their zookeeper.connect is."""
    ensemble = FakeZookeeper()
    sessions: list[_Session] = []

    def connect(*given: Any) -> _Session:
        sessions.append(_Session(ensemble, sessions, *given))
        return sessions[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member, "Session", connect)
        yield ensemble


def lone_member(config: BrokerConfig) -> BrokerConfig:
    """Return the config of the only broker of a cluster."""
    return replace(config, zookeeper_connect="modelled:2181", broker_id=1, controlled_shutdown_enable=False)


class _Session(session.Session):
    """One session with the model. It lasts until `stop`."""

    def __init__(
        self,
        ensemble: FakeZookeeper,
        sessions: list[_Session],
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        on_change: Callable[[str], None],
        on_contact: Callable[[session.Contact], None],
    ) -> None:
        self._ensemble = ensemble
        self._sessions = sessions
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._number = ensemble.connect()
        self._requests = cast("Requests", self)

    async def start(self, znodes: Sequence[str] = ()) -> None:
        """Make the znodes that are missing: the model is there."""
        for path in znodes:
            self._ensemble.make(path)

    async def stop(self) -> None:
        """End the session."""
        if self._ensemble.is_live(self._number):
            self._ensemble.expire(self._number)
            self._deliver()

    @property
    def session_id(self) -> int:
        """The number of the session in the model."""
        return self._number

    async def execute(self, operation: Any, fence: Check | None, others: Callable[[Any], Awaitable[Any]] | None) -> Any:
        """Stand in for the requests of a session."""
        # As a real one, it answers in a later turn.
        await asyncio.sleep(0)
        try:
            return self._ensemble.run(self._number, operation, fence)
        finally:
            self._deliver()

    def _deliver(self) -> None:
        """Tell every session what it watches."""
        for each in self._sessions:
            for _, path in self._ensemble.events.pop(each._number, ()):
                self._loop.call_soon(each._on_change, path)
