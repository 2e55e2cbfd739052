"""How a stop closes many logs: with one call that forces the file system to disk, where that can be trusted.

A disk that is full or hangs costs no other data directory its clean-stop marker.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig, server
from odradek.broker.topics import topics
from odradek.broker.topics.topics import _close_together
from odradek.storage.checkpoints import CLEAN_SHUTDOWN
from odradek.storage.errors import StorageError
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch, read_all
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut
from odradek.tests.support.disks.ruled_disk import FullDisk, HangingDisk
from odradek.tests.support.waiting import until

LOGS = 3
BATCHES = 4


def opened(directory: Path, disk: FaultyDisk, *, clean: bool, points: list[int]) -> list[Log]:
    return [
        Log.open(
            directory / f"t-{index}", LogConfig(), clean=clean, now_ms=1000, recovery_point=points[index], disk=disk
        )
        for index in range(LOGS)
    ]


def filled(directory: Path, disk: FaultyDisk) -> list[Log]:
    """Return logs of which the first batch is on disk, and the others are not."""
    logs = opened(directory, disk, clean=True, points=[0] * LOGS)
    for log in logs:
        for number in range(BATCHES):
            append(log, batch(number, producer_id=7, sequence=number))
            if not number:
                log.flush()
    return logs


def close(logs: list[Log], disk: FaultyDisk) -> None:
    _close_together(logs, partial(disk.fsync_all, logs[0].segments[-1].file))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_logs_that_were_closed_together_is_lost_with_the_power(tmp_path: Path, seed: int) -> None:
    disk = FaultyDisk()
    logs = filled(tmp_path, disk)
    data = [read_all(log) for log in logs]
    close(logs, disk)
    assert [(log.is_whole, log.recovery_point) for log in logs] == [(True, BATCHES)] * LOGS
    disk.lose(seed)
    again = opened(tmp_path, disk, clean=True, points=[BATCHES] * LOGS)
    assert [read_all(log) for log in again] == data
    assert [log.recovery.clean for log in again] == [True] * LOGS
    assert [log.producers.items().__next__()[0] for log in again] == [7] * LOGS


def test_a_power_cut_at_any_step_of_the_close_leaves_what_was_on_disk(tmp_path: Path) -> None:
    disk = FaultyDisk()
    logs = filled(tmp_path / "whole", disk)
    begun = disk.steps
    close(logs, disk)
    cuts = sorted({each - begun for each in disk.marks if each >= begun})
    assert len(cuts) > 5 * LOGS
    for cut in cuts:
        disk = FaultyDisk()
        logs = filled(tmp_path / str(cut), disk)
        data = [read_all(log) for log in logs]
        disk.stop_after(cut)
        with pytest.raises(PowerCut):
            close(logs, disk)
        assert not any(log.is_whole for log in logs)
        del logs
        disk.lose(seed=cut)
        for log, whole in zip(opened(tmp_path / str(cut), disk, clean=False, points=[1] * LOGS), data, strict=True):
            left = read_all(log)
            assert whole.startswith(left) and log.log_end_offset >= 1


def test_where_writes_were_lost_each_log_is_forced_by_itself_and_says_so(tmp_path: Path) -> None:
    disk = FaultyDisk()
    logs = filled(tmp_path, disk)
    disk.fsync_fails = True
    with pytest.raises(StorageError):
        close(logs, disk)
    assert not any(log.is_whole for log in logs)


def test_where_there_is_no_such_call_each_log_is_forced_by_itself(tmp_path: Path) -> None:
    disk = FaultyDisk()
    logs = filled(tmp_path, disk)
    data = [read_all(log) for log in logs]
    _close_together(logs, lambda: False)
    assert all(log.is_whole for log in logs)
    disk.lose(seed=0)
    assert [read_all(log) for log in opened(tmp_path, disk, clean=True, points=[BATCHES] * LOGS)] == data


async def test_a_broker_with_many_logs_to_close_stops_cleanly_with_few_fsyncs(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MANY_LOGS", 10)
    forced: list[str] = []

    class Counting(FaultyDisk):
        def fsync(self, file: object) -> None:
            forced.append("file")

        def fsync_all(self, file: object) -> bool:
            forced.append("all")
            return True

    async with Broker(config, disk=Counting()) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 10)
        for index in range(10):
            await raw.produce("t", batch_of(b"x"), index)
        forced.clear()
    assert forced.count("all") == 1
    assert len(forced) < 10
    async with Broker(config) as broker:
        topic = broker.topics.get("t")
        assert topic is not None
        assert [(each.log.recovery.clean, each.log.log_end_offset) for each in topic.partitions] == [(True, 1)] * 10


# -- Several data directories


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "ab"]


async def fill(broker: Broker) -> None:
    async with await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 4)
        for index in range(4):
            await raw.produce("t", batch_of(b"x"), index)


def marked(dirs: list[Path]) -> list[bool]:
    return [(each / CLEAN_SHUTDOWN).exists() for each in dirs]


@pytest.mark.parametrize("refused", ["recovery-point-offset-checkpoint", CLEAN_SHUTDOWN])
@pytest.mark.parametrize("full", ["a", "b", "metadata"])
async def test_a_full_disk_costs_its_own_directory_alone_the_clean_stop(
    config: BrokerConfig, dirs: list[Path], full: str, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = dirs[0].with_name("metadata")
    config = replace(config, log_dirs=tuple(map(str, dirs)), metadata_log_dir=str(metadata))
    disk = FullDisk()
    async with Broker(config, disk=disk) as broker:
        await fill(broker)
        disk.is_full = lambda path: path.parent.name == full and refused in path.name
    every = [*dirs, metadata]
    # The directory of the metadata alone has no checkpoints.
    is_sound = [each.name != full or (full == "metadata" and refused != CLEAN_SHUTDOWN) for each in every]
    assert marked(every) == is_sound
    assert [f"{each}: not all could be closed" in caplog.text for each in every] == [not each for each in is_sound]
    async with Broker(config) as broker:
        for each in broker.topics.partitions():
            assert each.log.recovery.clean == is_sound[dirs.index(each.log.directory.parent)]


@pytest.mark.parametrize("work", ["none", "a flush"])
async def test_a_disk_that_hangs_costs_its_own_directory_alone_the_clean_stop(
    config: BrokerConfig, dirs: list[Path], monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(server, "CLOSE_DEADLINE_S", 60)
    monkeypatch.setattr(server, "HANG_S", 0)
    disk = HangingDisk()
    broker = Broker(replace(config, log_dirs=tuple(map(str, dirs))), disk=disk)
    await broker.start()
    await fill(broker)
    disk.hang(dirs[1], kinds={"fsync"})
    if work == "a flush":
        (partition, *_) = (each for each in broker.topics.partitions() if each.log.directory.parent == dirs[1])
        broker.services.flusher.schedule(partition, 0)
    stop = asyncio.ensure_future(broker.stop())
    try:
        await until(lambda: marked(dirs) == [True, False] and disk.waiting > 0)
        assert not stop.done()
    finally:
        disk.free()
        await stop
    assert marked(dirs) == [True, True]
