"""Members that keep what they keep (KIP-429), against our own broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Admin, Consumer, CooperativeStickyAssignor, NewTopic, Producer, TopicPartition
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, answer
from odradek.tests.support.waiting import until

from .test_membership import Told

T0 = TopicPartition("t", 0)
COOPERATIVE: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 20,
    "session_timeout_ms": 6_000,
    "group_id": "g",
    "partition_assignment_strategy": (CooperativeStickyAssignor,),
}
EVERYTHING = {TopicPartition("t", number) for number in range(4)}


class Listener(Told):
    """What a member was told."""

    def of(self, kind: str) -> list[set[TopicPartition]]:
        return [partitions for told, partitions in self.calls if told == kind and partitions]


@pytest.fixture
async def address(broker: Broker) -> AsyncIterator[str]:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 4), NewTopic("u", 1)])
        yield broker.address


async def read_until(members: list[Consumer], done: Any, read: list[tuple[TopicPartition, int]]) -> None:
    async with asyncio.timeout(20):
        while not done():
            for member in members:
                found = await member.getmany(timeout_ms=5)
                read += [(place, record.offset) for place, records in found.items() for record in records]


async def write(address: str) -> None:
    async with Producer(address) as producer:
        for number in range(40):
            await producer.send("t", b"%d" % number, partition=number % 4)


async def test_a_second_member_takes_only_what_it_gets(address: str) -> None:
    first, second = Listener(), Listener()
    read: list[tuple[TopicPartition, int]] = []
    await write(address)
    one = Consumer(bootstrap_servers=address, **COOPERATIVE)
    one.subscribe("t", listener=first)
    two = Consumer(bootstrap_servers=address, **COOPERATIVE)
    two.subscribe("t", listener=second)
    async with one:
        await read_until([one], lambda: len(read) == 40, read)
        async with two:
            # The listener is told a moment after the assignment shows.
            await read_until([one, two], lambda: bool(second.of("assigned")), read)
            assert first.of("assigned") == [EVERYTHING]
            assert first.of("revoked") == [two.assignment()]
            assert second.of("assigned") == [two.assignment()]
            assert one.assignment() | two.assignment() == EVERYTHING and len(two.assignment()) == 2
            await write(address)
            await read_until([one, two], lambda: len(read) >= 80, read)
            gone = two.assignment()
        await read_until([one], lambda: len(first.of("assigned")) == 2, read)
        assert one.assignment() == EVERYTHING
        assert first.of("assigned") == [EVERYTHING, gone]
    assert len(read) == len(set(read)) == 80, "nothing was read twice, whether it moved or stayed"
    assert not first.of("lost") and not second.of("lost")


async def test_what_is_no_longer_subscribed_goes_and_the_rest_stays(address: str) -> None:
    listener = Listener()
    only = Consumer(bootstrap_servers=address, **COOPERATIVE)
    only.subscribe("t", "u", listener=listener)
    async with only:
        await read_until([only], lambda: bool(listener.of("assigned")), [])
        assert len(only.assignment()) == 5
        only.subscribe("t", listener=listener)
        await read_until([only], lambda: bool(listener.of("revoked")) and only.assignment() == EVERYTHING, [])
        assert listener.of("revoked") == [{TopicPartition("u", 0)}]
        assert len(listener.of("assigned")) == 1


async def test_partitions_that_stay_go_on_while_the_group_rebalances(address: str) -> None:
    """The second member holds the rebalance up in its listener; the first one reads on meanwhile."""
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Listener):
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            entered.set()
            await go_on.wait()

    read: list[tuple[TopicPartition, int]] = []
    one = Consumer(bootstrap_servers=address, **COOPERATIVE)
    one.subscribe("t", listener=Slow())
    two = Consumer("t", bootstrap_servers=address, **COOPERATIVE)
    async with one:
        await read_until([one], lambda: len(one.assignment()) == 4, read)
        async with two:
            await read_until([one, two], entered.is_set, read)
            await write(address)
            kept = 20
            await read_until([one], lambda: len(read) >= kept, read)
            assert len({place for place, _ in read}) == 2, "the two partitions that stay"
            go_on.set()
            await read_until([one, two], lambda: len(read) == 40, read)
    assert len(set(read)) == 40


async def test_a_commit_beside_a_rebalance_is_made_in_the_next_generation(cluster: FakeCluster) -> None:
    """The coordinator takes no commit between JoinGroup and SyncGroup, and none of the old generation after it."""
    synced = asyncio.Event()

    async def hold(call: Call) -> Any:
        await synced.wait()
        return await call.default()

    cluster.log("t").write(encode_batch([Record(-1, 7, None, b"x")] * 5))
    options = COOPERATIVE | {"enable_auto_commit": False, "retry_backoff_ms": 1, "heartbeat_interval_ms": 5}
    async with Consumer("t", bootstrap_servers=cluster.address, **options) as consumer:
        async with asyncio.timeout(10):
            while not await consumer.getmany(timeout_ms=50):
                pass
            cluster.on(ApiKey.SYNC_GROUP, hold)
            cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
            await until(lambda: len(cluster.calls(ApiKey.SYNC_GROUP)) >= 2)
            commit = asyncio.ensure_future(consumer.commit())
            while len(cluster.calls(ApiKey.OFFSET_COMMIT)) < 2:
                assert not commit.done(), commit.exception()
                await asyncio.sleep(0.001)
            synced.set()
            await commit
        assert cluster.group.committed == {("t", 0): 5}
        assert consumer.assignment() == {T0}


async def test_a_commit_that_a_rebalance_overtakes_is_made_in_the_next_generation() -> None:
    async def arrive_late(call: Call) -> Any:
        await until(lambda: cluster.group.generation != 1)
        return await call.default()

    async with FakeCluster({"t": 1, "u": 1}) as cluster:
        cluster.log("t").write(encode_batch([Record(-1, 7, None, b"x")] * 5))
        # No heartbeat waits behind the commit.
        options = COOPERATIVE | {"enable_auto_commit": False, "retry_backoff_ms": 1, "heartbeat_interval_ms": 5_000}
        async with Consumer("t", bootstrap_servers=cluster.address, **options) as consumer, asyncio.timeout(10):
            while not await consumer.getmany(timeout_ms=50):
                pass
            cluster.on(ApiKey.OFFSET_COMMIT, arrive_late)
            commit = asyncio.ensure_future(consumer.commit())
            await until(lambda: bool(cluster.calls(ApiKey.OFFSET_COMMIT)))
            consumer.subscribe("t", "u")  # over the other connection, so that the commit arrives in generation 2
            await commit
            assert cluster.group.committed == {("t", 0): 5}
