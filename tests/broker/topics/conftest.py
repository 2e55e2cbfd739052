"""Two transactional producers, each on a connection of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from odradek.broker import Broker
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.histories.transactional import Transactional


@pytest.fixture
async def producer(raw: Raw) -> Transactional:
    made = Transactional(raw, "tx")
    await made.begin()
    return made


@pytest.fixture
async def other(broker: Broker) -> AsyncIterator[Transactional]:
    async with await Raw.connect(broker.address) as raw:
        made = Transactional(raw, "other")
        await made.begin()
        yield made
