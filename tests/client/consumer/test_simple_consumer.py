"""The consumer of one broker, against a fake cluster and our broker; and waiting for a broker."""

from __future__ import annotations

import asyncio
import socket

import pytest
from odradek.broker import Broker
from odradek.client import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.consumer.simple_consumer import Fetched, SimpleConsumer
from odradek.client.core.cluster import wait_for_broker
from odradek.client.errors import ClientStopped, InvalidOption, KafkaError, NoBrokerReachable
from odradek.client.record import EARLIEST, LATEST
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fakes.fake_cluster import FakeCluster


def write(cluster: FakeCluster, count: int, partition: int = 0) -> None:
    for number in range(count):
        cluster.log("t", partition).write(encode_batch([Record(-1, 1000 + number, b"k", b"%d" % number)]))


async def test_it_fetches_from_the_broker_that_it_is_told_and_from_nowhere_else() -> None:
    async with FakeCluster({"t": 2}, nodes=2) as cluster:
        write(cluster, 5, 0)
        write(cluster, 5, 1)
        async with SimpleConsumer("127.0.0.1", cluster.nodes[1].port) as consumer:
            found = await consumer.fetch("t", 0, 2)
            assert [record.offset for record in found.records] == [2, 3, 4]
            assert (found.next_offset, found.high_watermark, found.log_start_offset) == (5, 5, 0)
            with pytest.raises(KafkaError) as raised:
                await consumer.fetch("t", 1, 0)
            assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            leader = await consumer.find_leader("t", 1)
            assert (leader.node_id, leader.port) == (2, cluster.nodes[2].port)
            both = await consumer.multifetch({TopicPartition("t", 0): 4, TopicPartition("t", 1): 0})
            one, other = both.values()
            assert isinstance(one, Fetched) and isinstance(other, KafkaError)
            for topic, partition in (("t", 7), ("nowhere", 0)):
                with pytest.raises(KafkaError) as raised:
                    await consumer.find_leader(topic, partition)
                assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(ClientStopped):
            await consumer.fetch("t", 0, 0)


@pytest.mark.parametrize("oldest", [0, 1])
async def test_offsets_before_a_time_come_newest_first(cluster: FakeCluster, oldest: int) -> None:
    cluster.versions[ApiKey.LIST_OFFSETS] = (oldest, 5)
    write(cluster, 5)
    async with SimpleConsumer("127.0.0.1", cluster.nodes[1].port) as consumer:
        assert await consumer.offsets_before("t", 0, LATEST) == [5]
        assert await consumer.offsets_before("t", 0, EARLIEST) == [0]
        if oldest:
            assert await consumer.offsets_before("t", 0, LATEST, 2) == [5, 0]
            assert await consumer.offsets_before("t", 0, 1003) == [3]
            assert await consumer.offsets_before("t", 0, 9999) == []


async def test_it_reads_our_broker(broker: Broker) -> None:
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        await admin.create_topics([NewTopic("t", 1)])
        await producer.send_and_wait("t", b"x")
    port = broker.address.rpartition(":")[2]
    async with SimpleConsumer(broker.address) as consumer:
        assert [record.value for record in (await consumer.fetch("t", 0, 0)).records] == [b"x"]
        assert await consumer.offsets_before("t", 0, LATEST, 5) == [1, 0]
        assert (await consumer.find_leader("t", 0)).port == int(port)
        with pytest.raises(KafkaError) as raised:
            await consumer.fetch("t", 0, 9)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_offsets_of_a_group_without_members_are_kept_by_its_coordinator(broker: Broker) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 2)])
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    async with SimpleConsumer(broker.address) as consumer:
        assert f"127.0.0.1:{(await consumer.find_coordinator('g')).port}" == broker.address
        await consumer.commit_offsets("g", {places[0]: OffsetAndMetadata(5, "note")})
        assert await consumer.fetch_offsets("g", places) == {places[0]: OffsetAndMetadata(5, "note"), places[1]: None}
        for wrong, why in ((5.0, "an offset must be an int"), (-1, "an offset is from 0")):
            with pytest.raises((TypeError, InvalidOption), match=why):
                await consumer.commit_offsets("g", {places[0]: wrong})  # type: ignore[dict-item]
        with pytest.raises(InvalidOption, match="storage must be one of kafka, zookeeper"):
            await consumer.fetch_offsets("g", places, storage="disk")


async def test_a_broker_that_starts_is_waited_for(cluster: FakeCluster) -> None:
    node = cluster.nodes[1]
    await node.stop()
    waiting = asyncio.ensure_future(wait_for_broker(f"127.0.0.1:{node.port}", timeout_ms=20_000))
    await asyncio.sleep(0.01)
    await node.start()
    assert [each.node_id for each in await waiting] == [1]
    # Long enough for one answer on a busy machine: 60 ms were not.
    with pytest.raises(NoBrokerReachable, match="1 of 2 brokers"):
        await wait_for_broker(cluster.address, timeout_ms=1_000, brokers=2)


async def test_a_broker_that_does_not_come_is_an_error_in_time() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(NoBrokerReachable, match=r"the cluster within 60 ms: 127.* \(connection refused\)"):
            await wait_for_broker(f"127.0.0.1:{closed.getsockname()[1]}", timeout_ms=60)
