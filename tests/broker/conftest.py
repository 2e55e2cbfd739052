"""For tests of the broker: where it keeps the states of share groups, and a broker that asks ACLs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.share_states import routed_persister
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.security.principals import secured


@pytest.fixture
def persister(monkeypatch: pytest.MonkeyPatch) -> MemoryPersister:
    kept = MemoryPersister()
    monkeypatch.setattr(routed_persister, "RoutedPersister", lambda *_: kept)
    return kept


@pytest.fixture
async def guarded(config: BrokerConfig) -> AsyncIterator[Broker]:
    async with Broker(secured(config)) as broker:
        yield broker
