"""Our consumer in chaos: members are killed, slow and stalled, and join, while their group rebalances.

The checker knows what each handler finished and what is committed. At any time, every offset below the committed one
was processed. In the end every record was processed. Within one assignment, records of a key come in order.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    CooperativeStickyAssignor,
    KafkaError,
    NewTopic,
    Producer,
    RangeAssignor,
    TopicPartition,
)
from odradek.tests.support.seeds import seeds

PARTITIONS, RECORDS = 4, 2_000
PLACES = [TopicPartition("t", number) for number in range(PARTITIONS)]


class Checker:
    """What was processed, by partition."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, set[int]] = {place: set() for place in PLACES}

    def is_complete(self) -> bool:
        return all(len(offsets) == RECORDS // PARTITIONS for offsets in self.processed.values())

    async def check(self, admin: Admin) -> None:
        """Nothing that was not processed is committed."""
        offsets = await admin.list_group_offsets("g")
        for place, committed in offsets.items():
            missing = set(range(committed.offset)) - self.processed[place]
            assert not missing, f"{place}: {committed.offset} is committed, {sorted(missing)[:5]} were not processed"


class Member:
    """One consumer in a task of its own."""

    def __init__(self, address: str, seed: int, checker: Checker, cooperative: bool) -> None:
        self._random = random.Random(seed)
        self._checker = checker
        self._last: dict[tuple[int, bytes | None], int] = {}
        self._options: dict[str, Any] = {
            "bootstrap_servers": address,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 20,
            "heartbeat_interval_ms": 30,
            "session_timeout_ms": 6_000,
            "max_poll_interval_ms": 1_000,
            "partition_assignment_strategy": (CooperativeStickyAssignor if cooperative else RangeAssignor,),
        }
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with Consumer(**self._options) as consumer:
            consumer.subscribe("t", listener=self)
            if self._random.random() < 0.5:
                await consumer.consume(self._handle, concurrency=self._random.randint(1, 4), drain_on=())
            else:
                async for record in consumer:
                    await self._handle(record)

    async def _handle(self, record: ConsumerRecord) -> None:
        if self._random.random() < 0.02:
            await asyncio.sleep(self._random.choice([0.01, 0.05, 0.3, 1.3]))  # the last one is a stall
        place = record.partition, record.key
        assert self._last.get(place, -1) < record.offset, f"{place}: {record.offset} after {self._last[place]}"
        self._last[place] = record.offset
        self._checker.processed[TopicPartition(record.topic, record.partition)].add(record.offset)

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._forget(partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._forget(partitions)

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        """Records may come again after a partition came back."""
        gone = {number for _, number in partitions}
        self._last = {place: offset for place, offset in self._last.items() if place[0] not in gone}

    async def end(self, *, kill: bool) -> None:
        """Cancel the task: in a kill, without a commit of what it works on."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, KafkaError):
            await self.task


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("seed", seeds(range(1, 21)))
async def test_members_in_chaos_process_everything_and_commit_nothing_else(
    tmp_path: Path, seed: int, cooperative: bool
) -> None:
    chance = random.Random(seed)
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
    )
    checker = Checker()
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(config))
        admin = await stack.enter_async_context(Admin(broker.address))
        await admin.create_topics([NewTopic("t", PARTITIONS)])
        async with Producer(broker.address) as producer:
            for number in range(RECORDS):
                await producer.send("t", b"x", key=b"%d" % (number % 8), partition=number % PARTITIONS)
        members = [Member(broker.address, seed * 100 + number, checker, cooperative) for number in range(3)]
        made = len(members)
        try:
            while not checker.is_complete():
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                await checker.check(admin)
                ended = [member for member in members if member.task.done()]
                for member in ended:
                    members.remove(member)
                    member.task.result()
                if len(members) > 1 and chance.random() < 0.5:
                    await members.pop(chance.randrange(len(members))).end(kill=True)
                if len(members) < 3:
                    members.append(Member(broker.address, seed * 100 + made, checker, cooperative))
                    made += 1
        finally:
            for member in members:
                await member.end(kill=False)
        await checker.check(admin)
