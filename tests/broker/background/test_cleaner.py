"""The cleaner of a running broker: what it cleans and when, what it survives, and that a stop does not wait for it."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.background.compaction_process import CompactionFailed, CompactionProcess
from odradek.broker.configs.topic_config import TopicConfig
from odradek.broker.topics.topic import Topic
from odradek.protocol.records.batch import decode_batch, encode_batch
from odradek.protocol.records.record import Record
from odradek.storage.checkpoints import CLEANER_OFFSET as FILE_NAME
from odradek.storage.checkpoints import read_offsets
from odradek.storage.compaction import worker
from odradek.storage.compaction.compaction import Job, Source
from odradek.storage.compaction.worker import Throttle, job_from_json, job_to_json
from odradek.storage.errors import DiskError
from odradek.storage.files import Disk, File
from odradek.storage.log import Log, LogConfig
from odradek.storage.segments import swap
from odradek.tests.storage.batches import cut, flip
from odradek.tests.support.brokers.compaction_here import compact_here
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

START_MS = 1_700_000_000_000
BACKOFF_MS = 1000
COMPACTED = {"cleanup_policy": "compact", "internal_segment_bytes": "1000", "file_delete_delay_ms": "0"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, log_cleaner_backoff_ms=BACKOFF_MS)


@pytest.fixture
def own_process() -> None:
    """For tests whose jobs run in a process of their own."""


@pytest.fixture(autouse=True)
def jobs_run_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "own_process" not in request.fixturenames:
        compact_here(monkeypatch)


@pytest.fixture
async def broker(config: BrokerConfig, clock: FakeClock) -> AsyncIterator[Broker]:
    async with Broker(config, clock=clock) as each:
        yield each


def topic_of(broker: Broker, name: str = "t") -> Topic:
    found = broker.topics.get(name)
    assert found is not None
    return found


def log_of(broker: Broker, topic: str = "t") -> Log:
    return topic_of(broker, topic).partitions[0].log


async def fill(raw: Raw, count: int = 60, topic: str = "t") -> None:
    for number in range(count):
        record = Record(0, START_MS, b"k%d" % (number % 5), b"v%d" % number)
        assert (await raw.produce(topic, encode_batch([record]))).error_code == 0


async def round_of(broker: Broker, clock: FakeClock) -> None:
    """Run one round of the cleaner to its end."""
    clock.advance(BACKOFF_MS)
    broker.timers.fire_due()
    await until(lambda: not broker.services.background.cleaner.is_busy)


def cleaned_files(config: BrokerConfig) -> list[Path]:
    return list(Path(config.data_dir, "t-0").glob("*.cleaned"))


def values(log: Log) -> dict[bytes | None, bytes | None]:
    return {each.key: each.value for _, data in log.iter_batches(0) for each in decode_batch(data)}


async def test_a_compacted_topic_is_cleaned_and_an_ordinary_one_is_not(
    own_process: None, broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await raw.create_topic("t", **COMPACTED)
    await raw.create_topic("plain", internal_segment_bytes="1000")
    await fill(raw)
    await fill(raw, topic="plain")
    log, plain = log_of(broker), log_of(broker, "plain").size_bytes
    expected, size, end = values(log), log.size_bytes, log.log_end_offset
    await round_of(broker, clock)
    assert (values(log), log.log_end_offset) == (expected, end)
    assert log.size_bytes < size / 2
    assert log_of(broker, "plain").size_bytes == plain
    offsets = read_offsets(broker.config.data_dir / FILE_NAME)
    assert offsets == {("t", 0): log.segments[-1].base_offset}


async def test_a_rest_that_is_under_way_gets_shorter_with_its_config(
    broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    size = log_of(broker).size_bytes
    broker.services.reconfiguration.alter("", {"log.cleaner.backoff.ms": "100"})
    clock.advance(100)
    broker.timers.fire_due()
    assert broker.services.background.cleaner.is_busy
    await until(lambda: not broker.services.background.cleaner.is_busy)
    assert log_of(broker).size_bytes < size / 2


@pytest.mark.parametrize("off", [{"log_cleaner_enable": False}, {"log_cleaner_threads": 0}])
async def test_without_a_cleaner_nothing_is_cleaned(
    config: BrokerConfig, clock: FakeClock, off: dict[str, Any]
) -> None:
    async with Broker(replace(config, **off), clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", **COMPACTED)
        await fill(raw)
        size = log_of(broker).size_bytes
        await round_of(broker, clock)
        assert log_of(broker).size_bytes == size


def test_the_brokers_configs_reach_a_topics_rules() -> None:
    broker = BrokerConfig(
        log_cleanup_policy=("compact",),
        log_cleaner_min_cleanable_ratio=0.1,
        log_cleaner_min_compaction_lag_ms=2,
        log_cleaner_max_compaction_lag_ms=3,
        log_cleaner_delete_retention_ms=4,
    )
    config = TopicConfig.resolve(broker)
    of_log = config.log_config(0)
    assert (config.is_compacted, of_log.segment_ms, of_log.min_cleanable_dirty_ratio) == (True, 3, 0.1)
    assert (of_log.min_compaction_lag_ms, of_log.max_compaction_lag_ms, of_log.delete_retention_ms) == (2, 3, 4)


async def test_the_cleaner_offsets_survive_a_restart(config: BrokerConfig, clock: FakeClock) -> None:
    async with Broker(config, clock=clock) as broker:
        async with await Raw.connect(broker.address) as raw:
            await raw.create_topic("t", **COMPACTED)
            await fill(raw)
        await round_of(broker, clock)
        expected = values(log_of(broker))
    async with Broker(config, clock=clock) as broker:
        assert values(log_of(broker)) == expected
        await round_of(broker, clock)
        assert not broker.services.background.cleaner.is_busy


async def test_the_choice_takes_turns_and_leaves_out_a_topic_that_is_deleted_meanwhile(
    config: BrokerConfig, clock: FakeClock
) -> None:
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        end_slices_after(1)
        await raw.create_topic("t", **COMPACTED)
        await fill(raw)
        await raw.create_topic("z", 5, **COMPACTED)
        cleaner = broker.services.background.cleaner
        assert [topic.name for topic, _ in cleaner._candidates()] == ["t"], "z has no closed segment"
        choose = cleaner._dirtiest
        chosen = await choose()
        assert chosen is not None
        assert chosen.topic.name == "t"
        choice = asyncio.ensure_future(choose())
        await asyncio.sleep(0)
        assert not choice.done()
        broker.topics.delete(chosen.topic, lambda logs: None)
        assert await choice is None


async def test_a_topic_created_again_while_the_cleaner_is_off_begins_dirty(
    config: BrokerConfig, clock: FakeClock
) -> None:
    off = replace(config, log_cleaner_enable=False)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", **COMPACTED)
        await fill(raw)
        await round_of(broker, clock)
        assert read_offsets(config.data_dir / FILE_NAME)
    async with Broker(off, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        broker.services.delete_topic(topic_of(broker))
        await raw.create_topic("t", **COMPACTED)
        assert read_offsets(config.data_dir / FILE_NAME) == {}
        await fill(raw)
    async with Broker(config, clock=clock) as broker:
        await round_of(broker, clock)
        log = log_of(broker)
        closed = [header for header, data in log.iter_batches(0) if header.base_offset < log.segments[-1].base_offset]
        assert sum(each.record_count for each in closed) == 5


async def test_a_cleaning_waits_until_the_records_that_it_relies_on_are_on_disk(
    broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    log = log_of(broker)
    end = log.log_end_offset
    await round_of(broker, clock)
    assert log.recovery_point >= end
    assert read_offsets(broker.config.data_dir / FILE_NAME) != {}


async def test_a_damaged_partition_is_left_alone_and_the_others_are_cleaned(
    broker: Broker, raw: Raw, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("t", "sound"):
        await raw.create_topic(topic, **COMPACTED)
        await fill(raw, topic=topic)
    path = log_of(broker).segments[1].path(".log")
    flip(path)
    with caplog.at_level(logging.ERROR):
        await round_of(broker, clock)
        await round_of(broker, clock)
    assert [each.message for each in caplog.records if "t-0 is not cleaned any more" in each.message] != []
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1
    assert len(values(log_of(broker, "sound"))) == 5
    assert ("sound", 0) in read_offsets(broker.config.data_dir / FILE_NAME)
    assert not list(path.parent.glob("*.cleaned"))


async def test_a_partition_with_a_record_that_is_too_large_is_cleaned_once_it_may_be_so_large(
    broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await raw.create_topic("t", **COMPACTED, compression_type="gzip")
    await fill(raw)
    topic = topic_of(broker)
    broker.topics.alter(topic, topic.record.configs | {"max.decompressed.message.bytes": "1"})
    dirty = len(list(log_of(broker).iter_batches(0)))
    for _ in range(2):
        await round_of(broker, clock)
        assert len(list(log_of(broker).iter_batches(0))) == dirty
    broker.topics.alter(topic, topic.record.configs | {"max.decompressed.message.bytes": "1000"})
    await round_of(broker, clock)
    assert len(list(log_of(broker).iter_batches(0))) < dirty


async def test_a_partition_goes_offline_whose_cleaned_segment_cannot_take_its_place(
    broker: Broker, raw: Raw, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device has failed. The next start completes the replacement."""
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)

    def fail(directory: Path, base_offset: int, disk: Disk) -> None:
        raise DiskError("link", directory, OSError(errno.EIO, "the device has failed"))

    monkeypatch.setattr(swap, "place", fail)
    await round_of(broker, clock)
    assert not topic_of(broker).partitions[0].is_online


