"""Very large batches: a thread writes them to a file, and the log takes the file in one turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics import validation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import TimestampType, decode_batch, iter_headers
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import HangingDisk
from odradek.tests.support.waiting import until

LARGE = batch_of(b"x" * 5000)
OUT_OF_ORDER = batch_of(b"x" * 5000, producer_id=1, producer_epoch=0, base_sequence=7)


@pytest.fixture(autouse=True)
def few_bytes_are_very_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "VERY_LARGE_BYTES", 2000)


@pytest.fixture
def disk() -> Iterator[HangingDisk]:
    disk = HangingDisk()
    yield disk
    disk.free()


@pytest.fixture
async def hanging(config: BrokerConfig, disk: HangingDisk) -> AsyncIterator[Broker]:
    async with Broker(config, disk=disk) as broker:
        yield broker


def files(config: BrokerConfig, topic: str, pattern: str) -> list[str]:
    return sorted(path.name for path in (Path(config.log_dirs[0]) / f"{topic}-0").glob(pattern))


async def values(raw: Raw, topic: str, end_offset: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < end_offset:
        records = bytes((await raw.fetch(topic, len(found))).records)
        for position, _ in iter_headers(records):
            found += [record.value for record in decode_batch(records, position)]
    return found


async def test_they_lie_between_others_in_the_order_of_their_appends(raw: Raw, config: BrokerConfig) -> None:
    await raw.create_topic("t")
    sent = [batch_of(b"a"), LARGE, batch_of(b"b", b"c"), LARGE, LARGE, batch_of(b"d")]
    assert [(await raw.produce("t", each)).base_offset for each in sent] == [0, 1, 2, 4, 5, 6]
    large = b"x" * 5000
    assert await values(raw, "t", 7) == [b"a", large, b"b", b"c", large, large, b"d"]
    # Each begins a segment.
    assert files(config, "t", "*.log") == [f"{base:020d}.log" for base in (0, 1, 4, 5)]
    assert files(config, "t", "staged-*") == []


async def test_the_first_batch_of_a_log_takes_the_place_of_an_empty_segment(config: BrokerConfig) -> None:
    for expected in (0, 1):
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            if not expected:
                await raw.create_topic("t")
            assert (await raw.produce("t", LARGE)).base_offset == expected
            assert await values(raw, "t", expected + 1) == [b"x" * 5000] * (expected + 1)


async def test_the_brokers_time_is_set_before_they_are_written(raw: Raw) -> None:
    await raw.create_topic("t", message_timestamp_type="LogAppendTime")
    answer = await raw.produce("t", LARGE)
    records = bytes((await raw.fetch("t", 0)).records)
    [(_, header)] = iter_headers(records)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, answer.log_append_time_ms)
    # Its CRC is right, which decode_batch checks.
    assert decode_batch(records)[0].timestamp_ms == answer.log_append_time_ms


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (LARGE[:-1] + b"y", ErrorCode.CORRUPT_MESSAGE),
        (LARGE + LARGE, ErrorCode.INVALID_RECORD),
        (batch_of(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
        (batch_of(b"x" * 5000, timestamp_ms=2**50), ErrorCode.INVALID_TIMESTAMP),
        ((3).to_bytes(8, "big") + LARGE[8:], ErrorCode.INVALID_RECORD),
        (OUT_OF_ORDER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
async def test_a_rejected_one_leaves_nothing(
    raw: Raw, broker: Broker, config: BrokerConfig, records: bytes, code: ErrorCode
) -> None:
    await raw.create_topic("t")
    first = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    assert (await raw.produce("t", first)).error_code == 0
    assert ErrorCode((await raw.produce("t", records)).error_code) is code
    await asyncio.gather(*broker.services.background.work.running)
    assert files(config, "t", "staged-*") == []
    assert (await raw.produce("t", batch_of(b"b"))).base_offset == 1


async def test_a_duplicate_gets_the_offset_of_the_first_copy(raw: Raw, broker: Broker, config: BrokerConfig) -> None:
    await raw.create_topic("t")
    sent = batch_of(b"x" * 5000, producer_id=1, producer_epoch=0, base_sequence=0)
    assert [(await raw.produce("t", sent)).base_offset for _ in range(2)] == [0, 0]
    await asyncio.gather(*broker.services.background.work.running)
    assert files(config, "t", "staged-*") == []


async def is_writing(disk: HangingDisk) -> None:
    await until(lambda: disk.waiting)


async def test_while_a_thread_writes_the_partition_serves_others(
    hanging: Broker, disk: HangingDisk, config: BrokerConfig
) -> None:
    async with await Raw.connect(hanging.address) as one, await Raw.connect(hanging.address) as other:
        await one.create_topic("t")
        disk.hang(Path(config.log_dirs[0]), kinds={"fsync"})
        large = asyncio.ensure_future(one.produce("t", LARGE))
        await is_writing(disk)
        assert (await other.produce("t", batch_of(b"quick"))).base_offset == 0
        disk.free()
        assert (await large).base_offset == 1


async def test_a_client_that_goes_while_a_thread_writes_leaves_nothing(
    hanging: Broker, disk: HangingDisk, config: BrokerConfig
) -> None:
    async with await Raw.connect(hanging.address) as other:
        await other.create_topic("t")
        disk.hang(Path(config.log_dirs[0]), kinds={"fsync"})
        one = await Raw.connect(hanging.address)
        large = asyncio.ensure_future(one.produce("t", LARGE))
        await is_writing(disk)
        assert files(config, "t", "staged-*") != []
        one.close()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await large
        await until(lambda: sum(len(each.connections) for each in hanging.acceptor.processors) <= 1)
        disk.free()
        await until(lambda: not files(config, "t", "staged-*"))
        assert (await other.produce("t", batch_of(b"next"))).base_offset == 0


async def test_what_a_crash_left_is_removed_by_the_next_start(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
    (Path(config.log_dirs[0]) / "t-0" / "staged-7.tmp").write_bytes(LARGE)
    async with Broker(config):
        assert files(config, "t", "staged-*") == []
