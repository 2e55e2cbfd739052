"""A broker with a share group `g` on a topic `t`: a persister in memory, a clock of the test's, members by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.share_states.share_state import ShareKey, ShareState
from odradek.storage.files import DISK, Disk
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clients.share_member import ShareMember, acquired, data_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.fakes.memory_persister import MemoryPersister

GROUP = "g"
LOCK_MS = 30_000


@dataclass
class ShareWorld:
    """What the module says; `partitions` of the topic are initialized, and the group begins with the first record."""

    broker: Broker
    raw: Raw
    persister: MemoryPersister
    clock: FakeClock
    topic_id: bytes
    connections: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def member(self, name: str, *partitions: int) -> ShareMember:
        """Return a member on a connection of its own, with a session of these partitions, which are loaded."""
        raw = await self.connections.enter_async_context(await Raw.connect(self.broker.address))
        member = ShareMember(raw, GROUP, name, self.topic_id)
        assert (await member.fetch(*partitions, max_records=0)).error_code == 0
        for partition in partitions:
            await self.loaded(partition)
        return member

    async def loaded(self, partition: int = 0) -> None:
        """Begin to load a share partition as a fetch does, and wait for it."""
        shares, place = self.broker.services.share_leader.partitions, (self.topic_id, partition)
        await shares.open(GROUP, place, shares.partition(place)).settled()

    def state(self, partition: int = 0) -> ShareState:
        """Return what is written of a partition."""
        return self.persister.states[ShareKey(GROUP, self.topic_id, partition)]

    def begins_at(self, partition: int, offset: int, *batches: Any) -> None:
        """Set what is written of a partition."""
        self.persister.states[ShareKey(GROUP, self.topic_id, partition)] = ShareState(1, 0, offset, 0, batches)

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self.clock.advance(by_ms)
        self.broker.timers.fire_due()

    async def gets(self, member: ShareMember, *, partition: int = 0, **rest: Any) -> list[tuple[int, int, int]]:
        """Return what a member gets now."""
        response = await member.fetch(**rest)
        assert response.error_code == 0, response
        data = data_of(response, partition)
        assert data is None or data.error_code == 0, data
        return acquired(response, partition)


@asynccontextmanager
async def share_world(
    config: BrokerConfig, persister: MemoryPersister, partitions: int = 2, disk: Disk = DISK
) -> AsyncIterator[ShareWorld]:
    """Start the broker, and stop it."""
    clock = FakeClock()
    async with Broker(config, clock=clock, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", partitions)
        topic = broker.topics.get("t")
        assert topic is not None
        world = ShareWorld(broker, raw, persister, clock, topic.id)
        for index in range(partitions):
            world.begins_at(index, 0)
        async with world.connections:
            yield world
