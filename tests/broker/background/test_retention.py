"""Retention, DeleteRecords and the removal of files: what goes and when, while readers go on reading."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.storage.retention import LogFacts
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

WAIT_S = 20
SMALL = {"internal_segment_bytes": "200"}
START_MS = 1_700_000_000_000
CHECK_MS = 1000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START_MS)


@pytest.fixture
async def broker(config: BrokerConfig, clock: FakeClock) -> AsyncIterator[Broker]:
    async with Broker(replace(config, log_retention_check_interval_ms=CHECK_MS), clock=clock) as each:
        yield each


async def fill(raw: Raw, count: int = 10, topic: str = "t", **configs: str) -> None:
    """Produce records a second apart, one a batch, about two a segment."""
    await raw.create_topic(topic, **{**SMALL, **configs})
    for number in range(count):
        batch = batch_of(b"%d" % number, timestamp_ms=START_MS - (count - number) * 1000)
        assert (await raw.produce(topic, batch)).error_code == 0


async def settled(broker: Broker) -> None:
    """Run a check that is due to its end."""
    broker.timers.fire_due()
    async with asyncio.timeout(WAIT_S):
        while broker.services.background.retention.is_busy:
            await asyncio.sleep(0)


def start_of(broker: Broker, topic: str = "t") -> int:
    found = broker.topics.get(topic)
    assert found is not None
    return found.partitions[0].log.log_start_offset


def files(broker: Broker, suffix: str, topic: str = "t") -> int:
    return len(list((Path(broker.config.data_dir) / f"{topic}-0").glob(f"*{suffix}")))


async def test_retention_by_time_deletes_segments_whose_newest_record_is_too_old(
    broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await fill(raw, retention_ms="6000")
    clock.advance(CHECK_MS)
    await settled(broker)
    # Records are 11 to 2 s old now, two a segment: those of 11 and 10, and of 9 and 8 are gone, of 7 one is too old.
    assert start_of(broker) == 4
    clock.advance(60_000)
    await settled(broker)
    assert (start_of(broker), files(broker, ".log")) == (10, 1)
    assert (await raw.produce("t", batch_of(b"x", timestamp_ms=clock.now_ms()))).base_offset == 10


async def test_retention_by_bytes_deletes_the_oldest_segments_while_enough_remains(
    broker: Broker, raw: Raw, clock: FakeClock
) -> None:
    await fill(raw, retention_ms="-1", retention_bytes="300")
    clock.advance(CHECK_MS)
    await settled(broker)
    (partition,) = broker.topics.partitions()
    size = partition.log.size_bytes
    assert 300 <= size < 300 + 2 * 80
    assert start_of(broker) > 0


@pytest.mark.parametrize(
    ("configs", "start"),
    [
        ({"cleanup_policy": "compact"}, 0),
        ({"cleanup_policy": ""}, 0),
        ({"cleanup_policy": "compact,delete"}, 4),
        ({"retention_ms": "-1"}, 0),
    ],
)
async def test_only_topics_whose_policy_has_delete_lose_segments(
    broker: Broker, raw: Raw, clock: FakeClock, configs: dict[str, str], start: int
) -> None:
    await raw.create_topic("t", **{**SMALL, "retention_ms": "6000", **configs})
    for number in range(10):
        batch = encode_batch([Record(0, START_MS - (10 - number) * 1000, b"k%d" % number, b"v")])
        assert (await raw.produce("t", batch)).error_code == 0
    clock.advance(CHECK_MS)
    await settled(broker)
    assert start_of(broker) == start


async def test_the_brokers_own_topics_are_left_alone(config: BrokerConfig, clock: FakeClock) -> None:
    config = replace(config, log_retention_check_interval_ms=CHECK_MS, log_retention_ms=1)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        partition = broker.topics.partitions()[0]
        partition.append_internal(bytearray(batch_of(b"x", timestamp_ms=0)))
        clock.advance(CHECK_MS)
        await settled(broker)
        assert partition.topic == "__consumer_offsets"
        assert partition.log.log_start_offset == 0


async def test_files_stay_for_their_delay_and_a_reader_reads_on(broker: Broker, raw: Raw, clock: FakeClock) -> None:
    await fill(raw, retention_ms="6000", file_delete_delay_ms="5000")
    (partition,) = broker.topics.partitions()
    held = partition.read(0, 1000, 0, True)
    assert held is not None
    expected = held.read()
    clock.advance(CHECK_MS)
    await settled(broker)
    assert (start_of(broker), files(broker, ".log.deleted")) == (4, 2)
    partition.log.config.retention_ms = -1
    clock.advance(4999)
    await settled(broker)
    assert files(broker, ".log.deleted") == 2
    clock.advance(1)
    broker.timers.fire_due()
    await until(lambda: files(broker, ".deleted") == 0)
    assert held.read() == expected


async def test_files_stay_while_a_look_up_in_a_thread_may_need_them(broker: Broker, raw: Raw, clock: FakeClock) -> None:
    """It may take longer than the delay, and it opens a file when it comes to it."""
    await fill(raw, retention_ms="6000", file_delete_delay_ms="0")
    (partition,) = broker.topics.partitions()
    for segment in partition.log.segments[:-1]:
        segment.release()
        segment._indexes = None
    view = partition.log.view()
    clock.advance(CHECK_MS)
    await settled(broker)
    partition.log.config.retention_ms = -1
    for _ in range(3):
        clock.advance(1000)
        await settled(broker)
    assert (start_of(broker), files(broker, ".log.deleted")) == (4, 2)
    assert view.locate(1, 10) is not None
    del view
    clock.advance(1000)
    broker.timers.fire_due()
    await until(lambda: files(broker, ".deleted") == 0)


async def test_a_stop_leaves_their_removal_to_the_next_start(broker: Broker, raw: Raw, clock: FakeClock) -> None:
    await fill(raw, retention_ms="6000")
    clock.advance(CHECK_MS)
    await settled(broker)
    assert files(broker, ".log.deleted") == 2
    await broker.stop()
    async with Broker(broker.config, clock=clock) as again:
        assert (start_of(again), files(again, ".log.deleted"), files(again, ".index")) == (4, 0, files(again, ".log"))


async def test_many_segments_are_deleted_a_few_a_turn(broker: Broker, raw: Raw, clock: FakeClock) -> None:
    await fill(raw, 100, retention_ms="0")
    turns = 0
    end_slices_after(1)
    clock.advance(CHECK_MS)
    broker.timers.fire_due()
    starts = {0}
    while broker.services.background.retention.is_busy and turns < 1000:
        starts.add(start_of(broker))
        await asyncio.sleep(0)
        turns += 1
    assert start_of(broker) == 100
    assert len(starts) > 3


async def test_a_topic_may_be_deleted_while_retention_looks_at_it(
    broker: Broker, raw: Raw, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(raw, 100, retention_ms="0")
    clock.advance(CHECK_MS)
    broker.timers.fire_due()
    await raw.delete_topic("t")
    await settled(broker)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


def keep_five(facts: LogFacts) -> int:
    return facts.log_end_offset - 5


def fail(facts: LogFacts) -> int:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(("policy", "start"), [("keep_five", 5), ("fail", 0)])
async def test_a_users_own_policy_decides(
    config: BrokerConfig, clock: FakeClock, caplog: pytest.LogCaptureFixture, policy: str, start: int
) -> None:
    given: dict[str, Any] = {
        "log_retention_policy": f"{__name__}:{policy}",
        "log_retention_check_interval_ms": CHECK_MS,
    }
    async with Broker(replace(config, **given), clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        clock.advance(CHECK_MS)
        await settled(broker)
        assert start_of(broker) == start
    failed = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert failed == ([] if start else [f"retention policy {__name__}:fail failed"])


@pytest.mark.parametrize(
    "given",
    [
        {"log_retention_ms": 60_000, "log_retention_minutes": 5, "log_retention_hours": 5},
        {"log_retention_minutes": 1, "log_retention_hours": 5},
        {"log_retention_hours": 1},
        {"log_retention_minutes": -1},
    ],
)
async def test_topics_inherit_the_brokers_retention_time(
    config: BrokerConfig, clock: FakeClock, given: dict[str, Any]
) -> None:
    kept_ms = -1 if given.get("log_retention_minutes") == -1 else 60_000 if len(given) > 1 else 3_600_000
    async with Broker(replace(config, **given), clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw, 1)
        for passed_ms, start in ((kept_ms - 1000, 0), (1, 1 if kept_ms > 0 else 0)):
            clock.advance(max(passed_ms, 0))
            broker.services.background.retention.check()
            await settled(broker)
            assert start_of(broker) == start


async def test_topics_inherit_the_brokers_retention_bytes(config: BrokerConfig, clock: FakeClock) -> None:
    config = replace(config, log_retention_bytes=100)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        broker.services.background.retention.check()
        await settled(broker)
        assert start_of(broker) == 8


async def test_topics_inherit_the_brokers_file_delete_delay(config: BrokerConfig, clock: FakeClock) -> None:
    config = replace(config, log_segment_delete_delay_ms=5000)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        await raw.delete_topic("t")
        directory = Path(config.data_dir)
        assert len(list(directory.glob("t-0*-delete"))) == 1  # noqa: ASYNC240
        clock.advance(5000)
        broker.timers.fire_due()
        await until(lambda: not list(directory.glob("t-0*")))


async def test_a_topic_of_many_partitions_is_deleted_a_few_a_turn_and_its_name_is_free_at_once(
    broker: Broker, raw: Raw
) -> None:
    await raw.create_topic("t", 200)
    topic = broker.topics.get("t")
    assert topic is not None
    old = [each.log for each in topic.partitions]
    end_slices_after(20)
    broker.services.delete_topic(topic)
    assert 0 < sum(each.directory.name.endswith("-delete") for each in old) < 50
    new = broker.topics.create("t", 200, {})
    assert all(each.directory.name.endswith("-delete") for each in old)
    assert {each.log.directory.name for each in new.partitions} == {f"t-{index}" for index in range(200)}
