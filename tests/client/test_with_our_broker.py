"""Client and broker of this package, meeting on the wire: the whole walk of a record, groups, administration.

The same tests run with a real Kafka, where Java and its jars are.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import (
    Admin,
    ConfigResource,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    RoundRobinAssignor,
    TopicPartition,
)
from odradek.client.errors import UnknownTopic
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.brokers.process import KafkaProcess
from odradek.tests.support.clients.others import require

QUICK: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 20, "session_timeout_ms": 6_000}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Kafka that the tests of this module share."""
    require("java")
    process = KafkaProcess(tmp_path_factory.mktemp("kafka"), group_initial_rebalance_delay_ms=0).start()
    yield process.address
    process.close()


async def emptied(address: str) -> str:
    """Delete all topics and groups of a broker, and return its address."""
    async with Admin(address) as admin:
        await admin.delete_topics(*await admin.list_topics())
        await admin.delete_groups(*[each.group_id for each in await admin.list_groups()])
        while await admin.list_topics():
            await asyncio.sleep(0.01)
    return address


@pytest.fixture(params=["odradek", "kafka"])
async def address(request: pytest.FixtureRequest, config: BrokerConfig) -> AsyncIterator[str]:
    if request.param == "kafka":
        yield await emptied(request.getfixturevalue("kafka"))
        return
    async with Broker(config) as broker:
        yield broker.address


def pairs(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d" % (number % 16), json.dumps({"n": number}).encode()) for number in range(count)]


def number_of(value: bytes | None) -> int:
    return json.loads(value or b"")["n"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_what_was_written_is_read(address: str, codec: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("t", 3)])
    async with Producer(address, compression_type=codec, batch_size=2000) as producer:
        done = await producer.send_many("t", pairs(2000))
        assert sum(last - first + 1 for first, last in done.offsets.values()) == 2000
    async with Consumer("t", bootstrap_servers=address, **QUICK) as consumer:
        numbers: dict[int, list[int]] = {0: [], 1: [], 2: []}
        async with asyncio.timeout(20):
            async for record in consumer:
                numbers[record.partition].append(number_of(record.value))
                if sum(map(len, numbers.values())) == 2000:
                    break
        assert sorted(chain(*numbers.values())) == list(range(2000))
        assert all(each == sorted(each) for each in numbers.values())


async def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topics([NewTopic("t", 6)])
        await producer.send_many("t", pairs(600))
        options: dict[str, Any] = QUICK | {"bootstrap_servers": address, "group_id": "g"}
        seen: list[int] = []

        async def poll(*consumers: Consumer) -> None:
            for batches in await asyncio.gather(*(each.getmany(timeout_ms=20) for each in consumers)):
                seen.extend(number_of(record.value) for records in batches.values() for record in records)

        async with Consumer("t", **options) as first, asyncio.timeout(20):
            async with Consumer("t", **options) as second:
                while not (len(first.assignment()) == len(second.assignment()) == 3) or len(seen) < 600:
                    await poll(first, second)
                [described] = (await admin.describe_groups("g")).values()
                assert (described.state, described.protocol, len(described.members)) == ("Stable", "range", 2)
                assert {len(member.partitions) for member in described.members} == {3}
                assert [(each.group_id, each.state) for each in await admin.list_groups()] == [("g", "Stable")]
            while len(first.assignment()) < 6:
                await poll(first)
            await producer.send_many("t", pairs(100))
            while len(seen) < 700:
                await poll(first)
        assert sorted(seen) == sorted([*range(600), *range(100)])
        committed = await admin.list_group_offsets("g")
        assert sum(offset.offset for offset in committed.values()) == 700


async def test_a_group_goes_on_where_it_stopped(address: str) -> None:
    async with Producer(address) as producer:
        await producer.send_many("t", pairs(50))
    seen: list[int] = []
    for _ in range(5):
        async with Consumer("t", bootstrap_servers=address, group_id="g", **QUICK) as consumer, asyncio.timeout(20):
            taken = 0
            async for record in consumer:
                seen.append(number_of(record.value))
                taken += 1
                if taken == 10:
                    break
    assert seen == list(range(50))


async def test_strategies_are_agreed_upon(address: str) -> None:
    async with Admin(address) as admin, asyncio.timeout(20):
        await admin.create_topics([NewTopic("t", 4)])
        options: dict[str, Any] = QUICK | {
            "bootstrap_servers": address,
            "group_id": "g",
            "partition_assignment_strategy": [RoundRobinAssignor],
        }
        async with Consumer("t", **options) as first, Consumer("t", **options) as second:
            while not (len(first.assignment()) == len(second.assignment()) == 2):
                await asyncio.gather(first.getmany(timeout_ms=20), second.getmany(timeout_ms=20))
            numbers = [sorted(partition.partition for partition in each.assignment()) for each in (first, second)]
            assert sorted(numbers) == [[0, 2], [1, 3]]
            with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL"):
                async with Consumer("t", bootstrap_servers=address, group_id="g", **QUICK) as other:
                    await other.getmany(timeout_ms=10_000)


async def test_topics_are_made_described_and_deleted(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("checked")], validate_only=True)
        assert await admin.list_topics() == []
        await admin.create_topics([NewTopic("a", 2, configs={"max.message.bytes": "2000"}), NewTopic("b")])
        assert await admin.list_topics() == ["a", "b"]
        described = await admin.describe_topics("a")
        assert [(each.partition, each.leader) for each in described["a"].partitions] == [(0, 1), (1, 1)]
        configs = await admin.describe_configs([ConfigResource.topic("a")], names=["max.message.bytes"])
        entry = configs[ConfigResource.topic("a")]["max.message.bytes"]
        assert (entry.value, entry.source) == ("2000", 1)
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS: topic 'a' already exists"):
            await admin.create_topics([NewTopic("a")])
        await admin.delete_topics("a")
        with pytest.raises(UnknownTopic, match="'a' does not exist"):
            await admin.delete_topics("a")
        with pytest.raises(UnknownTopic, match="'a' does not exist"):
            await admin.describe_topics("a")
        assert await admin.list_topics() == ["b"]


