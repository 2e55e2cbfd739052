"""ShareFetch: sessions, what a member gets and when, and its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from odradek.broker import Broker, services
from odradek.broker.coordination.share.persister import ShareKey, ShareState
from odradek.broker.network import routes
from odradek.protocol.records import batch
from odradek.tests.support.memory_persister import MemoryPersister
from odradek.tests.support.raw import Raw, batch_of
from odradek.tests.support.share_member import ACCEPT, ShareMember, acquired, data_of


@pytest.fixture(autouse=True)
def persister(monkeypatch: pytest.MonkeyPatch) -> MemoryPersister:
    kept = MemoryPersister()
    monkeypatch.setattr(services, "NO_PERSISTER", kept)
    monkeypatch.setattr(routes, "ROUTES", (*routes.ROUTES, *routes.SHARE_ROUTES))
    return kept


@pytest.fixture
async def member(broker: Broker, raw: Raw, persister: MemoryPersister) -> AsyncIterator[ShareMember]:
    await raw.create_topic("t", 2)
    topic = broker.topics.get("t")
    assert topic is not None
    for index in range(2):
        persister.states[ShareKey("g", topic.id, index)] = ShareState(1, 0, 0, 0)
    async with await Raw.connect(broker.address) as own:
        yield ShareMember(own, "g", "ann", topic.id)


async def test_a_member_gets_records_and_accepts_them(
    raw: Raw, member: ShareMember, persister: MemoryPersister
) -> None:
    await raw.produce("t", batch_of(b"a", b"b", b"c"))
    first = await member.fetch(0, 1)
    while not acquired(first):
        first = await member.fetch(max_wait_ms=5000)
    assert acquired(first) == [(0, 2, 1)]
    assert [each.value for each in batch.decode_batch(bytes(data_of(first).records), 0)] == [b"a", b"b", b"c"]
    assert first.acquisition_lock_timeout_ms == 30_000
    second = await member.acknowledge(0, (0, 2, (ACCEPT,)))
    assert data_of(second).error_code == 0
    state = persister.states[ShareKey("g", member.topic_id, 0)]
    assert (state.start_offset, state.delivery_complete_count) == (0, 3)
