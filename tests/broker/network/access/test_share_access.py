"""Share sessions of a member that loses a right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.share_states import routed_persister
from odradek.broker.security.acls import Operation, ResourceType
from odradek.broker.security.principals import user
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clients.share_member import ACCEPT, ShareMember, acquired, data_of
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.security.principals import allow, forbid, secured
from odradek.tests.support.simulations.share_world import GROUP, ShareWorld, share_world

DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
READ = Operation.READ


@pytest.fixture
async def world(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ShareWorld]:
    kept = MemoryPersister()
    monkeypatch.setattr(routed_persister, "RoutedPersister", lambda *_: kept)  # pyright: ignore
    # Who has not said who he is may do everything, and so makes the topic.
    config = replace(secured(config), super_users="User:ANONYMOUS")
    async with share_world(config, kept, partitions=1) as made:
        for _ in range(2):
            await made.raw.produce("t", batch_of(b"x"))
        yield made


async def alice(world: ShareWorld) -> ShareMember:
    """A member whose session is Alice's from now on."""
    known = set(connections(world.broker))
    member = await world.member("alice", 0)
    (new,) = set(connections(world.broker)) - known
    new.principal = user("alice")
    return member


async def test_a_lost_right_counts_for_the_next_request_of_a_session(world: ShareWorld) -> None:
    member = await alice(world)
    assert (await member.fetch(epoch=1)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(world.broker, "alice", READ, ResourceType.GROUP, GROUP)
    on_topic = allow(world.broker, "alice", READ, ResourceType.TOPIC, "t")
    assert acquired(await member.fetch(max_records=1)) == [(0, 0, 1)]
    forbid(world.broker, on_topic)
    response = await member.fetch(said={0: [(0, 0, (ACCEPT,))]})
    data = data_of(response)
    assert (data.error_code, data.acknowledge_error_code, data.acquired_records) == (DENIED, DENIED, [])
    assert data_of(await member.acknowledge(0, (0, 0, (ACCEPT,)))).error_code == DENIED
    allow(world.broker, "alice", READ, ResourceType.TOPIC, "t")
    assert acquired(await member.fetch(said={0: [(0, 0, (ACCEPT,))]})) == [(1, 1, 1)]


async def test_a_member_that_waits_learns_of_a_lost_right_before_it_gets_anything(world: ShareWorld) -> None:
    member = await alice(world)
    allow(world.broker, "alice", READ, ResourceType.GROUP, GROUP)
    on_topic = allow(world.broker, "alice", READ, ResourceType.TOPIC, "t")
    assert acquired(await member.fetch()) == [(0, 1, 1)]
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=60_000))
    async with asyncio.timeout(60):
        while not any(each.waits for each in connections(world.broker)):
            await asyncio.sleep(0)
    forbid(world.broker, on_topic)
    await world.raw.produce("t", batch_of(b"x"))
    assert data_of(await waiting).error_code == DENIED
