"""Kills a broker (-9) under a share group, by a seed; then checks what every record went through.

`run(folder, seed)`: three members fetch, accept, release and go away while a producer writes, and the broker is killed
at random moments. A record whose acceptance was answered is never delivered again, no two members hold the same one,
a release that was answered counts, and in the end every record was accepted.
"""

from __future__ import annotations

import asyncio
import random
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import ACCEPT, RELEASE, ShareMember, acquired, data_of

KILLS = 3
RECORDS = 600
WITHIN_S = 120.0
GROUP = "g"
TOPIC = "t"
LOST = (OSError, asyncio.IncompleteReadError, TimeoutError)
# No lock ends within a run, and no record is given up: who holds what is known.
SETTINGS = {
    "group_share_record_lock_duration_ms": 60_000,
    "group_share_delivery_count_limit": 10,
    "share_coordinator_state_topic_num_partitions": 3,
}


async def initialized(raw: Raw, topic: str, group: str = GROUP, partitions: int = 1) -> bytes:
    """Have a group begin at the first record of a topic; return the topic's id."""
    asked = MetadataRequest([MetadataRequestTopic(bytes(16), topic)])
    topic_id: bytes = (await raw.ask(ApiKey.METADATA, 12, asked)).topics[0].topic_id
    text = urlsafe_b64encode(topic_id).decode().rstrip("=")
    keys = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{group}:{text}:0"])
    states = [InitializeStateData(topic_id, [PartitionData(index, 1, 0) for index in range(partitions)])]
    while True:
        await raw.ask(ApiKey.FIND_COORDINATOR, 6, keys)
        request = InitializeShareGroupStateRequest(group, states)
        response = await raw.ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, request)
        if all(each.error_code == 0 for each in response.results[0].partitions):
            return topic_id
        await asyncio.sleep(0.05)


class Account:
    """What every record went through, as the members were told."""

    def __init__(self) -> None:
        self.end = 0
        self.holders: dict[int, str] = {}
        self.accepted: set[int] = set()
        # Acceptances whose answers were lost.
        self.doubtful: set[int] = set()
        self.released: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    def delivered(self, record: int, member: str, count: int) -> None:
        assert record not in self.accepted, f"{record} was accepted, and {member} got it"
        assert record not in self.holders, f"{record} is held by {self.holders.get(record)}, and {member} got it"
        assert count > self.released.get(record, 0), f"{record} was released {self.released[record]} times, not {count}"
        self.doubtful.discard(record)
        self.holders[record], self.counts[record] = member, count

    def gone(self, member: str) -> None:
        """Note that a member holds nothing any more."""
        self.holders = {record: holder for record, holder in self.holders.items() if holder != member}


class Run:
    """One run: its broker, its members and its account."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = BrokerProcess(folder, **SETTINGS)
        self.account = Account()
        self.topic_id = b""
        self.deadline_s = time.monotonic() + WITHIN_S

    @property
    def is_written(self) -> bool:
        """Whether the producer has written enough."""
        return self.account.end >= RECORDS

    @property
    def is_done(self) -> bool:
        account = self.account
        return self.is_written and len(account.accepted | account.doubtful) >= account.end

    def check_time(self) -> None:
        left = set(range(self.account.end)) - self.account.accepted - self.account.doubtful
        assert time.monotonic() < self.deadline_s, f"not accepted: {sorted(left)[:20]} of {self.account.end}"

    async def produce(self) -> None:
        """Write the records, one batch after the other."""
        while not self.is_written:
            self.check_time()
            try:
                async with await Raw.connect(self.broker.address) as raw:
                    error = 0
                    while not self.is_written and not error:
                        count = self.chance.randint(1, 9)
                        now_ms = int(time.time() * 1000)
                        written = await raw.produce(TOPIC, batch_of(*[b"x"] * count, timestamp_ms=now_ms))
                        error = written.error_code
                        if not error:
                            # What was written before a kill and not answered is there as well.
                            self.account.end = max(self.account.end, written.base_offset + count)
                        await asyncio.sleep(0.005)
            except LOST:
                await asyncio.sleep(0.05)

    async def consume(self, name: str) -> None:
        """Be a member, again and again."""
        while not self.is_done:
            self.check_time()
            try:
                async with await Raw.connect(self.broker.address) as raw:
                    member = ShareMember(raw, GROUP, name, self.topic_id)
                    if (await member.fetch(0, max_records=0)).error_code == 0:
                        await self._be(member)
            except LOST:
                pass
            # The broker gives back what the connection held: nobody knows when, so nobody may hold it for a while.
            self.account.gone(name)
            await asyncio.sleep(0.05)

    async def _be(self, member: ShareMember) -> None:
        chance = self.chance
        for _ in range(chance.randint(3, 60)):
            if self.is_done:
                return
            response = await member.fetch(max_wait_ms=100, max_records=chance.randint(1, 30))
            data: Any = data_of(response)
            if response.error_code or (data is not None and data.error_code):
                return
            for first, last, count in acquired(response):
                for record in range(first, last + 1):
                    self.account.delivered(record, member.member, count)
            held = sorted(record for record, name in self.account.holders.items() if name == member.member)
            if held:
                await self._acknowledge(member, held)
        if chance.random() < 0.5:
            # Others may get what it holds before the answer is read.
            self.account.gone(member.member)
            await member.fetch(epoch=-1)

    async def _acknowledge(self, member: ShareMember, held: list[int]) -> None:
        account, chance = self.account, self.chance
        said = {record: RELEASE if chance.random() < 0.1 and account.counts[record] < 5 else ACCEPT for record in held}
        some = {record: kind for record, kind in said.items() if chance.random() < 0.9}
        accepted = {record for record, kind in some.items() if kind == ACCEPT}
        released = {record: account.counts[record] for record, kind in some.items() if kind == RELEASE}
        account.doubtful |= accepted
        # From here on others may get the records, before the answer is read.
        for record in some:
            del account.holders[record]
        response = await member.acknowledge(0, *((record, record, (kind,)) for record, kind in some.items()))
        data: Any = data_of(response)
        if response.error_code or (data is not None and data.error_code):
            account.doubtful -= accepted
            return
        account.doubtful -= accepted
        account.accepted |= accepted
        for record, count in released.items():
            account.released[record] = max(count, account.released.get(record, 0))

    async def kill(self) -> None:
        """Kill the broker now and then, and start it again."""
        for _ in range(KILLS):
            await asyncio.sleep(self.chance.uniform(0.1, 1.5))
            await asyncio.to_thread(self.broker.kill)
            await asyncio.to_thread(self.broker.start)

    async def __call__(self) -> None:
        self.broker.start()
        try:
            async with await Raw.connect(self.broker.address) as raw:
                await raw.create_topic(TOPIC)
                self.topic_id = await initialized(raw, TOPIC)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.produce())
                tasks.create_task(self.kill())
                for name in ("ann", "bob", "cat"):
                    tasks.create_task(self.consume(name))
            self.broker.stop()
        finally:
            if self.broker.is_running:
                self.broker.kill()


def run(folder: Path, seed: int) -> None:
    """Run one seed."""
    asyncio.run(Run(folder, seed)())
