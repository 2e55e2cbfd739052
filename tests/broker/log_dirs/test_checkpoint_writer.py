"""Checkpoints that are due soon, while a disk takes its time, and those that it has refused."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from odradek.broker import Broker
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.log_dirs.checkpoint_writer import CheckpointWriter
from odradek.broker.log_dirs.log_dirs import Checkpoint
from odradek.storage.errors import DiskError
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import WAIT_S, FullDisk, RuledDisk, disk_error
from odradek.tests.support.waiting import until

SLOW, FAST = Path("slow"), Path("fast")


class Surroundings:
    """A timer that is rung by hand, and work of which each directory's is done by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.under_way: dict[Path, tuple[Callable[[], None], asyncio.Future[None]]] = {}
        self.written: list[tuple[Path, int]] = []
        self.pauses_ms: list[int] = []
        # Why the slow disk refuses a checkpoint.
        self.error: DiskError | None = None
        self.failures: list[BaseException] = []
        self.taken = 0
        me = cast("Any", self)
        self.writer = CheckpointWriter(BrokerConfig(), me, me, me, self._take)

    def _take(self) -> Checkpoint:
        self.taken += 1
        return Checkpoint({each: partial(self._write, each, self.taken) for each in (SLOW, FAST)})

    def _write(self, directory: Path, number: int) -> None:
        if self.error is not None and directory == SLOW:
            raise self.error
        self.written.append((directory, number))

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.pauses_ms.append(delay_ms)
        self.due.append(callback)

    def run(self, kind: object, directory: Path, work: Callable[[], None]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way[directory] = work, future
        return future

    def watch(self, running: asyncio.Future[None], failed: str) -> None:
        running.add_done_callback(lambda done: self.failures.append(error) if (error := done.exception()) else None)

    async def ring(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()
        await self._settle()

    async def do(self, directory: Path) -> None:
        work, future = self.under_way.pop(directory)
        try:
            work()
        except DiskError as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_disk_that_hangs_holds_up_no_checkpoint_of_another() -> None:
    around = Surroundings()
    around.writer.write_in_background()
    await around.do(FAST)
    around.writer.write_soon()
    await around.ring()
    await around.do(FAST)
    assert around.written == [(FAST, 1), (FAST, 2)]
    around.writer.write_in_background((SLOW,))
    assert around.under_way.keys() == {SLOW}
    await around.do(SLOW)
    await around.do(SLOW)
    assert around.written[2:] == [(SLOW, 1), (SLOW, around.taken)]
    assert not around.due and not around.under_way


async def test_who_comes_while_a_checkpoint_is_written_shares_the_next_one() -> None:
    around = Surroundings()
    around.writer.write_in_background()
    waiting = [asyncio.ensure_future(around.writer.write(SLOW)) for _ in range(3)]
    around.writer.write_soon()
    await around.ring()
    await around.do(SLOW)
    assert not any(each.done() for each in waiting)
    await around.do(SLOW)
    await asyncio.gather(*waiting)
    assert around.written == [(SLOW, 1), (SLOW, around.taken)] and around.under_way.keys() == {FAST}


async def test_what_a_full_disk_has_refused_is_tried_again_after_pauses_that_grow() -> None:
    around = Surroundings()
    around.error = DiskError("write", SLOW / "log-start-offset-checkpoint", OSError(errno.ENOSPC, "full"))
    around.writer.write_in_background()
    await around.do(FAST)
    for _ in range(7):
        await around.do(SLOW)
        # Another that is refused meanwhile adds no pause.
        around.writer.write_in_background()
        await around.do(SLOW)
        await around.do(FAST)
        await around.ring()
    assert around.pauses_ms == [500, 1000, 2000, 4000, 8000, 8000, 8000]
    assert around.failures == [around.error] * 14
    around.error = None
    await around.do(SLOW)
    assert around.written[-1] == (SLOW, around.taken) and not around.due
    around.error = DiskError("fsync", SLOW, OSError(errno.ENOSPC, "full"))
    around.writer.write_soon()
    await around.ring()
    await around.do(SLOW)
    assert around.pauses_ms[-1] == 500


async def test_a_device_that_is_gone_gets_no_further_checkpoint() -> None:
    around = Surroundings()
    around.error = DiskError("write", SLOW / "log-start-offset-checkpoint", OSError(errno.EIO, "gone"))
    around.writer.write_in_background()
    await around.do(SLOW)
    assert not around.due and around.failures == [around.error]


async def test_the_log_start_is_on_disk_soon_after_a_full_disk(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.log_dirs.checkpoint_writer.RETRY_MS", 1)
    disk = FullDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"x"))
        disk.is_full = lambda path: path.name.startswith("log-start-offset-checkpoint")
        background, partition = broker.services.background, broker.topics.partitions()[0]
        background.delete_lastingly(partition, 1)
        await until(lambda: background.checkpoints._pauses_ms)
        disk.free()
        await until(lambda: partition.log.start_on_disk == 1)


async def test_what_is_refused_during_a_stop_is_not_tried_behind_it(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory may be another broker's by then."""
    begun, may_end = threading.Event(), threading.Event()

    def refuse(operation: str, path: Path) -> None:
        if path.name.startswith("log-start-offset-checkpoint") and not may_end.is_set():
            begun.set()
            may_end.wait(WAIT_S)
            raise disk_error(operation, path, errno.ENOSPC)

    disk = RuledDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        disk.rule = refuse
        broker.services.background.checkpoints.write_in_background()
        await until(begun.is_set)
        closing, close = asyncio.Event(), broker.timers.close

        def note_close() -> None:
            close()
            closing.set()

        monkeypatch.setattr(broker.timers, "close", note_close)
        stopping = asyncio.ensure_future(broker.stop())
        await closing.wait()
        may_end.set()
        await stopping
        assert broker.timers._heap == []
