"""Look-ups that must ask the disk: they wait for it, and nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.records.batch import iter_headers
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.cold_disk import ColdDisk
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until

START_MS = 1_700_000_000_000
# Batches of 100 KiB, ten a segment, an index entry each.
BATCHES = 35
VALUE = b"x" * 100_000


class Room:
    """A broker on a cold disk, with a topic `t` of several segments, and two clients."""

    def __init__(self, broker: Broker, disk: ColdDisk, one: Raw, other: Raw) -> None:
        self.broker = broker
        self.disk = disk
        self.one = one
        self.other = other

    @property
    def log(self) -> Any:
        topic = self.broker.topics.get("t")
        assert topic is not None
        return topic.partitions[0].log

    async def asked_of_the_disk(self) -> None:
        """Returns when a thread waits for the disk."""
        async with asyncio.timeout(20):
            while not self.disk.waiting:
                await asyncio.sleep(0)

    async def meanwhile(self) -> None:
        """Others are served while a thread waits for the disk; then it answers."""
        await self.asked_of_the_disk()
        assert (await self.other.ask(ApiKey.METADATA, 9, MetadataRequest(None))).topics[0].name == "t"
        assert (await self.other.produce("t", batch_of(b"y", timestamp_ms=START_MS + 99_999))).error_code == 0
        assert self.disk.waiting
        self.disk.open_up()


@pytest.fixture
async def room(config: BrokerConfig) -> AsyncIterator[Room]:
    disk = ColdDisk()
    config = replace(config, log_segment_bytes=1 << 20)
    async with (
        Broker(config, disk=disk) as broker,
        await Raw.connect(broker.address) as one,
        await Raw.connect(broker.address) as other,
    ):
        await one.create_topic("t")
        for at in range(BATCHES):
            assert (await one.produce("t", batch_of(VALUE, timestamp_ms=START_MS + at))).error_code == 0
        yield Room(broker, disk, one, other)
        disk.thaw()


def fetch(offset: int, **rest: Any) -> FetchRequest:
    options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **rest}
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=150_000)
    return FetchRequest(**options, topics=[FetchTopic("t", partitions=[partition])])


def offsets_of(answer: Any) -> list[int]:
    return [header.base_offset for _, header in iter_headers(answer.responses[0].partitions[0].records)]


@pytest.mark.parametrize("offset", [0, 13, 29, 31])
async def test_a_cold_fetch_waits_for_the_disk_and_holds_nobody_up(room: Room, offset: int) -> None:
    for each in room.log.segments:
        each.release()
    room.disk.chill()
    room.one.send(ApiKey.FETCH, 11, fetch(offset))
    await room.meanwhile()
    assert offsets_of(await room.one.receive(ApiKey.FETCH, 11)) == [offset]
    # What one has looked up the others know.
    assert offsets_of(await room.one.ask(ApiKey.FETCH, 11, fetch(offset))) == [offset]


async def test_a_fetch_of_what_was_just_written_asks_no_disk(room: Room) -> None:
    room.disk.chill()
    await room.one.produce("t", batch_of(b"z"))
    found = room.log.read(BATCHES, 1000, BATCHES + 1, cached=True)
    assert found.size > 0


async def test_a_cold_fetch_waits_while_there_are_too_few_bytes(room: Room) -> None:
    room.disk.chill()
    room.one.send(ApiKey.FETCH, 11, fetch(BATCHES - 2, max_wait_ms=60_000, min_bytes=250_000))
    await room.asked_of_the_disk()
    room.disk.open_up()
    await until(lambda: len(room.broker.services.purgatory))
    room.broker.services.purgatory.expire_all()
    assert (await room.one.receive(ApiKey.FETCH, 11)).responses[0].partitions[0].error_code == 0


async def test_a_client_that_leaves_while_the_disk_is_asked_leaves_nothing_behind(room: Room) -> None:
    room.disk.chill()
    room.one.send(ApiKey.FETCH, 11, fetch(0))
    await room.asked_of_the_disk()
    room.one.close()
    await room.meanwhile()
    assert offsets_of(await room.other.ask(ApiKey.FETCH, 11, fetch(0))) == [0]


async def test_retention_may_take_the_segment_away_meanwhile(room: Room) -> None:
    for each in room.log.segments:
        each.release()
    room.disk.chill()
    room.one.send(ApiKey.FETCH, 11, fetch(0))
    await room.asked_of_the_disk()
    room.log.advance_log_start(25)
    room.disk.open_up()
    answer = await room.one.receive(ApiKey.FETCH, 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_damage_that_a_look_up_meets_is_reported_and_remembered(room: Room) -> None:
    first = room.log.segments[0]
    position, header = first.find(5)
    with first.path(".log").open("r+b") as file:
        file.seek(position + 16)
        file.write(b"\x07")
    room.disk.chill()
    room.disk.open_up()
    for _ in range(2):
        answer = await room.one.ask(ApiKey.FETCH, 11, fetch(5))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
    assert [(each.position, each.size) for each in first.damages] == [(position, header.size_bytes)]
    assert offsets_of(await room.one.ask(ApiKey.FETCH, 11, fetch(6))) == [6]


@pytest.mark.parametrize(
    ("timestamp", "version", "expected"),
    [(START_MS + 12, 5, 12), (START_MS + 33, 5, 33), (START_MS + 500_000, 5, -1), (-3, 7, BATCHES - 1)],
)
async def test_offsets_by_time_wait_for_the_disk_and_hold_nobody_up(
    room: Room, timestamp: int, version: int, expected: int
) -> None:
    for each in room.log.segments:
        each.release()
    room.disk.chill()
    partition = ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", partitions=[partition])])
    room.one.send(ApiKey.LIST_OFFSETS, version, request)
    if expected >= 0:
        await room.meanwhile()
    answer = (await room.one.receive(ApiKey.LIST_OFFSETS, version)).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (0, expected)


async def test_aborted_transactions_are_looked_up_beside_the_loop(config: BrokerConfig) -> None:
    disk = ColdDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        producer = Transactional(raw, "x")
        for commit in (False, True, False):
            await producer.begin()
            await producer.send("t", b"a", timestamp_ms=broker.clock.now_ms())
            assert await producer.end(commit=commit) == 0
        await producer.begin()  # which waits until the last one has ended
        disk.chill()
        disk.open_up()
        log = broker.topics.get("t").partitions[0].log  # type: ignore[union-attr]
        log.segments[0].release()
        answer = (await raw.ask(ApiKey.FETCH, 11, fetch(0, isolation_level=1))).responses[0].partitions[0]
        assert [each.first_offset for each in answer.aborted_transactions] == [0, 4]
        disk.thaw()


async def test_retention_asks_the_disk_beside_the_loop_how_old_segments_are(config: BrokerConfig) -> None:
    config = replace(config, log_segment_bytes=1 << 20)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for at in range(BATCHES):
            await raw.produce("t", batch_of(VALUE, timestamp_ms=START_MS + at))
    disk = ColdDisk()
    async with Broker(config, disk=disk) as broker:
        (partition,) = broker.topics.partitions()
        disk.chill()
        broker.services.background.retention.check()
        await until(lambda: disk.waiting)
        assert partition.log.log_start_offset == 0
        disk.open_up()
        async with asyncio.timeout(20):
            while broker.services.background.retention.is_busy:
                await asyncio.sleep(0)
        assert partition.log.log_start_offset == BATCHES
        disk.thaw()
