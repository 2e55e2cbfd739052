"""Brokers of one loop in a cluster, with a model of ZooKeeper in the place of the connection to one: no Java is needed.

with modelled_zookeeper():
    async with Broker(lone_member(config)) as broker: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.cluster import member, zookeeper
from odradek.broker.cluster.operations import Operation
from odradek.tests.support import fake_zookeeper
from odradek.tests.support.fake_zookeeper import FakeZookeeper


@contextmanager
def modelled_zookeeper() -> Iterator[FakeZookeeper]:
    """Let brokers that start meanwhile reach this model, whatever their zookeeper.connect is."""
    ensemble = FakeZookeeper()
    sessions: list[_Session] = []

    def connect(*given: Any) -> _Session:
        sessions.append(_Session(ensemble, sessions, *given))
        return sessions[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member, "ZooKeeper", connect)
        yield ensemble


def lone_member(config: BrokerConfig) -> BrokerConfig:
    """Return the config of the only broker of a cluster."""
    return replace(config, zookeeper_connect="modelled:2181", broker_id=1, controlled_shutdown_enable=False)


class _Session(zookeeper.ZooKeeper):
    """One session with the model. It lasts until `stop`."""

    def __init__(
        self,
        ensemble: FakeZookeeper,
        sessions: list[_Session],
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        on_change: Callable[[str], None],
        on_session: Callable[[bool], None],
    ) -> None:
        self._ensemble = ensemble
        self._sessions = sessions
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._number = ensemble.connect()

    async def start(self) -> None:
        """Do nothing: the model is there."""

    async def stop(self) -> None:
        """End the session."""
        if self._ensemble.is_live(self._number):
            self._ensemble.expire(self._number)
            self._deliver()

    @property
    def session_id(self) -> int:
        """The number of the session in the model."""
        return self._number

    async def _execute(self, operation: Operation, fence: int | None) -> Any:
        # As a real one, it answers in a later turn.
        await asyncio.sleep(0)
        try:
            return self._ensemble.run(self._number, operation, fence)
        except fake_zookeeper.SessionExpired as error:
            raise zookeeper.SessionExpired from error
        except fake_zookeeper.ControllerMoved as error:
            raise zookeeper.ControllerMoved from error
        finally:
            self._deliver()

    def _deliver(self) -> None:
        """Tell every session what it watches."""
        for each in self._sessions:
            for _, path in self._ensemble.events.pop(each._number, ()):
                self._loop.call_soon(each._on_change, path)
