"""The scrubber of a running broker: it logs damage once, records around the damage are served, and a stop is quick."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import iter_headers
from odradek.storage.files import Disk, File
from odradek.tests.support.clock import FakeClock
from odradek.tests.support.raw import Raw, batch_of

HOUR_MS = 3_600_000
VALUE = b"x" * 300_000


class Gated(Disk):
    """A disk on which the scrubber's reads wait for a gate; a test can wait for such a read."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.reading = threading.Event()

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        self.reading.set()
        assert self.gate.wait(20)
        return super().read_into(file, target, position)


class Room:
    """A broker whose clock the test moves, with a topic `t` of several segments."""

    def __init__(self, broker: Broker, clock: FakeClock, disk: Gated, raw: Raw) -> None:
        self.broker = broker
        self.clock = clock
        self.disk = disk
        self.raw = raw

    @property
    def log(self) -> Any:
        topic = self.broker.topics.get("t")
        assert topic is not None
        return topic.partitions[0].log

    def begin(self) -> None:
        self.disk.reading.clear()
        self.clock.advance(HOUR_MS)
        self.broker.timers.fire_due()

    async def round(self) -> None:
        self.begin()
        await self.broker.services.background.scrubber.wait_idle()

    async def fetch(self, offset: int) -> Any:
        return await self.raw.fetch("t", offset, partition_max_bytes=1)


@pytest.fixture
async def room(config: BrokerConfig) -> AsyncIterator[Room]:
    clock, disk = FakeClock(), Gated()
    config = replace(
        config,
        log_scrub_interval_ms=HOUR_MS,
        log_segment_bytes=1 << 20,
        log_retention_ms=-1,
        connections_max_idle_ms=-1,
    )
    async with Broker(config, clock=clock, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for _ in range(10):
            assert (await raw.produce("t", batch_of(VALUE))).error_code == 0
        yield Room(broker, clock, disk, raw)
        disk.gate.set()


def spoil(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"!")


async def test_damage_is_reported_once_and_all_records_around_it_are_served(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    segment = room.log.segments[1]
    position, header = segment.find(4)
    spoil(segment.path(".log"), position + 1000)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            await room.round()
    (line,) = [each.getMessage() for each in caplog.records]
    assert str(segment.path(".log")) in line
    assert f"damaged at {position}" in line
    assert [(each.position, each.size) for each in segment.damages] == [(position, header.size_bytes)]
    assert (await room.fetch(4)).error_code == ErrorCode.CORRUPT_MESSAGE
    for offset in (3, 5, 9):
        answer = await room.fetch(offset)
        assert [each.base_offset for _, each in iter_headers(answer.records)] == [offset]
    assert (await room.raw.produce("t", batch_of(VALUE))).base_offset == 10


async def test_the_segment_that_is_written_to_is_left_alone(room: Room) -> None:
    active = room.log.segments[-1]
    spoil(active.path(".log"), 1000)
    await room.round()
    assert active.damages == ()


async def test_a_stop_waits_only_for_the_read_under_way(room: Room) -> None:
    room.disk.gate.clear()
    room.begin()
    await asyncio.to_thread(room.disk.reading.wait, 20)
    stopping = asyncio.ensure_future(room.broker.services.background.scrubber.stop())
    await asyncio.sleep(0)
    room.disk.reading.clear()
    room.disk.gate.set()
    await stopping
    assert not room.disk.reading.is_set()


async def test_a_broker_that_scrubs_stops(config: BrokerConfig) -> None:
    clock, disk = FakeClock(), Gated()
    config = replace(config, log_scrub_interval_ms=HOUR_MS, log_segment_bytes=1 << 20)
    async with Broker(config, clock=clock, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for _ in range(5):
            await raw.produce("t", batch_of(VALUE))
        disk.gate.clear()
        disk.reading.clear()
        clock.advance(HOUR_MS)
        broker.timers.fire_due()
        await asyncio.to_thread(disk.reading.wait, 20)
        disk.reading.clear()
        disk.gate.set()
    assert not disk.reading.is_set()


async def test_a_segment_that_is_deleted_meanwhile_is_not_reported(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    segment = room.log.segments[0]
    spoil(segment.path(".log"), 1000)
    room.disk.gate.clear()
    room.begin()
    await asyncio.to_thread(room.disk.reading.wait, 20)
    room.log.advance_log_start(room.log.segments[2].base_offset)
    for each in room.log.take_retired():
        each.unlink()
    room.disk.gate.set()
    with caplog.at_level(logging.ERROR):
        await room.broker.services.background.scrubber.wait_idle()
    assert [each.getMessage() for each in caplog.records] == []


async def test_a_missing_file_is_reported_once_and_the_others_are_read(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    gone, other = room.log.segments[0], room.log.segments[1]
    gone.release()
    gone.path(".log").unlink()
    spoil(other.path(".log"), 1000)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            await room.round()
    assert len([each for each in caplog.records if "could not be checked" in each.getMessage()]) == 1
    assert len(other.damages) == 1
    gone.path(".log").touch()
