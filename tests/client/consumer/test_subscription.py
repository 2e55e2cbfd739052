"""What a consumer reads and where it keeps its place: patterns, pauses over rebalances, stores, metadata of commits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from odradek.client import Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from odradek.client.errors import InvalidOption, NotAssigned, OffsetStoreFailed
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.tests.client.consumer.test_consumer import consumer_for as quick_consumer
from odradek.tests.support import waiting
from odradek.tests.support.fakes.fake_cluster import FakeCluster, FakeLog
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import answer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    return quick_consumer(cluster, *topics, **{"heartbeat_interval_ms": 5, "metadata_max_age_ms": 5} | options)


async def until(consumer: Consumer, true: Callable[[], bool]) -> list[TopicPartition]:
    """Poll until something is true; the partitions of the records that were read meanwhile."""
    found: list[TopicPartition] = []
    async with asyncio.timeout(10):
        while not true():
            for partition, records in (await consumer.getmany(timeout_ms=5)).items():
                found += [partition] * len(records)
    return found


# -- Patterns


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_pattern_reads_the_topics_that_match_also_later_ones(group_id: str | None) -> None:
    async with FakeCluster({"flights-1": 1, "flights-2": 1, "weather": 1, "old-flights-1": 1}) as cluster:
        for name in cluster.topics:
            write(cluster.log(name), 1, 1)
        async with consumer_for(cluster, group_id=group_id) as consumer:
            consumer.subscribe(pattern=r"flights-\d")
            found = await until(consumer, lambda: len(consumer.assignment()) == 2)
            assert consumer.subscription() == {"flights-1", "flights-2"}
            cluster.topics["flights-3"] = [FakeLog(1)]
            write(cluster.log("flights-3"), 1, 1)
            while len(found) < 3:
                found += await until(consumer, lambda: True)
                found += [p for p, records in (await consumer.getmany(timeout_ms=5)).items() for _ in records]
            assert {partition.topic for partition in found} == {"flights-1", "flights-2", "flights-3"}
            assert len(found) == 3
            del cluster.topics["flights-1"]
            await until(consumer, lambda: consumer.subscription() == {"flights-2", "flights-3"})
            await consumer.unsubscribe()
            assert consumer.subscription() == frozenset()


class WaitsForTopic(RebalanceListener):
    """Gives its partitions back when the subscription has a topic that is made meanwhile."""

    def __init__(self, cluster: FakeCluster, consumer: Consumer) -> None:
        self._cluster = cluster
        self._consumer = consumer

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._cluster.topics["flights-2"] = [FakeLog(1)]
        await waiting.until(lambda: "flights-2" in self._consumer.subscription())


async def test_a_topic_that_begins_to_match_does_not_bring_a_leaving_member_back() -> None:
    async with FakeCluster({"flights-1": 1}) as cluster, asyncio.timeout(20):
        async with consumer_for(cluster, group_id="g") as consumer:
            consumer.subscribe(pattern=r"flights-\d", listener=WaitsForTopic(cluster, consumer))
            await until(consumer, lambda: bool(consumer.assignment()))
            joins = len(cluster.calls(ApiKey.JOIN_GROUP))
        assert len(cluster.calls(ApiKey.JOIN_GROUP)) == joins
        assert cluster.group.left == ["member-1"]


async def test_a_pattern_can_be_subscribed_before_the_start() -> None:
    async with FakeCluster({"a": 1, "b": 1}) as cluster:
        consumer = consumer_for(cluster)
        consumer.subscribe(pattern=re.compile("a|c"))
        async with consumer:
            await until(consumer, lambda: consumer.assignment() == {TopicPartition("a", 0)})
            with pytest.raises(NotAssigned):
                consumer.assign([T0])


async def test_a_topic_that_is_subscribed_again_begins_as_auto_offset_reset_says() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", auto_offset_reset="latest") as consumer:
        assert await consumer.position(T0) == 0
        await consumer.unsubscribe()
        write(cluster.log("t"), 5, 1)
        consumer.subscribe("t")
        assert await consumer.position(T0) == 5


async def test_a_subscription_to_nothing_drops_the_partitions() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer:
        assert await consumer.position(T0) == 0
        consumer.subscribe()
        assert consumer.assignment() == frozenset()


def test_topics_and_a_pattern_are_not_subscribed_together() -> None:
    with pytest.raises(InvalidOption):
        Consumer().subscribe("t", pattern="u")


# -- Pauses


async def test_a_pause_is_kept_over_a_rebalance_that_gives_the_partition_back() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t", group_id="g") as consumer:
        await until(consumer, lambda: len(consumer.assignment()) == 2)
        consumer.pause(T0)
        generation = cluster.group.generation
        cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
        await until(consumer, lambda: cluster.group.generation > generation and len(consumer.assignment()) == 2)
        assert consumer.paused() == {T0}
        write(cluster.log("t", 0), 1, 1)
        write(cluster.log("t", 1), 1, 1)
        read: list[TopicPartition] = []
        async with asyncio.timeout(10):
            while not read:
                read = list(await consumer.getmany(timeout_ms=20))
            assert read == [T1]
            consumer.resume(T0)
            while T0 not in read:
                read += await consumer.getmany(timeout_ms=20)


async def test_a_pause_ends_with_the_assignment() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster) as consumer:
        consumer.assign([T0, T1])
        consumer.pause(T0)
        consumer.assign([T1])
        consumer.assign([T0, T1])
        assert consumer.paused() == frozenset()


# -- Stores


class Table:
    """A store in memory."""

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = dict(offsets)
        self.broken: Exception | None = None

    async def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self.broken is not None:
            raise self.broken
        return self.offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.broken is not None:
            raise self.broken
        self.offsets |= {partition: offset.offset for partition, offset in offsets.items()}


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_store_keeps_the_offsets_in_the_place_of_the_group(group_id: str | None) -> None:
    table = Table({T0: 4})
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t", 0), 10, 1)
        write(cluster.log("t", 1), 5, 1)
        async with consumer_for(cluster, "t", group_id=group_id, offset_store=table) as consumer:
            read: list[TopicPartition] = []
            while len(read) < 11:
                read += [p for p, records in (await consumer.getmany(timeout_ms=50)).items() for _ in records]
            assert read.count(T0) == 6 and read.count(T1) == 5
            assert (await consumer.committed(T0))[T0] == OffsetAndMetadata(4)
        assert table.offsets == {T0: 10, T1: 5}
        assert cluster.group.committed == {}


async def test_what_a_store_raises_reaches_the_user(cluster: FakeCluster) -> None:
    table = Table({})
    write(cluster.log("t"), 1, 1)
    async with consumer_for(cluster, offset_store=table, enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        await consumer.getone()
        table.broken = RuntimeError("disk full")
        with pytest.raises(OffsetStoreFailed, match="disk full"):
            await consumer.commit()
    async with consumer_for(cluster, offset_store=table, enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        with pytest.raises(OffsetStoreFailed, match="did not give"):
            await asyncio.wait_for(consumer.getone(), 10)


class Whole:
    """A whole number as other libraries have it, such as numpy's."""

    def __index__(self) -> int:
        return 4


