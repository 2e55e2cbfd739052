"""Offsets on their way between ZooKeeper and the coordinator, and by hand in both: SimpleConsumer, migrate-offsets."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner, Result
from odradek.cli import main
from odradek.client import Admin, OffsetAndMetadata, Producer, SimpleConsumer, TopicPartition
from odradek.client.errors import InvalidOption, KafkaError
from odradek.client.zookeeper import ConsumerConnector
from odradek.client.zookeeper.reading import MessageStream
from odradek.protocol.errors import ErrorCode
from odradek.tests.client.zookeeper.world import WAIT_S, World

PARTITIONS = 4
EACH = [TopicPartition("t", partition) for partition in range(PARTITIONS)]


class Load:
    """Records that are sent all the time, and what the members of the group have read of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent = 0
        self.is_sending = True
        self.seen: Counter[bytes] = Counter()
        self.readers: list[asyncio.Task[None]] = []
        self.connectors: list[ConsumerConnector] = []

    async def send(self, producer: Producer) -> None:
        """Send until told to stop."""
        while self.is_sending:
            await producer.send_and_wait("t", b"%d" % self.sent, partition=self.sent % PARTITIONS)
            self.sent += 1

    async def join(self, **options: Any) -> ConsumerConnector:
        """Start a member that reads."""
        connector = self.world.connector(auto_commit_interval_ms=40, **options)
        await self.world.stack.enter_async_context(connector)
        self.connectors.append(connector)
        (stream,) = (await connector.create_message_streams({"t": 1}))["t"]
        self.readers.append(asyncio.ensure_future(self._read(stream)))
        return connector

    async def _read(self, stream: MessageStream) -> None:
        async for record in stream:
            assert record.value is not None
            self.seen[record.value] += 1

    async def until_more(self, count: int) -> None:
        """Wait until so many more records were read."""
        goal = self.seen.total() + count
        async with asyncio.timeout(WAIT_S):
            while self.seen.total() < goal:
                await asyncio.sleep(0.005)

    async def until_all(self) -> None:
        """Wait until every record that was sent is read."""
        async with asyncio.timeout(WAIT_S):
            while len(self.seen) < self.sent:
                await asyncio.sleep(0.005)


async def odradek(*arguments: str) -> Result:
    """Run a command in a thread: the broker is in this loop."""
    return await asyncio.to_thread(lambda: CliRunner().invoke(main, arguments))


async def states(world: World, target: str) -> list[dict[str, Any]]:
    """What the dry run prints."""
    command = ("groups", "migrate-offsets", "g", "--to", target, "--dry-run", "--json")
    result = await odradek(*command, "--bootstrap-server", world.broker.address)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(("source", "target"), [("zookeeper", "kafka"), ("kafka", "zookeeper")])
async def test_a_group_migrates_under_load_member_by_member(world: World, source: str, target: str) -> None:
    await world.raw.create_topic("t", PARTITIONS)
    load = Load(world)
    async with Producer(bootstrap_servers=world.broker.address) as producer:
        sending = asyncio.ensure_future(load.send(producer))
        members = [await load.join(offsets_storage=source) for _ in range(2)]
        await load.until_more(20)
        assert {row["state"] for row in await states(world, target)} == {"missing"}
        for options in ({"offsets_storage": target, "dual_commit_enabled": True}, {"offsets_storage": target}):
            for number, each in enumerate(members):
                await each.shutdown()
                members[number] = await load.join(**options)
                await load.until_more(10)
            if "dual_commit_enabled" in options:
                # A partition is committed on both sides once a record of it has been read, at the next interval: on
                # one of them first, so that the other is behind for a moment.
                async with asyncio.timeout(WAIT_S):
                    found = await states(world, target)
                    while not {row["state"] for row in found} <= {"equal", "ahead"}:
                        await load.until_more(1)
                        found = await states(world, target)
                assert len(found) == PARTITIONS
        await load.until_more(20)
        load.is_sending = False
        await sending
    await load.until_all()
    for each in members:
        await each.shutdown()
    await asyncio.gather(*load.readers)
    assert sorted(map(int, load.seen)) == list(range(load.sent))
    # Each time that a member gave its partitions up, the one record in its hand was read again.
    repeated = load.seen.total() - len(load.seen)
    assert repeated <= sum(each._reading.streams.tenure for each in load.connectors)  # pyright: ignore[reportPrivateUsage]


async def test_a_simple_consumer_keeps_offsets_by_hand_in_both_stores(world: World) -> None:
    await world.raw.create_topic("t", PARTITIONS)
    host, port = world.broker.address.split(":")
    async with SimpleConsumer(host, int(port)) as consumer:
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    manager = await consumer.find_coordinator("g")
                    # The coordinator may still be loading.
                    await consumer.commit_offsets("g", {EACH[0]: OffsetAndMetadata(5, "note")})
                    break
                except KafkaError as error:
                    assert error.retriable
                    await asyncio.sleep(0.01)
        assert (manager.node_id, manager.port) == (1, int(port))
        await consumer.commit_offsets("g", {EACH[0]: 7, EACH[1]: 8}, storage="zookeeper")
        found = await consumer.fetch_offsets("g", EACH[:2])
        assert found == {EACH[0]: OffsetAndMetadata(5, "note"), EACH[1]: None}
        found = await consumer.fetch_offsets("g", EACH[:3], storage="zookeeper")
        assert found == {EACH[0]: OffsetAndMetadata(7), EACH[1]: OffsetAndMetadata(8), EACH[2]: None}
        with pytest.raises(KafkaError) as raised:
            await consumer.commit_offsets("g", {TopicPartition("missing", 0): 1}, storage="zookeeper")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(InvalidOption):
            await consumer.fetch_offsets("g", EACH, storage="disk")


async def test_the_command_copies_what_the_target_lacks_and_nothing_else(world: World) -> None:
    await world.raw.create_topic("t", PARTITIONS)
    host, port = world.broker.address.split(":")
    async with Admin(world.broker.address) as admin, SimpleConsumer(host, int(port)) as consumer:
        await admin.alter_group_offsets("g", {EACH[1]: OffsetAndMetadata(1), EACH[2]: OffsetAndMetadata(9)})
        await admin.alter_group_offsets("g", {EACH[3]: OffsetAndMetadata(4)})
        old = {EACH[0]: 7, EACH[1]: 8, EACH[2]: 2}
        await consumer.commit_offsets("g", old, storage="zookeeper")
        to_kafka = ("groups", "migrate-offsets", "g", "--to", "kafka", "--bootstrap-server", world.broker.address)
        assert [row["state"] for row in await states(world, "kafka")] == ["missing", "behind", "ahead", "ahead"]
        assert [row["state"] for row in await states(world, "zookeeper")] == ["ahead", "ahead", "behind", "missing"]
        assert "no terminal" in (await odradek(*to_kafka)).output
        assert await consumer.fetch_offsets("g", EACH[:1]) == {EACH[0]: None}
        done = await odradek(*to_kafka, "--yes")
        assert done.exit_code == 0 and "2 offsets were copied to kafka" in done.output
        found = await consumer.fetch_offsets("g", EACH)
        assert [each and each.offset for each in found.values()] == [7, 8, 9, 4]
        assert "0 of 4 offsets are not in kafka yet" in (await odradek(*to_kafka)).output
        await odradek(*to_kafka[:4], "zookeeper", *to_kafka[5:], "--yes")
        found = await consumer.fetch_offsets("g", EACH, storage="zookeeper")
        assert [each and each.offset for each in found.values()] == [7, 8, 9, 4]
