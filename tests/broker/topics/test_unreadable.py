"""Bytes that the disk cannot read (EIO): their reader gets an error, and everybody else goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.batch import iter_headers
from odradek.storage.log import Log
from odradek.tests.storage.batches import roll
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.histories.transactional import Transactional

START_MS = 1_700_000_000_000
VALUE = b"x" * 100_000
# Ten a segment, an index entry each.
BATCHES = 25
CORRUPT = ErrorCode.CORRUPT_MESSAGE


@pytest.fixture
def config(config: BrokerConfig) -> BrokerConfig:
    return replace(config, log_segment_bytes=1 << 20)


def log_of(broker: Broker, topic: str = "t") -> Log:
    found = broker.topics.get(topic)
    assert found is not None
    return found.partitions[0].log


async def fill(raw: Raw) -> None:
    await raw.create_topic("t")
    for at in range(BATCHES):
        assert (await raw.produce("t", batch_of(VALUE, timestamp_ms=START_MS + at))).error_code == 0


def place_of(log: Log, offset: int) -> tuple[Path, int, int]:
    """Return file, position and size of a batch."""
    segment = next(each for each in reversed(log.segments) if each.base_offset <= offset)
    found = segment.find(offset)
    assert found is not None
    return segment.path(".log"), found[0], found[1].size_bytes


async def fetched(raw: Raw, offset: int, version: int = 11, **rest: int) -> Any:
    return await raw.fetch("t", offset, version=version, **{"partition_max_bytes": 150_000, **rest})


def offsets_of(partition: Any) -> list[int]:
    assert partition.error_code == 0
    return [header.base_offset for _, header in iter_headers(partition.records)]


async def check_others(broker: Broker, raw: Raw, without: int) -> None:
    """Every other offset is served, records are taken, and the data directory is online."""
    for offset in range(BATCHES):
        if offset != without:
            assert offsets_of(await fetched(raw, offset))[0] == offset
    assert (await raw.produce("t", batch_of(b"y", timestamp_ms=START_MS + 1000))).error_code == 0
    assert all(each.is_online for each in broker.services.log_dirs.all)
    assert all(each.is_online for each in broker.topics.partitions())


def lines(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("offset", [5, 14, BATCHES - 1])
async def test_a_body_costs_one_connection_and_then_gets_an_error(
    config: BrokerConfig, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        path, position, size = place_of(log_of(broker), offset)
        disk.spoil(path, position + size // 2, 1)
        with pytest.raises(asyncio.IncompleteReadError):
            await fetched(raw, offset)
        async with await Raw.connect(broker.address) as another:
            for _ in range(3):
                assert (await fetched(another, offset)).error_code == CORRUPT
            await check_others(broker, another, without=offset)
    assert lines(caplog, f"is damaged at {position}") == 1
    assert lines(caplog, "offline") == 0


@pytest.mark.parametrize("offset", [5, 14, BATCHES - 1])
async def test_a_header_gets_an_error_also_after_a_restart(
    config: BrokerConfig, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        path, position, _ = place_of(log_of(broker), offset)
    disk.spoil(path, position + 20, 1)
    for _ in range(2):
        caplog.clear()
        async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
            for _ in range(3):
                assert (await fetched(raw, offset)).error_code == CORRUPT
            await check_others(broker, raw, without=offset)
        assert lines(caplog, f"is damaged at {position}") + lines(caplog, f"damage at {position}") >= 1
        assert lines(caplog, "offline") == 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("slot", [0, 1, 2])
async def test_an_index_is_built_again(
    config: BrokerConfig, suffix: str, slot: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        segment = log_of(broker).segments[slot]
        segment.open_indexes()
        path = segment.path(suffix)
        disk.spoil(path, 0, path.stat().st_size)
        await check_others(broker, raw, without=-1)
        for at in range(BATCHES):
            wanted = ListOffsetsTopic("t", partitions=[ListOffsetsPartition(0, timestamp=START_MS + at)])
            response = await raw.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, topics=[wanted]))
            assert (response.topics[0].partitions[0].error_code, response.topics[0].partitions[0].offset) == (0, at)
        assert lines(caplog, f"{path} is damaged") <= 1
        if slot < 2:
            assert path.read_bytes()
            again = disk.open(path, writable=False)
            assert disk.read(again, disk.size(again), 0)


async def test_a_tail_that_cannot_be_read_takes_its_partition_offline_and_is_kept(config: BrokerConfig) -> None:
    disk = FaultyDisk()
    broker = Broker(config, disk=disk)
    await broker.start()
    async with await Raw.connect(broker.address) as raw:
        await fill(raw)
        await raw.create_topic("u")
        path, position, _ = place_of(log_of(broker), 22)
    await broker.stop()
    # As after a crash: no marker of a clean stop, and a recovery point before the bytes.
    data = Path(config.log_dirs[0])
    (data / ".kafka_cleanshutdown").unlink()
    checkpoint = data / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace(f"t 0 {BATCHES}", "t 0 21"))
    before = path.read_bytes()
    disk.spoil(path, position + 20, 1)
    for _ in range(2):
        async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
            assert (await fetched(raw, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await raw.produce("u", batch_of(b"y"))).error_code == 0
            assert all(each.is_online for each in broker.services.log_dirs.all)
        assert path.read_bytes() == before
        assert not (data / ".kafka_cleanshutdown").exists()
        assert "t 0 21" in checkpoint.read_text()
    disk.heal()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await check_others(broker, raw, without=-1)


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("breaks", ["unreadable", "flipped"])
async def test_a_transaction_index_is_built_again(
    config: BrokerConfig, is_closed: bool, breaks: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        producer = Transactional(raw, "x")
        for commit in (True, False, False):
            await producer.begin()
            await producer.send("t", b"a", timestamp_ms=broker.clock.now_ms())
            assert await producer.end(commit=commit) == 0
        aborted = (await fetched(raw, 0, isolation_level=1)).aborted_transactions
        assert [each.first_offset for each in aborted] == [2, 4]
        if is_closed:
            roll(log_of(broker), broker.clock.now_ms())
            await raw.produce("t", batch_of(b"y"))
        segment = log_of(broker).segments[0]
        segment.aborted._last = None
        path = segment.path(".txnindex")
        before = path.read_bytes()
        if breaks == "unreadable":
            disk.spoil(path, 0, 34)
        else:
            path.write_bytes(b"\x7f" + before[1:34] + b"\x7f" + before[35:])
        for _ in range(2):
            assert (await fetched(raw, 0, isolation_level=1)).aborted_transactions == aborted
        assert lines(caplog, f"{path} is damaged") == 1
        if is_closed:
            assert path.read_bytes() == before
            again = disk.open(path, writable=False)
            assert disk.read(again, 68, 0) == before
        assert all(each.is_online for each in broker.services.log_dirs.all)


async def test_a_coordinator_does_not_decide_without_a_batch_that_cannot_be_read(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        producer = Transactional(raw, "x")
        await producer.begin()
        await producer.send("t", b"a", timestamp_ms=broker.clock.now_ms())
        assert await producer.end(commit=True) == 0
        await producer.begin()
        topic = broker.topics.get("__transaction_state")
        assert topic is not None
        path = next(each for each in topic.partitions if each.log.log_end_offset).log.segments[0].path(".log")
    disk.spoil(path, 100, 1)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        assert len(broker.services.transactions.shards.owned) == len(topic.partitions) - 1
        assert offsets_of(await fetched(raw, 0, partition_max_bytes=1))
        assert (await raw.produce("t", batch_of(b"y"))).error_code == 0
        assert all(each.is_online for each in broker.services.log_dirs.all)
    assert lines(caplog, "could not be loaded") == 1
    disk.heal()
    async with Broker(config, disk=disk) as broker:
        assert len(broker.services.transactions.shards.owned) == len(topic.partitions)


async def test_an_old_client_gets_an_error_too(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await fill(raw)
        path, position, size = place_of(log_of(broker), 5)
        disk.spoil(path, position + size // 2, 1)
        for _ in range(3):
            assert (await fetched(raw, 5, version=2)).error_code == CORRUPT
        assert (await fetched(raw, 6, version=2)).error_code == 0
    assert lines(caplog, f"is damaged at {position}") == 1
