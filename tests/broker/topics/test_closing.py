"""How a stop closes many logs: with one call that forces the file system to disk, where that can be trusted."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics import topics
from odradek.broker.topics.topics import _close_together
from odradek.storage.errors import StorageError
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch, read_all
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

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