async def test_an_offset_of_a_store_is_any_whole_number_and_nothing_else(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10, 1)
    given: Any
    for given in (Whole(), "4", 4.5):
        async with consumer_for(cluster, offset_store=Table({T0: given}), enable_auto_commit=False) as consumer:
            consumer.assign([T0])
            async with asyncio.timeout(10):
                if isinstance(given, Whole):
                    assert (await consumer.getone()).offset == 4
                else:
                    with pytest.raises(OffsetStoreFailed, match="an offset must be an int"):
                        await consumer.getone()


@pytest.mark.parametrize("protocol", ["classic", "auto"])
async def test_an_error_of_kafka_that_a_store_raises_is_none_of_the_group(cluster: FakeCluster, protocol: str) -> None:
    """A store that is in Kafka, too, has errors of its own group: the member must not take itself for fenced."""
    table = Table({})
    table.broken = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group of the store has members")
    options: dict[str, Any] = {} if protocol == "auto" else {"heartbeat_interval_ms": 5}
    async with quick_consumer(
        cluster, "t", group_id="g", group_protocol=protocol, offset_store=table, enable_auto_commit=False, **options
    ) as consumer:
        with pytest.raises(OffsetStoreFailed, match="the group of the store has members"):
            await consumer.getmany(timeout_ms=2_000)
        await waiting.until(lambda: bool(cluster.group.left))  # the others need not wait for the session's end
        other = ApiKey.JOIN_GROUP if protocol == "auto" else ApiKey.CONSUMER_GROUP_HEARTBEAT
        assert not cluster.calls(other), "who has left joins by no other protocol"
        table.broken = None
        consumer.subscribe("t")
        write(cluster.log("t"), 1, 1)
        assert (await consumer.getone()).offset == 0


# -- Commits


async def test_a_commit_carries_its_text_and_brings_it_back() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t", group_id="g") as consumer:
        write(cluster.log("t"), 3, 1)
        await consumer.getone()
        await consumer.commit({T0: OffsetAndMetadata(1, "at noon", 0)})
        assert (await consumer.committed(T0))[T0] == OffsetAndMetadata(1, "at noon", 0)