async def test_the_cluster_and_offsets_are_described(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        cluster = await admin.describe_cluster()
        assert [(node.node_id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, address)]
        await producer.send_and_wait("t", b"x", timestamp_ms=1_000)
        await producer.send_and_wait("t", b"y", timestamp_ms=2_000)
        partition = TopicPartition("t", 0)
        for wanted, offset in ((-1, 2), (-2, 0), (1_500, 1), (2_500, -1)):
            assert (await admin.list_offsets({partition: wanted}))[partition].offset == offset
        with pytest.raises(KafkaError) as caught:
            await admin.describe_groups("nobody")
        assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_restarted_broker_is_found_again(config: BrokerConfig) -> None:
    quick: dict[str, Any] = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
    async with asyncio.timeout(20):
        async with Broker(config) as broker:
            address = broker.address
            producer = Producer(address, **quick)
            await producer.start()
            await producer.send_many("t", pairs(10))
            consumer = Consumer("t", bootstrap_servers=address, auto_offset_reset="earliest", **quick)
            await consumer.start()
            assert len((await consumer.getmany(timeout_ms=5_000))[TopicPartition("t", 0)]) == 10
        sending = asyncio.ensure_future(producer.send_many("t", pairs(10)))
        async with Broker(replace(config, listeners=(f"PLAINTEXT://{address}",))):
            assert (await sending).offsets == {TopicPartition("t", 0): (10, 19)}
            assert len((await consumer.getmany(timeout_ms=5_000))[TopicPartition("t", 0)]) == 10
            await producer.stop()
            await consumer.stop()


def test_importing_the_client_loads_nothing_until_it_is_used() -> None:
    code = (
        "import odradek.client as c, sys; "
        "print('asyncio' in sys.modules, c.Producer.__name__, dir(c) == sorted(c.__all__))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["False", "Producer", "True"]


async def test_a_deleted_topic_is_not_made_again_by_a_producer_that_is_done_with_it(address: str) -> None:
    async with Admin(address) as admin, Producer(address, metadata_max_age_ms=10) as producer, asyncio.timeout(60):
        await producer.send_and_wait("t", b"x")
        await admin.delete_topics("t")
        while "t" in await admin.list_topics():
            await asyncio.sleep(0.01)
        for _ in range(20):
            assert await admin.list_topics() == []
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("records", [5, 25])
@pytest.mark.parametrize("notices", [False, True], ids=["made again at once", "made again later"])
async def test_a_group_reads_a_topic_that_was_made_again_from_its_beginning(
    address: str, records: int, notices: bool
) -> None:
    async def write(count: int, what: str) -> None:
        async with Producer(address) as producer:
            await producer.send_values("t", [f"{what} {number}".encode() for number in range(count)], partition=0)

    async def read(count: int) -> list[bytes | None]:
        return [(await consumer.getone()).value for _ in range(count)]

    options = QUICK | {"metadata_max_age_ms": 100, "allow_auto_create_topics": False}
    async with Admin(address) as admin, asyncio.timeout(60):
        await admin.create_topics([NewTopic("t", 1, 1)])
        await write(10, "old")
        async with Consumer("t", bootstrap_servers=address, group_id="g", **options) as consumer:
            assert len(await read(10)) == 10
            await admin.delete_topics("t")
            while notices and consumer.assignment():
                await consumer.getmany(timeout_ms=20)
            while "t" in await admin.list_topics():
                await asyncio.sleep(0.01)
            await admin.create_topics([NewTopic("t", 1, 1)])
            await write(records, "new")
            assert await read(records) == [b"new %d" % number for number in range(records)]
        committed = await admin.list_group_offsets("g")
        assert committed[TopicPartition("t", 0)].offset <= records
