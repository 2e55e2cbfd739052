"""A share group of a simulated cluster: each record is accepted once, and is delivered at least once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from odradek.client import Admin, ShareConsumer, TopicPartition
from odradek.testing.simulation.world import World

from .history import History, Place
from .judge import Log
from .load import ATTEMPT_MS, PARTITIONS, PLAIN, Load

SHARED = "shared"
LOCK_MS = "5000"
# Twice the time for which a record is locked for a member that has gone.
_DRAINED_S = 30.0


async def begin(admin: Admin) -> None:
    """Have the group begin with the first record: without offsets it would begin with the next one."""
    await admin.alter_share_group_offsets(SHARED, {TopicPartition(PLAIN, index): 0 for index in range(PARTITIONS)})


class ShareMember(Load):
    """A member that accepts most of its records, and releases the others."""

    async def run(self) -> None:
        # How soon it hears of a new leader that the old one does not know of.
        self._age_ms = self.chance.choice((1_000, 300_000))
        await self.until_over(self._consume)

    async def _consume(self) -> None:
        options: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "max_poll_records": 20}
        options |= {"request_timeout_ms": ATTEMPT_MS, "metadata_max_age_ms": self._age_ms}
        async with ShareConsumer(PLAIN, bootstrap_servers=self.addresses, group_id=SHARED, **options) as consumer:
            ends_s = self.world.now_s + self.chance.uniform(3, 20)
            while not self.is_over and self.world.now_s < ends_s:
                accepted: list[tuple[Place, int]] = []
                for place, records in (await consumer.getmany(timeout_ms=500)).items():
                    for each in records:
                        key = (place.topic, place.partition), each.offset
                        self.history.delivered.add(key)
                        if self.chance.random() < 0.1:
                            consumer.release(each)
                        else:
                            consumer.accept(each)
                            accepted.append(key)
                await asyncio.sleep(self.chance.expovariate(self.rate))
                await consumer.commit()
                self._note(accepted)

    def _note(self, accepted: list[tuple[Place, int]]) -> None:
        self.history.counts["accepted"] += len(accepted)
        for key in accepted:
            if key in self.history.accepted:
                self.history.seen.append(f"{key[0]}: offset {key[1]} of a share group was accepted twice")
            self.history.accepted.add(key)


async def check_sharing(
    world: World, history: History, addresses: str, logs: Mapping[Place, Log]
) -> AsyncIterator[str]:
    """Take what is left in the group, and check that nothing was passed over."""
    wanted = {(place, offset) for place, log in logs.items() if place[0] == PLAIN for offset, _ in log}
    ends_s = world.now_s + _DRAINED_S
    async with ShareConsumer(PLAIN, bootstrap_servers=addresses, group_id=SHARED) as consumer:
        while not wanted <= history.delivered and world.now_s < ends_s:
            for place, records in (await consumer.getmany(timeout_ms=500)).items():
                for each in records:
                    key = (place.topic, place.partition), each.offset
                    if key in history.accepted:
                        yield f"{key[0]}: offset {key[1]} was accepted, and is delivered again"
                    history.delivered.add(key)
    lost = sorted(wanted - history.delivered)
    if lost:
        yield f"{len(lost)} records were never delivered to the share group, the first is {lost[0]}"
