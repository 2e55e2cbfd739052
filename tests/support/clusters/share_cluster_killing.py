"""Kills brokers (-9) of a cluster under a share group: the partition's leader, or the coordinator of its state.

`run(folder, seed)` is the run of share_killing.py, with leaders that move. What a member holds is in the memory of the
leader, so the next leader may give it to others; what was accepted is in the state, and no leader gives it again.
"""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.cluster import ClusterProcesses
from odradek.tests.support.clusters.zookeeper import zookeeper
from odradek.tests.support.histories.share_killing import GROUP, LOST, SETTINGS, TOPIC, Account, Run, initialized

KILLS = 2
# How long a cluster may take to elect, on a machine that does much else.
WITHIN_S = 240.0


class ClusterAccount(Account):
    """An account of records whose leaders move. The members' ids name the time of the leader, behind an @."""

    def delivered(self, record: int, member: str, count: int) -> None:
        holder = self.holders.get(record)
        if holder is not None and holder.split("@")[1] != member.split("@")[1]:
            del self.holders[record]  # the leader that gave it is none any more
        super().delivered(record, member, count)


class ClusterRun(Run):
    """One run: its cluster, its members and its account."""

    may_be_written_late = True
    # The producer writes until the last broker is back, so that no kill meets a group that has nothing to do.
    pause_s = 0.05
    kills = 0

    def __init__(self, folder: Path, seed: int, cluster: ClusterProcesses) -> None:
        super().__init__(folder, seed)
        self.cluster = cluster
        self.account = ClusterAccount()
        self.deadline_s = time.monotonic() + WITHIN_S

    @property
    def is_written(self) -> bool:
        return self.kills == KILLS and super().is_written

    async def _ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """Ask any broker that answers."""
        brokers = list(self.cluster.brokers.values())
        for each in self.chance.sample(brokers, len(brokers)):
            try:
                async with await Raw.connect(each.address) as raw:
                    return await raw.ask(key, version, request)
            except LOST:
                continue
        raise ConnectionError("no broker answers")

    async def leader(self) -> tuple[str, str]:
        asked = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
        while True:
            self.check_time()
            found = await self._ask(ApiKey.METADATA, 12, asked)
            nodes = {each.node_id: f"{each.host}:{each.port}" for each in found.brokers}
            for part in found.topics[0].partitions:
                if part.leader_id in nodes:
                    return nodes[part.leader_id], f"@{part.leader_id}.{part.leader_epoch}"
            await asyncio.sleep(0.1)

    async def coordinator(self) -> str:
        """Return the address of the coordinator of the partition's state."""
        text = urlsafe_b64encode(self.topic_id).decode().rstrip("=")
        return await self.found_coordinator(2, f"{GROUP}:{text}:0")

    async def found_coordinator(self, kind: int, key: str) -> str:
        """Return the address of a coordinator, once there is one."""
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while True:
            self.check_time()
            (found,) = (await self._ask(ApiKey.FIND_COORDINATOR, 6, asked)).coordinators
            if not found.error_code:
                return f"{found.host}:{found.port}"
            await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill the leader or the coordinator now and then, and start it again."""
        for _ in range(KILLS):
            await asyncio.sleep(self.chance.uniform(0.1, 1.5))
            victim = (await self.leader())[0] if self.chance.random() < 0.5 else await self.coordinator()
            broker = next(each for each in self.cluster.brokers.values() if each.address == victim)
            await asyncio.to_thread(broker.kill)
            # Sometimes it is back before anybody has missed it.
            await asyncio.sleep(self.chance.choice([0, 1, 4]))
            await asyncio.to_thread(broker.start)
            self.kills += 1

    async def create(self) -> None:
        """Create the topic. Any broker may be the controller, and every other one rejects the request."""
        asked = CreateTopicsRequest(topics=[CreatableTopic(TOPIC, 1, replication_factor=3)])
        made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        while (await self._ask(ApiKey.CREATE_TOPICS, 7, asked)).topics[0].error_code not in made:
            self.check_time()  # not every broker has registered, or there is no controller yet
            await asyncio.sleep(0.1)
        for each in self.cluster.brokers.values():
            async with await Raw.connect(each.address) as raw:
                while not any(await self._known_id(raw)):
                    self.check_time()  # the controller has not told it yet
                    await asyncio.sleep(0.1)
                self.topic_id = await self._known_id(raw)
        await self.leader()

    async def _known_id(self, raw: Raw) -> bytes:
        """Return the id of the topic, as one broker knows it; zeros where it knows none."""
        asked = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
        topic_id: bytes = (await raw.ask(ApiKey.METADATA, 12, asked)).topics[0].topic_id
        return topic_id

    async def begin(self) -> None:
        """Create the topic, and have the group begin at its first record."""
        await self.create()
        async with await Raw.connect(await self.coordinator()) as raw:
            assert await initialized(raw, TOPIC) == self.topic_id

    async def __call__(self) -> None:
        await self.begin()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.produce())
            tasks.create_task(self.kill())
            for name in ("ann", "bob", "cat"):
                tasks.create_task(self.consume(name))


def run(folder: Path, seed: int, kind: type[ClusterRun] = ClusterRun) -> None:
    """Run one seed."""
    with zookeeper(folder / "zookeeper") as ensemble:
        cluster = ClusterProcesses(folder, ensemble, "kafka", ())
        settings = {**SETTINGS, "share_coordinator_state_topic_replication_factor": 3}
        cluster.brokers = {
            number: cluster.broker(folder / f"broker-{number}", number, **settings) for number in (1, 2, 3)
        }
        try:
            cluster.start()
            asyncio.run(kind(folder, seed, cluster)())
        finally:
            cluster.close()
