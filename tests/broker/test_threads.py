"""Threads of a broker: each kind of work has its own, for each data directory, and one that hangs is logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.threads import SLOW_MS, DiskThreads, Work, in_thread
from odradek.broker.timers import Timers
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import HangingDisk
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

# More than any kind of work has threads.
PARTITIONS = 20
START_MS = 1_700_000_000_000
HERE = Path("/data")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


@pytest.fixture
async def threads(clock: FakeClock) -> AsyncIterator[DiskThreads]:
    timers = Timers(clock)
    found = DiskThreads(timers, clock)
    yield found
    found.close()
    timers.close()


async def test_results_and_errors_come_back(threads: DiskThreads) -> None:
    assert await threads.run(Work.READ, HERE, lambda: 42) == 42

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await threads.run(Work.READ, HERE, fail)


async def test_work_that_was_cancelled_and_hangs_is_waited_for_without_a_look_in_each_turn(
    threads: DiskThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, looks = threading.Event(), list[int]()
    threads.run(Work.READ, HERE, lambda: gate.wait(60)).cancel()
    wait = asyncio.wait
    monkeypatch.setattr(asyncio, "wait", lambda *given: (looks.append(1), wait(*given))[1])
    waiting = asyncio.ensure_future(threads.wait_idle(HERE))
    await threads.wait_idle(Path("/other"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done() and len(looks) <= 1
    gate.set()
    await waiting


async def test_a_directory_is_not_idle_before_the_work_behind_other_work_has_ended(threads: DiskThreads) -> None:
    """As a checkpoint that comes behind another one."""
    gates = threading.Event(), threading.Event()
    first = threads.run(Work.CHECKPOINT, HERE, lambda: gates[0].wait(60))

    async def follow() -> None:
        await asyncio.wait([first])
        await threads.run(Work.CHECKPOINT, HERE, lambda: gates[1].wait(60))

    following = asyncio.ensure_future(follow())
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(threads.wait_idle(HERE))
    await asyncio.sleep(0)
    gates[0].set()
    await first
    for _ in range(5):
        await asyncio.sleep(0)
    was_idle = waiting.done()
    gates[1].set()
    await asyncio.gather(following, waiting)
    assert not was_idle


@pytest.mark.parametrize("kind", list(Work))
async def test_work_has_a_bounded_number_of_threads_and_keeps_its_order(threads: DiskThreads, kind: Work) -> None:
    gate, started = threading.Event(), list[int]()

    def work(number: int) -> int:
        started.append(number)
        assert gate.wait(60)
        return number

    count = kind.threads + 5
    running = [threads.run(kind, HERE, lambda at=at: work(at)) for at in range(count)]
    # Another kind and another directory are not held up; when they are done, so many have begun.
    other = Work.READ if kind is not Work.READ else Work.LOOK_UP
    await threads.run(other, HERE, list)
    await threads.run(kind, HERE / "other", list)
    assert len(started) <= kind.threads
    gate.set()
    assert await asyncio.gather(*running) == list(range(count))
    assert sorted(started[: kind.threads]) == list(range(kind.threads))


async def test_a_thread_is_used_again(threads: DiskThreads) -> None:
    names = set[str]()
    for _ in range(20):
        names.add(await threads.run(Work.READ, HERE, lambda: threading.current_thread().name))
        (pool,) = threads._pools.values()
        # Its result is out, but it may not wait for work yet.
        await until(lambda pool=pool: pool._idle == pool._threads)
    assert len(names) == 1


async def test_a_cancelled_wait_leaves_the_thread_to_the_next(threads: DiskThreads) -> None:
    gate = threading.Event()
    waiting = threads.run(Work.CHECKPOINT, HERE, lambda: gate.wait(60))
    waiting.cancel()
    following = threads.run(Work.CHECKPOINT, HERE, lambda: 1)
    gate.set()
    assert await following == 1


async def test_a_thread_that_waits_keeps_nothing_of_its_last_work(threads: DiskThreads) -> None:
    """That may be a view, whose deleted files stay as long, a large request or a token."""

    class View:
        """What some work needs."""

    view = View()
    kept = ref(view)
    assert await threads.run(Work.LOOK_UP, HERE, lambda view=view: str(view))
    del view
    async with asyncio.timeout(10):
        while kept() is not None:
            await asyncio.sleep(0.01)


async def test_closed_threads_end(threads: DiskThreads) -> None:
    thread = await threads.run(Work.READ, HERE, threading.current_thread)
    assert thread.daemon
    threads.close()
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()


async def test_work_that_hangs_is_logged_once_and_again_when_it_is_done(
    clock: FakeClock, threads: DiskThreads, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    running = threads.run(Work.FSYNC, HERE, lambda: gate.wait(60))
    for _ in range(3):
        clock.advance(SLOW_MS + 1)
        threads._report_slow()  # what the timer calls
    assert [each.getMessage() for each in caplog.records] == [
        "/data: fsync does not end: 1 wait for the disk, the first for 10.0 s"
    ]
    gate.set()
    await running
    assert caplog.records[-1].getMessage() == "a fsync in /data took 15.0 s"
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


# -- A broker on a disk that hangs


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "ab"]


async def fill(raw: Raw, topic: str, **configs: str) -> None:
    await raw.create_topic(topic, PARTITIONS, **configs)
    for index in range(PARTITIONS):
        sent = await raw.produce(topic, batch_of(b"%d" % index, timestamp_ms=START_MS), partition=index)
        assert sent.error_code == 0


async def until_waiting(disk: HangingDisk, count: int) -> None:
    async with asyncio.timeout(10):
        while disk.waiting < count:
            await asyncio.sleep(0)


async def on_connections(broker: Broker, ask: Callable[[Raw, int], Awaitable[Any]], indexes: list[int]) -> list[Any]:
    """Return the responses for some partitions, each asked for over a connection of its own."""

    async def one(index: int) -> Any:
        async with await Raw.connect(broker.address) as raw:
            return await ask(raw, index)

    return await asyncio.gather(*map(one, indexes))


def produce(raw: Raw, index: int) -> Awaitable[Any]:
    return raw.produce("t", batch_of(b"y", timestamp_ms=START_MS), partition=index)


def fetch(raw: Raw, index: int) -> Awaitable[Any]:
    return raw.fetch("t", 0, partition=index)


async def look_up(raw: Raw, index: int) -> Any:
    wanted = ListOffsetsTopic("t", partitions=[ListOffsetsPartition(index, timestamp=START_MS)])
    response = await raw.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, topics=[wanted]))
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("kinds", [{"fsync"}, {"read"}, {"rename"}], ids=lambda kinds: next(iter(kinds)))
async def test_a_disk_that_hangs_delays_nothing_else(config: BrokerConfig, dirs: list[Path], kinds: set[str]) -> None:
    config = replace(config, log_dirs=tuple(map(str, dirs)))
    disk = HangingDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, "t", flush_messages="1")
        topic = broker.topics.get("t")
        assert topic is not None
        hung = [each.index for each in topic.partitions if each.log.directory.parent == dirs[1]]
        sound = [each.index for each in topic.partitions if each.log.directory.parent == dirs[0]]
        assert len(hung) >= Work.FSYNC.threads
        disk.hang(dirs[1], kinds=kinds)
        held: asyncio.Future[list[Any]] | None = None
        if kinds == {"rename"}:
            for _ in range(10):
                broker.services.background.checkpoints.write_in_background()
            await until_waiting(disk, 1)
        else:
            ask, kind = (produce, Work.FSYNC) if kinds == {"fsync"} else (fetch, Work.READ)
            held = asyncio.ensure_future(on_connections(broker, ask, hung))
            await until_waiting(disk, kind.threads)
        # In the other directory everything goes on, and in this one what needs no operation that hangs.
        for ask in (produce, fetch, look_up):
            assert {each.error_code for each in await on_connections(broker, ask, sound)} == {0}
        for ask in {"fsync": [fetch, look_up], "read": [produce], "rename": [produce, fetch, look_up]}[min(kinds)]:
            assert (await ask(raw, hung[0])).error_code == 0
        assert disk.waiting
        disk.free()
        if held is not None:
            assert {each.error_code for each in await held} == {0}


async def test_work_is_done_where_no_thread_can_start(threads: DiskThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the interpreter's exit no thread starts any more, and the broker of a notebook stops then."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert await threads.run(Work.CHECKPOINT, HERE, lambda: 42) == 42
    done: list[int] = []
    await in_thread(lambda: done.append(1), "x")
    assert done == [1]
    monkeypatch.undo()
    assert await threads.run(Work.CHECKPOINT, HERE, lambda: 43) == 43