async def test_a_disk_that_is_full_at_any_step_is_cleaned_once_there_is_room(
    config: BrokerConfig, clock: FakeClock
) -> None:
    disk = FaultyDisk()
    async with Broker(config, clock=clock, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", **COMPACTED)
        log, rounds, full_at = log_of(broker), 0, 0
        while full_at <= disk.steps:
            await fill(raw, 20)
            expected = values(log)
            full_at = disk.steps + rounds
            disk.nameless = range(full_at, full_at + 1)
            await round_of(broker, clock)
            assert values(log) == expected
            rounds += 1
        assert rounds > 12
        await fill(raw, 200)
        size = log.size_bytes
        await round_of(broker, clock)
        assert log.size_bytes < size / 2
        assert not list(log.directory.glob("*.swap"))


async def test_a_process_that_finds_no_room_tries_again_in_the_next_round(
    broker: Broker, raw: Raw, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    size = log_of(broker).size_bytes

    async def fails(self: CompactionProcess, job: Job, bytes_per_second: float) -> AsyncIterator[dict[str, Any]]:
        raise CompactionFailed("write: no room", may_pass=True)
        yield {}

    with monkeypatch.context() as patch:
        patch.setattr(CompactionProcess, "run", fails)
        await round_of(broker, clock)
    assert log_of(broker).size_bytes == size
    await round_of(broker, clock)
    assert log_of(broker).size_bytes < size / 2


@pytest.mark.parametrize(
    "is_deep", [False, True], ids=["the last segment but one is open again", "a cleaned one is cut"]
)
async def test_a_log_that_a_leader_cuts_while_it_is_cleaned_is_dirty_from_the_cut_on(
    broker: Broker, raw: Raw, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: Any, is_deep: bool
) -> None:
    await raw.create_topic("t", **COMPACTED)
    log, dirs = log_of(broker), broker.services.log_dirs
    for _ in range(2):
        await fill(raw)
        await round_of(broker, clock)
    await fill(raw)
    clean_up_to, left = dirs.cleaner_offset(("t", 0), log), dict[bytes | None, bytes | None]()
    cut_to = 50 if is_deep else log.segments[-1].base_offset
    assert clean_up_to is not None and 50 < clean_up_to < log.segments[-1].base_offset

    async def cut_meanwhile(
        self: CompactionProcess, job: Job, bytes_per_second: float
    ) -> AsyncIterator[dict[str, Any]]:
        async for report in run(self, job, bytes_per_second):
            if not left:
                log.lower_recovery_point(cut_to)
                cut(log, cut_to)
                left.update(values(log))
            yield report

    with monkeypatch.context() as patch:
        run = CompactionProcess.run
        patch.setattr(CompactionProcess, "run", cut_meanwhile)
        await round_of(broker, clock)
    assert values(log) == left and not [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (dirs.cleaner_offset(("t", 0), log) or 0) <= cut_to
    await fill(raw, 200)
    size = log.size_bytes
    await round_of(broker, clock)
    assert log.size_bytes < size / 2


async def test_a_leader_cuts_no_log_while_its_segments_are_swapped(
    broker: Broker, raw: Raw, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start after a crash completes a swap whose new names are there, also over what was appended behind a cut."""
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    partition, loop = broker.topics.partition("t", 0), asyncio.get_running_loop()
    assert partition is not None
    flusher, cuts, may_cut = broker.services.background.cleaner._flusher, list[asyncio.Future[None]](), list[bool]()
    prepare, finish = swap.prepare, swap.finish

    def prepare_beside_a_cut(*given: Any) -> None:
        prepare(*given)
        loop.call_soon_threadsafe(lambda: cuts.append(asyncio.ensure_future(flusher.idle(partition))))

    def finish_before_it(*given: Any) -> None:
        may_cut.append(cuts[-1].done())
        finish(*given)

    monkeypatch.setattr(swap, "prepare", prepare_beside_a_cut)
    monkeypatch.setattr(swap, "finish", finish_before_it)
    await round_of(broker, clock)
    await asyncio.gather(*cuts)
    assert may_cut and not any(may_cut)


async def test_a_stop_in_the_middle_of_a_cleaning_loses_nothing(
    own_process: None, config: BrokerConfig, clock: FakeClock
) -> None:
    slow = replace(config, log_cleaner_io_max_bytes_per_second=1.0)
    async with Broker(slow, clock=clock) as broker:
        async with await Raw.connect(broker.address) as raw:
            await raw.create_topic("t", **COMPACTED)
            await fill(raw)
        expected = values(log_of(broker))
        clock.advance(BACKOFF_MS)
        broker.timers.fire_due()
        assert broker.services.background.cleaner.is_busy
    assert cleaned_files(slow) == []
    async with Broker(config, clock=clock) as broker:
        assert values(log_of(broker)) == expected


async def test_a_topic_deleted_while_it_is_cleaned_is_gone(broker: Broker, raw: Raw, clock: FakeClock) -> None:
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    clock.advance(BACKOFF_MS)
    broker.timers.fire_due()
    broker.services.delete_topic(topic_of(broker))
    await until(lambda: not broker.services.background.cleaner.is_busy)
    await raw.create_topic("t", **COMPACTED)
    await fill(raw)
    await round_of(broker, clock)
    assert len(values(log_of(broker))) == 5


async def test_the_offsets_topic_is_compacted(broker: Broker) -> None:
    topic = broker.services.internal_topics.create("__consumer_offsets")
    assert topic.config.is_compacted


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize(
    "configs", [{"segment.bytes": "2000000"}, {"segment.bytes": "2000000", "cleanup.policy": "delete"}]
)
async def test_an_internal_topic_without_compaction_is_compacted_from_the_next_start_on(
    config: BrokerConfig, name: str, configs: dict[str, str]
) -> None:
    async with Broker(config) as broker:
        broker.topics.create(name, 1, configs)
    for _ in range(2):
        async with Broker(config) as broker:
            topic = topic_of(broker, name)
            assert topic.config.is_compacted
            assert topic.record.configs == {"segment.bytes": "2000000", "cleanup.policy": "compact"}


def test_a_job_arrives_unchanged_in_the_process() -> None:
    job = Job(Path("/a/b-0"), (Source(0, 5, 100),), 3, 4, 5, 6, 7, 8, 9, ((0, 34),), ((1, 2),), ((3, 0),))
    assert job_from_json(job_to_json(job, 1.5)) == (job, 1.5)


@pytest.mark.parametrize(("number", "may_pass"), [(errno.ENOSPC, True), (errno.EMFILE, True), (errno.EIO, False)])
def test_the_process_says_whether_a_failure_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, may_pass: bool
) -> None:
    def fails(self: Disk, path: Path, **options: bool) -> File:
        raise DiskError("open", path, OSError(number, "why"))

    Log.open(tmp_path, LogConfig(), clean=True, now_ms=0).close()
    job = Job(tmp_path, (Source(0, 1, 100),), 0, 0, 0, 1000, 1000, 100, 1000)
    monkeypatch.setattr(Disk, "open", fails)
    out = StringIO()
    worker.run(job_to_json(job, 1e9), out)
    assert json.loads(out.getvalue())["may_pass"] is may_pass


def test_the_throttle_sleeps_as_long_as_its_rate_asks() -> None:
    now, slept = [0.0], [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        slept[0] += seconds

    throttle = Throttle(1000, lambda: now[0], sleep)
    throttle(500)
    assert slept[0] == pytest.approx(0.5)
    now[0] += 10
    throttle(3000)
    assert slept[0] == pytest.approx(3.5)
