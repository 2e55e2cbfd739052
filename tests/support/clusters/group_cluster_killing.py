"""Kills brokers (-9) of a cluster under a consumer group (KIP-848): the partition's leader, or the group's coordinator.

`run(folder, seed)`: two members of our client come and go, read and commit. A commit that was answered stays: nobody
reads a record below it again, and in the end every record was read.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from odradek.client import Consumer, KafkaError, TopicPartition
from odradek.tests.support.clusters import share_cluster_killing
from odradek.tests.support.clusters.share_cluster_killing import ClusterRun
from odradek.tests.support.histories.share_killing import GROUP, TOPIC

PLACE = TopicPartition(TOPIC, 0)


class GroupRun(ClusterRun):
    """One run: its cluster, its members, and what they read and committed."""

    committed = 0

    def __init__(self, folder: Path, seed: int, cluster: share_cluster_killing.ClusterProcesses) -> None:
        super().__init__(folder, seed, cluster)
        self.read: set[int] = set()

    @property
    def is_done(self) -> bool:
        return self.is_written and self.committed >= self.account.end

    def check_time(self) -> None:
        self.account.accepted = set(range(self.committed))
        super().check_time()

    async def coordinator(self) -> str:
        return await self.found_coordinator(0, GROUP)

    async def begin(self) -> None:
        await self.create()

    def _member(self) -> Consumer:
        return Consumer(
            TOPIC,
            bootstrap_servers=self.cluster.addresses,
            group_id=GROUP,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async def consume(self, name: str) -> None:
        """Be a member, again and again."""
        while not self.is_done:
            self.check_time()
            async with self._member() as consumer:
                for _ in range(self.chance.randint(10, 60)):
                    if self.is_done:
                        break
                    await self._poll(consumer)

    async def _poll(self, consumer: Consumer) -> None:
        try:
            records = (await consumer.getmany(timeout_ms=100, max_records=50)).get(PLACE, [])
            for each in records:
                assert each.offset >= self.committed, f"{each.offset} is read, and {self.committed} was committed"
                self.read.add(each.offset)
            if records:
                await consumer.commit({PLACE: records[-1].offset + 1})
                self.committed = max(self.committed, records[-1].offset + 1)
        except KafkaError:
            await asyncio.sleep(0.05)  # a commit that came too late: another member reads from the one before

    async def __call__(self) -> None:
        await super().__call__()
        assert self.read >= set(range(self.account.end))
        async with self._member() as consumer:
            found = (await consumer.committed(PLACE))[PLACE]
        assert found is not None and found.offset >= self.committed, (found, self.committed)


def run(folder: Path, seed: int) -> None:
    """Run one seed."""
    share_cluster_killing.run(folder, seed, GroupRun)
