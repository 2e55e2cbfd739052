"""The links of a backup while everything else goes on: at each of its steps on the disk one other thing happens.

The model is the list of the states that the broker has had. A backup must hold exactly one of them, and none that was
over before the backup began.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics import metadata_journal, validation
from odradek.broker.topics.metadata_journal import Metadata
from odradek.broker.topics.topic import Topic
from odradek.protocol.apis import ApiKey, OwnApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest
from odradek.protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.storage.backup import back_up_held, restore
from odradek.storage.checkpoints import LOG_START, read_offsets
from odradek.storage.config import LogConfig
from odradek.storage.errors import DiskError
from odradek.storage.files import Disk
from odradek.storage.held_files import Held
from odradek.storage.log import Log
from odradek.storage.segments import swap
from odradek.tests.support.brokers.compaction_here import compact_here
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.seeds import seeds
from odradek.tests.support.waiting import until

SEEDS = seeds([0], range(20))
BACKUPS = 8
# Steps of the thread that links a few segments.
STEPS = 12
TOPICS = ("compacted", "retained", "third")
VERY_LARGE = 40_000
# By topic and partition: where the log begins, and first offset, last offset and CRC of each batch.
Contents = dict[tuple[str, int], tuple[int, list[tuple[int, int, int]]]]


def contents_of(log: Log) -> tuple[int, list[tuple[int, int, int]]]:
    start = log.log_start_offset
    return start, [(each.base_offset, each.last_offset, each.crc) for each, _ in log.iter_batches(start)]


class ActingDisk(Disk):
    """`act` runs on the event loop before and after each link of a thread, once `watch` was called there.

    The thread waits until the other thing is done, so each interleaving is the same in every run.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._act: Callable[[], Awaitable[None]] | None = None

    def watch(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` on this loop at each step from now on."""
        self._loop, self._act = asyncio.get_running_loop(), act

    def forget_watch(self) -> None:
        """Run nothing more."""
        self._act = None

    def link(self, source: Path, target: Path) -> None:
        self._step()
        super().link(source, target)
        self._step()

    def _step(self) -> None:
        loop, act = self._loop, self._act
        if loop is None or act is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        # The loop makes links, too: those of a compacted segment.
        if running is None:
            asyncio.run_coroutine_threadsafe(_done(act), loop).result(60)


async def _done(act: Callable[[], Awaitable[None]]) -> None:
    await act()


class World:
    """The broker, and what it has held since `began`."""

    def __init__(self, broker: Broker, disk: ActingDisk, raw: Raw, tool: Raw, seed: int = 0) -> None:
        self.broker, self.disk, self.raw, self.tool, self.random = broker, disk, raw, tool, Random(seed)
        self.times_ms = count(1_700_000_000_000, 1_000)
        self.seen: list[Contents] = []
        self.done: list[str] = []

    def note(self) -> None:
        topics = self.broker.topics.all()
        self.seen.append(
            {(topic.name, each.index): contents_of(each.log) for topic in topics for each in topic.partitions}
        )

    async def act(self) -> None:
        """Do nothing, or one thing."""
        if self.random.random() < 0.4:
            return
        action = self.random.choice(
            (self.produce, self.produce, self.produce_much, self.compact, self.retain, self.delete_records,
             self.delete, self.create, self.add_partition)
        )  # fmt: skip
        self.done.append(action.__name__)
        await action()
        self.note()

    def _topic(self) -> Topic | None:
        topics = [each for each in self.broker.topics.all() if each.name in TOPICS]
        return self.random.choice(topics) if topics else None

    async def _append(self, size: int) -> None:
        """Append a batch, which rolls a segment: none holds two that are a second apart."""
        topic = self._topic()
        if topic is not None:
            record = Record(0, next(self.times_ms), b"%d" % self.random.randrange(2), os.urandom(size))
            partition = self.random.randrange(len(topic.partitions))
            assert (await self.raw.produce(topic.name, encode_batch([record]), partition)).error_code == 0

    async def produce(self) -> None:
        await self._append(400)

    async def produce_much(self) -> None:
        await self._append(VERY_LARGE)

    async def compact(self) -> None:
        topic = self.broker.topics.get("compacted")
        cleaner = self.broker.services.background.cleaner
        if topic is not None and not cleaner.is_busy:
            cleaner.clean_now(topic)
            await self._wait_for(lambda: not cleaner.is_busy)

    async def retain(self) -> None:
        retention = self.broker.services.background.retention
        retention.check()
        await self._wait_for(lambda: not retention.is_busy)

    async def _wait_for(self, is_done: Callable[[], bool]) -> None:
        await until(is_done)

    async def delete_records(self) -> None:
        topic = self.broker.topics.get("third")
        if topic is not None:
            end = topic.partitions[0].log.log_end_offset
            await self.raw.delete_records("third", self.random.randint(0, end))

    async def delete(self) -> None:
        topic = self._topic()
        if topic is not None:
            await self.raw.delete_topic(topic.name)

    async def create(self) -> None:
        for name in TOPICS:
            if self.broker.topics.get(name) is None:
                delay_ms = self.random.choice(("0", "60000"))
                policy = "compact" if name == "compacted" else "delete"
                kept = "2000" if name == "retained" else "-1"
                result = await self.raw.create_topic(
                    name, cleanup_policy=policy, retention_bytes=kept, retention_ms="-1", segment_ms="1",
                    file_delete_delay_ms=delay_ms,
                )  # fmt: skip
                assert result.error_code == 0

    async def add_partition(self) -> None:
        topic = self.broker.topics.get("third")
        if topic is not None and len(topic.partitions) < 4:
            request = CreatePartitionsRequest([CreatePartitionsTopic("third", len(topic.partitions) + 1)], 1_000)
            await self.raw.ask(ApiKey.CREATE_PARTITIONS, 3, request)

    async def back_up(self, act: Callable[[], Awaitable[None]], directory: Path) -> None:
        """Back up while `act` runs at each step, restore, and compare."""
        self.seen, self.done = [], []
        self.note()
        self.disk.watch(act)
        response = await self.tool.ask(OwnApiKey.ODRADEK_BEGIN_BACKUP, 0, OdradekBeginBackupRequest())
        self.disk.forget_watch()
        assert response.error_code == 0, (response.error_message, self.done)
        held = [Held.read(Path(each)) for each in response.directories]
        for _ in range(3 if act == self.act else 0):
            await self.act()  # what comes later does not belong to the backup
        back_up_held(held, directory / "backup", lambda _: None)
        await self.tool.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, OdradekRenewLeaseRequest(response.lease_id, is_end=True))
        restore(directory / "backup", [directory / "restored"], lambda _: None)
        assert found_in(directory / "restored") in self.seen, self.done


@pytest.fixture
async def world(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(validation, "VERY_LARGE_BYTES", VERY_LARGE)
    monkeypatch.setattr(metadata_journal, "SNAPSHOT_RECORDS", 3)
    compact_here(monkeypatch)
    disk = ActingDisk()
    config = replace(config, log_cleaner_enable=False, log_retention_check_interval_ms=3_600_000)
    async with (
        Broker(config, disk=disk) as broker,
        await Raw.connect(broker.address) as raw,
        await Raw.connect(broker.address) as tool,
    ):
        yield World(broker, disk, raw, tool)


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_at_its_steps_a_backup_holds_one_moment(seed: int, world: World, tmp_path: Path) -> None:
    world.random.seed(seed)
    await world.create()
    for number in range(BACKUPS):
        for _ in range(5):
            await world.act()
        await world.back_up(world.act, tmp_path / f"{number}")


@pytest.mark.parametrize("action", ["produce_much", "delete_records", "retain", "compact", "delete"])
async def test_one_thing_at_any_step_leaves_a_backup_whole(action: str, world: World, tmp_path: Path) -> None:
    for step in range(STEPS):
        await world.create()
        if action != "produce_much":
            # A very large batch takes another way where its segment is empty.
            for _ in range(12):
                await world.produce()
        steps = count()

        async def act(step: int = step, steps: count[int] = steps) -> None:
            if next(steps) == step:
                await getattr(world, action)()
                world.note()

        await world.back_up(act, tmp_path / f"{step}")
        for name in world.broker.topics.names():
            await world.raw.delete_topic(name)


async def test_a_compaction_that_finds_no_room_leaves_a_backup_whole(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.raw.create_topic("compacted", cleanup_policy="compact", segment_ms="1", retention_ms="-1")
    for _ in range(12):
        await world.produce()

    def fail(directory: Path, *_: object) -> None:
        raise DiskError("link", directory, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(swap, "place", fail)
    await world.compact()
    segments = world.broker.topics.all()[0].partitions[0].log.segments
    assert len(segments) > 2 and not any(each.is_retired for each in segments)

    async def nothing() -> None:
        pass

    await world.back_up(nothing, tmp_path)


async def _most_calls_in_a_turn(world: World) -> int:
    """Return how many functions the turn of a backup calls that calls most: what it takes, without noise."""
    loop, turns = asyncio.get_running_loop(), [0]

    def note(_: FrameType, event: str, __: object) -> None:
        turns[-1] += event == "call"

    def next_turn() -> None:
        turns.append(0)
        ticks[0] = loop.call_soon(next_turn)

    ticks = [loop.call_soon(next_turn)]
    sys.setprofile(note)
    try:
        response = await world.tool.ask(OwnApiKey.ODRADEK_BEGIN_BACKUP, 0, OdradekBeginBackupRequest())
    finally:
        sys.setprofile(None)
        ticks[0].cancel()
    assert response.error_code == 0
    await world.tool.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, OdradekRenewLeaseRequest(response.lease_id, is_end=True))
    return max(turns)


async def test_the_moment_calls_two_functions_a_partition(world: World) -> None:
    """It holds everybody else, and is one turn however many there are. What is around it takes its turns."""
    end_slices_after(10)
    calls: list[int] = []
    for number in range(2):
        await world.raw.create_topic(f"many-{number}", 300)
        # A timer that is due in the same turn adds to it.
        calls.append(min([await _most_calls_in_a_turn(world) for _ in range(3)]))
    assert (calls[1] - calls[0]) / 300 <= 2.2, calls


def found_in(directory: Path) -> Contents:
    """Return what the logs of a restored data directory hold, of the topics that its journal has."""
    starts = read_offsets(directory / LOG_START)
    found: Contents = {}
    for topic in Metadata(directory).topics.values():
        for index in topic.held:
            log = Log.open(
                directory / f"{topic.name}-{index}", LogConfig(), clean=False, now_ms=0, recovery_point=-1,
                log_start_offset=starts.get((topic.name, index), 0),
            )  # fmt: skip
            found[topic.name, index] = contents_of(log)
    return found
