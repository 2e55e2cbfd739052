"""DeleteRecords: where a partition begins, who is refused, and that it lasts."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.background import retention
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk

SMALL = {"internal_segment_bytes": "200"}


async def delete(raw: Raw, version: int = 2, **offsets: dict[int, int]) -> dict[str, dict[int, tuple[int, int]]]:
    """topic -> partition -> (error code, low watermark)."""
    topics = [
        DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset) for index, offset in asked.items()])
        for name, asked in offsets.items()
    ]
    response = await raw.ask(ApiKey.DELETE_RECORDS, version, DeleteRecordsRequest(topics, 1000))
    return {
        topic.name: {each.partition_index: (each.error_code, each.low_watermark) for each in topic.partitions}
        for topic in response.topics
    }


async def earliest(raw: Raw, topic: str = "t") -> int:
    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-2)])
    response = await raw.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(topics=[wanted]))
    return response.topics[0].partitions[0].offset


async def fill(raw: Raw, count: int = 10, **configs: str) -> None:
    """One record a batch, about two a segment."""
    await raw.create_topic("t", **{**SMALL, **configs})
    for number in range(count):
        assert (await raw.produce("t", batch_of(b"%d" % number))).error_code == 0


def logs(config: BrokerConfig, topic: str = "t-0") -> list[str]:
    return sorted(each.name for each in (Path(config.data_dir) / topic).iterdir() if ".log" in each.name)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_partition_begins_at_the_requested_offset(raw: Raw, version: int) -> None:
    await fill(raw)
    assert await delete(raw, version, t={0: 5}) == {"t": {0: (0, 5)}}
    assert await earliest(raw) == 5
    assert (await raw.fetch("t", 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    fetched = await raw.fetch("t", 5)
    assert (fetched.error_code, fetched.log_start_offset, fetched.high_watermark) == (0, 5, 10)


async def test_an_offset_below_the_log_start_is_no_error_and_brings_nothing_back(raw: Raw) -> None:
    await fill(raw)
    await delete(raw, t={0: 5})
    assert await delete(raw, t={0: 3}) == {"t": {0: (0, 5)}}


async def test_minus_1_is_the_high_watermark(raw: Raw, config: BrokerConfig) -> None:
    await fill(raw)
    assert await delete(raw, t={0: -1}) == {"t": {0: (0, 10)}}
    fetched = await raw.fetch("t", 10)
    assert (fetched.error_code, bytes(fetched.records or b"")) == (0, b"")
    assert (await raw.produce("t", batch_of(b"next"))).base_offset == 10
    assert await earliest(raw) == 10


async def test_an_error_of_one_partition_leaves_the_others_alone(raw: Raw) -> None:
    await fill(raw)
    await raw.create_topic("compacted", cleanup_policy="compact")
    await raw.create_topic("both", cleanup_policy="compact,delete")
    await raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
    wanted = {"__consumer_offsets": {0: 0}, "missing": {0: 0}, "compacted": {0: 0}, "both": {0: 0}}
    assert await delete(raw, t={0: 11, 1: 0}, **wanted) == {
        "t": {0: (ErrorCode.OFFSET_OUT_OF_RANGE, -1), 1: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)},
        "missing": {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)},
        "__consumer_offsets": {0: (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)},
        "compacted": {0: (ErrorCode.POLICY_VIOLATION, -1)},
        "both": {0: (0, 0)},
    }
    assert await delete(raw, t={0: -2}) == {"t": {0: (ErrorCode.OFFSET_OUT_OF_RANGE, -1)}}
    assert await earliest(raw) == 0


async def test_whole_segments_below_are_removed_after_their_delay(broker: Broker, raw: Raw) -> None:
    await fill(raw, file_delete_delay_ms="0")
    before = logs(broker.config)
    assert len(before) == 5
    await delete(raw, t={0: 7})
    async with asyncio.timeout(20):
        while logs(broker.config) != before[3:]:
            await asyncio.sleep(0.001)


async def test_deleted_records_stay_deleted_after_stops_and_crashes(config: BrokerConfig, tmp_path: Path) -> None:
    broker = Broker(config)
    await broker.start()
    async with await Raw.connect(broker.address) as raw:
        await fill(raw)
        await delete(raw, t={0: 5})
        killed = replace(config, log_dirs=(str(tmp_path / "killed"),))
        # A thread may be about to rename a temporary file.
        without = shutil.ignore_patterns("*.tmp")
        await asyncio.to_thread(shutil.copytree, config.data_dir, killed.data_dir, ignore=without)
    await broker.stop()
    async with Broker(killed) as again, await Raw.connect(again.address) as raw:
        assert await earliest(raw) == 5


async def test_a_full_disk_is_an_error_and_moves_no_log_start(config: BrokerConfig) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        disk.room_bytes = 0
        assert await delete(raw, t={0: 5, 9: 1}) == {
            "t": {0: (ErrorCode.KAFKA_STORAGE_ERROR, -1), 9: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)}
        }
        disk.room_bytes = None
        assert await delete(raw, t={0: 5}) == {"t": {0: (0, 5)}}


async def test_the_segments_of_many_partitions_are_dropped_a_few_a_turn(
    broker: Broker, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SEGMENTS_A_STEP", 2)
    await raw.create_topic("t", 4, **SMALL)
    topic = broker.topics.get("t")
    assert topic is not None
    for index in range(4):
        for _ in range(10):
            assert (await raw.produce("t", batch_of(b"x"), index)).error_code == 0

    def segments() -> int:
        return sum(len(each.log.segments) for each in topic.partitions)

    assert segments() == 20
    end_slices_after(1)
    for each in topic.partitions:
        broker.services.background.record_deletion.delete_records(each, 10)
    # The start moves at once, and nobody reads what is below it.
    assert {each.log.log_start_offset for each in topic.partitions} == {10}
    left = [segments()]
    assert left == [20 - 4 * 2], "a step of each partition"
    while left[-1] > 4:
        await asyncio.sleep(0)
        left.append(segments())
    assert all(before - after <= 2 for before, after in itertools.pairwise(left))


async def test_a_topic_that_is_deleted_while_its_segments_are_dropped_is_no_failure(
    broker: Broker, raw: Raw, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SEGMENTS_A_STEP", 1)
    await fill(raw)
    end_slices_after(1)
    topic = broker.topics.get("t")
    assert topic is not None
    broker.services.background.record_deletion.delete_records(topic.partitions[0], 10)
    assert len(topic.partitions[0].log.segments) == 4
    broker.services.delete_topic(topic)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
