"""After a start that opens no log, the system reads the ends of the logs before the first appends need them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.replication.follower_log import FollowerLog
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records import batch
from odradek.storage.files import Buffer, Disk, File
from odradek.storage.segments.segment_file import END_BYTES
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.clients.raw import Raw, batch_of


class Noting(Disk):
    """Notes what the system is asked to read ahead."""

    def __init__(self) -> None:
        self.asked: dict[Path, int] = {}

    def will_need(self, file: File, position: int) -> None:
        self.asked[file.path] = position
        super().will_need(file, position)


async def test_the_ends_of_logs_that_a_start_has_not_opened_are_read_ahead(config: BrokerConfig) -> None:
    first = Noting()
    async with Broker(config, disk=first) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", partitions=2)
        for _ in range(2):
            await raw.produce("t", batch_of(b"x" * (END_BYTES // 2)))
        await raw.produce("t", batch_of(b"y"), partition=1)
    assert first.asked == {}, "nothing was there"
    again = Noting()
    async with Broker(replace(config), disk=again) as broker:
        await broker.services.background.read_ahead.wait_idle()
        folder = Path(config.log_dirs[0])
        names = {f"{'0' * 20}.{end}" for end in ("log", "index", "timeindex")}
        assert set(again.asked) == {folder / f"t-{number}" / name for number in range(2) for name in names}
        large = folder / "t-0" / f"{'0' * 20}.log"
        assert again.asked[large] == large.stat().st_size - END_BYTES > 0


class Watching(Disk):
    """Notes the threads that read each file, first to last, and the batches that each turn of the loop writes."""

    def __init__(self) -> None:
        self.turn = 0
        self.written: Counter[int] = Counter()
        self._readers: dict[Path, list[int]] = {}

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def read(self, file: File, size: int, position: int) -> bytes:
        self._readers.setdefault(file.path, []).append(threading.get_ident())
        return super().read(file, size, position)

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        self._readers.setdefault(file.path, []).append(threading.get_ident())
        return super().read_into(file, target, position)

    def write(self, file: File, data: Buffer, position: int) -> None:
        if file.path.suffix == ".log":
            self.written[self.turn] += 1
        super().write(file, data, position)

    def readers(self, folder: Path) -> dict[str, list[int]]:
        """Return the threads by the file, of those that hold records and their indexes."""
        return {
            f"{path.parent.name}/{path.suffix}": readers
            for path, readers in self._readers.items()
            if path.is_relative_to(folder) and path.suffix in (".log", ".index", ".timeindex")
        }


async def _produce_to_all(raw: Raw, partitions: int) -> list[tuple[int, int]]:
    """Send one request with a batch for each partition; return the errors and base offsets."""
    data = [PartitionProduceData(each, batch_of(b"x")) for each in range(partitions)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=data)])
    answer = await raw.ask(ApiKey.PRODUCE, 9, request)
    return [(each.error_code, each.base_offset) for each in answer.responses[0].partition_responses]


@asynccontextmanager
async def _restarted_cold(config: BrokerConfig, partitions: int) -> AsyncIterator[tuple[Watching, Raw]]:
    """Give each partition a batch, and start the broker again, which opens none of their logs."""
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", partitions=partitions)
        assert await _produce_to_all(raw, partitions) == [(0, 0)] * partitions
    disk = Watching()
    async with Broker(replace(config), disk=disk) as broker, await Raw.connect(broker.address) as raw:
        counting = asyncio.create_task(disk.count_turns())
        try:
            yield disk, raw
        finally:
            counting.cancel()


async def test_one_request_for_many_cold_logs_waits_for_the_disk_beside_the_loop(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions, a_turn = 12, 5
    monkeypatch.setattr("odradek.broker.handlers.produce.COLD_AT_ONCE", a_turn)
    async with _restarted_cold(config, partitions) as (disk, raw):
        assert await _produce_to_all(raw, partitions) == [(0, 1)] * partitions
        readers = disk.readers(Path(config.log_dirs[0]))
        on_the_loop_first = {file for file, threads in readers.items() if threads[0] == threading.get_ident()}
        assert on_the_loop_first == set()
        assert len(readers) == 3 * partitions
        assert sum(disk.written.values()) == partitions and max(disk.written.values()) <= a_turn
        disk.written.clear()
        assert await _produce_to_all(raw, partitions) == [(0, 2)] * partitions
        assert set(disk.written.values()) == {partitions}, "a log that is warm is written at once"


async def _mark_all(raw: Raw, partitions: int) -> None:
    """Have one request write a marker to each partition."""
    marker = WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("t", list(range(partitions)))])
    answer = await raw.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
    results = answer.markers[0].topics[0].partitions
    assert [(each.partition_index, each.error_code) for each in results] == [(at, 0) for at in range(partitions)]


async def test_markers_for_many_cold_logs_wait_for_the_disk_beside_the_loop(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions, a_turn, few = 12, 5, 2
    monkeypatch.setattr("odradek.broker.coordination.transactions.markers.COLD_AT_ONCE", few)
    async with _restarted_cold(config, partitions) as (disk, raw):
        # A marker looks at the clock once.
        end_slices_after(a_turn)
        await _mark_all(raw, partitions)
        readers = disk.readers(Path(config.log_dirs[0]))
        on_the_loop_first = {file for file, threads in readers.items() if threads[0] == threading.get_ident()}
        assert {file.partition("/")[0] for file in on_the_loop_first} == {f"t-{at}" for at in range(few)}
        assert sum(disk.written.values()) == partitions and max(disk.written.values()) <= a_turn
        disk.written.clear()
        await _mark_all(raw, partitions)
        assert sum(disk.written.values()) == partitions and max(disk.written.values()) <= a_turn


async def test_a_followers_copy_of_a_cold_log_waits_for_the_disk_beside_the_loop(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        assert await _produce_to_all(raw, 1) == [(0, 0)]
    disk = Watching()
    async with Broker(replace(config), disk=disk) as broker:
        services = broker.services
        (partition,) = services.topics.partitions()
        doors = services.flusher, services.staging, services.threads, services.clock
        log = FollowerLog(*doors, _nothing, lambda _: None)
        records = batch.decode_batch(batch_of(b"x"))
        copied = batch.encode_batch([each._replace(offset=1) for each in records], base_offset=1)
        await log.append(partition, memoryview(copied), lambda: True)
        assert partition.log.log_end_offset == 2
        readers = disk.readers(Path(config.log_dirs[0]))
        assert readers and threading.get_ident() not in {threads[0] for threads in readers.values()}


async def _nothing(_: Path) -> None:
    pass
