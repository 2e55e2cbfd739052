"""Brokers of one loop in a cluster, with a model of ZooKeeper in the place of the connection to one: no Java is needed.

with modelled_zookeeper():
    async with Broker(lone_member(config)) as broker: ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.cluster import zookeeper_login
from odradek.testing.zookeeper import FakeZookeeper
from odradek.testing.zookeeper_session import Ensemble
from odradek.zookeeper.session import Session


@contextmanager
def modelled_zookeeper() -> Iterator[FakeZookeeper]:
    """Let brokers that start meanwhile reach this model, whatever their zookeeper.connect is."""
    ensemble, numbers = Ensemble(), count(1)

    def connect(*given: Any) -> Session:
        return ensemble.opener(next(numbers))(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zookeeper_login, "Session", connect)
        yield ensemble.model


def lone_member(config: BrokerConfig) -> BrokerConfig:
    """Return the config of the only broker of a cluster."""
    return replace(config, zookeeper_connect="modelled:2181", broker_id=1, controlled_shutdown_enable=False)
