"""Quotas of members of share groups: what they get, and how long they wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.share_states import routed_persister
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import ACCEPT, acquired, data_of
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.simulations.share_world import ShareWorld, share_world


@pytest.fixture
async def world(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ShareWorld]:
    kept = MemoryPersister()
    monkeypatch.setattr(routed_persister, "RoutedPersister", lambda *_: kept)  # pyright: ignore
    async with share_world(config, kept, partitions=1) as made:
        for _ in range(4):
            await made.raw.produce("t", batch_of(b"x" * 700))
        yield made


async def limit(world: ShareWorld, **values: float) -> None:
    """Give everybody who does not log in these quotas."""
    everybody = EntryData([EntityData("user", "ANONYMOUS")], [OpData(key, value) for key, value in values.items()])
    async with await Raw.connect(world.broker.address) as raw:
        answer: Any = await raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([everybody]))
        assert not answer.entries[0].error_code


async def test_a_member_over_its_quota_gets_what_it_acquires_and_waits_after_it(world: ShareWorld) -> None:
    ann = await world.member("ann", 0)
    await limit(world, consumer_byte_rate=100)
    first = await ann.fetch(max_records=1)
    assert (acquired(first), first.throttle_time_ms) == ([(0, 0, 1)], 0)
    second = await ann.fetch(max_records=1)
    # Two batches of some 770 bytes are 5 seconds more than 10 seconds of the quota.
    assert acquired(second) == [(1, 1, 1)] and data_of(second).records
    assert 4_000 < second.throttle_time_ms < 7_000
    waiting = asyncio.ensure_future(ann.fetch(max_records=1))
    bob = await world.member("bob", 0)
    assert not waiting.done()
    world.advance(12_000)
    assert acquired(await waiting) == [(2, 2, 1)]
    assert await world.gets(bob, max_records=1) == [(3, 3, 1)]


async def test_a_member_that_still_has_to_wait_acquires_nothing_and_acknowledges(world: ShareWorld) -> None:
    ann, bob = await world.member("ann", 0), await world.member("bob", 0)
    assert await world.gets(bob, max_records=1) == [(0, 0, 1)]
    await limit(world, consumer_byte_rate=100)
    assert (await ann.fetch(max_records=1)).throttle_time_ms == 0
    assert (await ann.fetch(max_records=1)).throttle_time_ms > 4_000
    response = await bob.fetch(said={0: [(0, 0, (ACCEPT,))]}, max_records=1)
    assert response.throttle_time_ms > 4_000
    data = data_of(response)
    assert (data.error_code, data.acknowledge_error_code, data.acquired_records) == (0, 0, [])
    assert world.state().delivery_complete_count == 1
    world.advance(12_000)
    # The record that bob did not get was not counted as delivered.
    assert await world.gets(bob, max_records=1) == [(3, 3, 1)]


async def test_the_time_of_every_turn_counts(world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, quotas, counted = await world.member("ann", 0), world.broker.services.quotas, list[int]()
    await limit(world, request_percentage=1e-9)
    worked = quotas.worked

    def noted(user: str, client_id: str, time_ns: int) -> int:
        counted.append(time_ns)
        return worked(user, client_id, time_ns)

    monkeypatch.setattr(quotas, "worked", noted)
    response = await ann.fetch(max_records=1)
    assert (acquired(response), response.throttle_time_ms) == ([(0, 0, 1)], 1000)
    # The handler, which begins the work, and the turns of the work.
    assert len(counted) == 2 and all(counted)
