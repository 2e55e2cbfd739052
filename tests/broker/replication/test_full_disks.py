"""How a broker finds out that its data directory has room again, and how often it tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from odradek.broker.log_dirs.log_dirs import LogDir
from odradek.broker.replication.full_disks import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, FullDisks
from odradek.broker.threads import DiskThreads
from odradek.broker.timers import Timers
from odradek.protocol.errors import ErrorCode
from odradek.storage.errors import StorageError
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.disks.ruled_disk import FullDisk
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until


@dataclass
class World:
    """One data directory, and a count of what the controller is told."""

    home: LogDir
    disk: FullDisk
    clock: FakeClock = field(default_factory=FakeClock)
    told: int = 0

    def __post_init__(self) -> None:
        self.timers = Timers(self.clock)
        self.threads = DiskThreads(self.timers, self.clock)
        self.full_disks = FullDisks(self.disk, self.clock, self.timers, self.threads)
        self.full_disks.tell = self.count

    def count(self) -> None:
        self.told += 1

    async def wait(self, pause_ms: int) -> None:
        """Let the time pass, and a trial end that is due then."""
        self.clock.advance(pause_ms)
        self.timers.fire_due()
        async with asyncio.timeout(10):
            while self.full_disks._trials:  # pyright: ignore[reportPrivateUsage]
                await asyncio.sleep(0.001)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    disk = FullDisk()
    made = World(LogDir(tmp_path, None, None, disk), disk)
    yield made
    made.full_disks.close()
    made.threads.close()


async def test_a_kill_under_a_trial_leaves_no_file_that_takes_the_room(world: World) -> None:
    world.full_disks.note(world.home)
    has_name: list[bool] = []
    world.disk.is_full = lambda path: bool(has_name.append(path.exists()))
    await world.wait(FIRST_PAUSE_MS)
    assert (has_name, world.home.is_full) == ([False, False], False)


async def test_the_controller_is_told_once_of_a_full_disk_and_once_of_room(world: World) -> None:
    world.disk.fill()
    for _ in range(3):
        world.full_disks.note(world.home)
    assert (world.home.is_full, world.told) == (True, 1)
    pause_ms = FIRST_PAUSE_MS
    for _ in range(4):
        await world.wait(pause_ms)
        assert (world.home.is_full, world.told) == (True, 1)
        pause_ms *= 2
    world.disk.free()
    await world.wait(pause_ms - 1)
    assert world.home.is_full
    await world.wait(1)
    assert (world.home.is_full, world.told) == (False, 2)
    # Nothing is left of the trials.
    assert list(world.home.path.iterdir()) == []


async def test_a_disk_that_is_full_again_and_again_is_tried_less_and_less_often(world: World) -> None:
    pauses: list[int] = []
    for _ in range(9):
        world.full_disks.note(world.home)
        pauses.append(0)
        while world.home.is_full:
            pauses[-1] += FIRST_PAUSE_MS
            await world.wait(FIRST_PAUSE_MS)
    assert pauses == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]
    # After a long time with room it is as if it had never been full.
    world.clock.advance(LONGEST_PAUSE_MS)
    world.full_disks.note(world.home)
    await world.wait(FIRST_PAUSE_MS)
    assert not world.home.is_full


async def test_a_directory_that_fails_is_tried_no_more(world: World) -> None:
    world.full_disks.note(world.home)
    world.home.fail(StorageError("gone"), 0)
    await world.wait(FIRST_PAUSE_MS)
    await world.wait(LONGEST_PAUSE_MS)
    assert world.home.is_full and world.told == 1


async def test_a_broker_takes_roles_on_a_full_disk_and_says_that_others_should_lead(tmp_path: Path) -> None:
    made = HandCluster(tmp_path)
    disk = made.disks[1] = FullDisk()
    async with made as cluster:
        await cluster.assign("t", leader=1)
        await cluster.assign("u", leader=2)
        disk.is_full = lambda path: path.suffix == ".log" or path.name == ".room"
        async with await cluster.connect(1) as raw:
            refused = await raw.produce("t", batch_of(b"x"), acks=1)
            assert refused.error_code == int(ErrorCode.KAFKA_STORAGE_ERROR)
            for state in cluster.controller.states.values():
                state.leader_epoch += 1
            answer = await cluster.leader_and_isr(1, [("t", 0), ("u", 0)])
            codes = {each.error_code for topic in answer.topics for each in topic.partition_errors}
            assert codes == {int(ErrorCode.INELIGIBLE_REPLICA)}
            assert (cluster.partition(1).leader_epoch, cluster.partition(1, "u").leader_epoch) == (1, 1)
            assert (await raw.fetch("t", 0)).error_code == 0
        disk.free()
        home = cluster.brokers[1].topics._dirs.all[0]  # pyright: ignore[reportPrivateUsage]
        await until(lambda: not home.is_full)
        answer = await cluster.leader_and_isr(1, [("t", 0), ("u", 0)])
        assert {each.error_code for topic in answer.topics for each in topic.partition_errors} == {0}
