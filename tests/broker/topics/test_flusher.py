"""What is forced to disk, when, and who is told if it cannot be."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig, server
from odradek.broker.threads import Work
from odradek.broker.topics import flusher as flushing
from odradek.broker.topics.partition import Partition
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.storage import checkpoints
from odradek.storage.files import Buffer, Disk, File
from odradek.tests.support.brokers.connections import connections, requests_wait
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.ruled_disk import FullDisk, disk_error
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until

WAIT_S = 20


class SlowDisk(Disk):
    """fsyncs of logs wait at a gate, are counted, and fail where a test says so. Writes of logs may find it full."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.synced: list[str] = []
        self.waiting: set[str] = set()
        self.broken: set[str] = set()
        self.full = False
        # The end of the names that the disk has no room for while it is full.
        self.full_of = ".log"

    def fsync(self, file: File) -> None:
        partition = file.path.parent.name
        if file.path.suffix == ".log":
            self.waiting.add(partition)
            assert self.gate.wait(WAIT_S)
            self.waiting.discard(partition)
            if partition in self.broken:
                raise disk_error("fsync", file.path, errno.EIO)
            self.synced.append(partition)
        super().fsync(file)

    def write(self, file: File, data: Buffer, position: int) -> None:
        if self.full and file.path.name.endswith(self.full_of):
            super().write(file, memoryview(data)[:10], position)
            raise disk_error("write", file.path, errno.ENOSPC)
        super().write(file, data, position)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def broker(config: BrokerConfig, disk: SlowDisk, clock: FakeClock) -> AsyncIterator[Broker]:
    async with Broker(config, disk=disk, clock=clock) as each:
        yield each
        disk.gate.set()


@pytest.fixture(autouse=True)
def untroubled(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No exception goes unseen, whatever the disk does."""
    yield
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


async def test_with_flush_messages_1_the_answer_comes_after_the_fsync(raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", flush_messages="1")
    disk.gate.clear()
    answer = asyncio.ensure_future(raw.produce("t", batch_of(b"x")))
    await until(lambda: "t-0" in disk.waiting)
    assert not answer.done()
    assert disk.synced == []
    disk.gate.set()
    assert (await answer).base_offset == 0
    assert disk.synced == ["t-0"]


async def test_recovery_points_are_written_after_so_many_bytes(
    broker: Broker, raw: Raw, config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "PROGRESS_BYTES", 20_000)
    await raw.create_topic("t", flush_messages="1")
    written = config.data_dir / checkpoints.RECOVERY_POINT
    for count in range(4):
        assert not written.exists() or ("t", 0) not in checkpoints.read_offsets(written), count
        await raw.produce("t", batch_of(b"x" * 5_000))
    await until(lambda: written.exists() and checkpoints.read_offsets(written).get(("t", 0)) == 4)


async def test_all_that_wait_share_an_fsync(broker: Broker, raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", flush_messages="1")
    clients = [await Raw.connect(broker.address) for _ in range(20)]
    disk.gate.clear()
    answers = [asyncio.ensure_future(client.produce("t", batch_of(b"x"))) for client in clients]
    (partition,) = broker.topics.partitions()
    await until(lambda: partition.log.log_end_offset == 20)
    disk.gate.set()
    assert sorted(answer.base_offset for answer in await asyncio.gather(*answers)) == list(range(20))
    # The one that was running when most of them came, and the one that covered those.
    assert disk.synced == ["t-0", "t-0"]
    for client in clients:
        client.close()


async def test_partitions_of_a_request_are_flushed_in_parallel(raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", partitions=3, flush_messages="1")
    disk.gate.clear()
    raw.send(ApiKey.PRODUCE, 9, a_batch_each(3))
    await until(lambda: disk.waiting == {"t-0", "t-1", "t-2"})
    disk.gate.set()
    response = await raw.receive(ApiKey.PRODUCE, 9)
    assert [each.error_code for each in response.responses[0].partition_responses] == [0, 0, 0]


async def test_a_batch_with_acks_0_is_flushed_too(raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", flush_messages="1")
    raw.send(ApiKey.PRODUCE, 9, a_batch_each(1, acks=0))
    await until(lambda: disk.synced == ["t-0"])


async def test_without_flush_messages_nobody_waits(raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t")
    disk.gate.clear()
    assert (await raw.produce("t", batch_of(b"x"))).error_code == 0
    assert disk.waiting == set()


async def test_flush_ms_forces_what_waited_so_long(broker: Broker, raw: Raw, disk: SlowDisk, clock: FakeClock) -> None:
    await raw.create_topic("t", flush_ms="1000")
    await raw.produce("t", batch_of(b"x"))
    clock.advance(999)
    await raw.produce("t", batch_of(b"y"))
    broker.timers.fire_due()
    assert disk.synced == []
    clock.advance(1)
    broker.timers.fire_due()
    (partition,) = broker.topics.partitions()
    await until(lambda: partition.log.recovery_point == 2)
    assert disk.synced == ["t-0"]


def a_batch_each(partitions: int, acks: int = -1) -> ProduceRequest:
    """A request with a batch for each of the first partitions."""
    data = [PartitionProduceData(index, batch_of(b"x")) for index in range(partitions)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData("t", partition_data=data)])


async def begin_flush(broker: Broker, raw: Raw, disk: SlowDisk) -> Partition:
    """Write a batch and wait until its fsync is at the gate."""
    (partition,) = broker.topics.partitions()
    disk.gate.clear()
    raw.send(ApiKey.PRODUCE, 9, a_batch_each(1, acks=0))
    await until(lambda: partition.log.log_end_offset == 1)
    return partition


async def test_a_flush_that_is_due_while_one_runs_follows_it(
    broker: Broker, raw: Raw, disk: SlowDisk, clock: FakeClock
) -> None:
    await raw.create_topic("t", flush_ms="1000")
    partition = await begin_flush(broker, raw, disk)
    clock.advance(1000)
    broker.timers.fire_due()
    await until(lambda: disk.waiting == {"t-0"})
    await raw.produce("t", batch_of(b"y"))
    clock.advance(1000)
    broker.timers.fire_due()
    disk.gate.set()
    await until(lambda: partition.log.recovery_point == 2)
    assert disk.synced == ["t-0", "t-0"]


async def test_flush_messages_covers_a_batch_without_acks_that_comes_while_a_flush_runs(
    broker: Broker, raw: Raw, disk: SlowDisk
) -> None:
    await raw.create_topic("t", flush_messages="1")
    partition = await begin_flush(broker, raw, disk)
    await until(lambda: disk.waiting == {"t-0"})
    raw.send(ApiKey.PRODUCE, 9, a_batch_each(1, acks=0))
    await until(lambda: partition.log.log_end_offset == 2)
    disk.gate.set()
    await until(lambda: partition.log.recovery_point == 2)
    assert disk.synced == ["t-0", "t-0"]


async def test_a_lower_flush_ms_counts_for_batches_that_wait_already(
    broker: Broker, raw: Raw, disk: SlowDisk, clock: FakeClock
) -> None:
    await raw.create_topic("t", flush_ms="3600000")
    await raw.produce("t", batch_of(b"x"))
    (topic,) = broker.topics.all()
    broker.topics.alter(topic, {"flush.ms": "1000"})
    clock.advance(1000)
    broker.timers.fire_due()
    await until(lambda: topic.partitions[0].log.recovery_point == 1)


async def test_a_flush_that_failed_for_want_of_room_is_tried_again(
    broker: Broker, raw: Raw, clock: FakeClock, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.create_topic("t", flush_messages="1")
    (partition,) = broker.topics.partitions()
    disk.full, disk.full_of = True, "leader-epoch-checkpoint.tmp"
    assert (await raw.produce("t", batch_of(b"x"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.is_online
    disk.full = False
    clock.advance(flushing.RETRY_MS)
    broker.timers.fire_due()
    await until(lambda: partition.log.recovery_point == 1)
    assert len(set(errors(caplog))) == 1


async def test_a_failed_fsync_is_the_answer_of_its_partition_only(
    raw: Raw, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.create_topic("t", partitions=2, flush_messages="1")
    disk.broken.add("t-0")
    bad, good = (await raw.ask(ApiKey.PRODUCE, 9, a_batch_each(2))).responses[0].partition_responses
    assert (bad.error_code, bad.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert "Input/output error" in bad.error_message
    assert (good.error_code, good.base_offset) == (0, 0)
    (line,) = errors(caplog)
    assert line.startswith("t-0 is offline until the next start: fsync ")


async def test_after_a_failed_fsync_the_partition_is_offline_and_others_are_not(raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", partitions=2, flush_messages="1")
    await raw.produce("t", batch_of(b"kept"))
    disk.broken.add("t-0")
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    assert (await raw.produce("t", batch)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.broken.clear()
    # Neither the same batch nor another one.
    assert (await raw.produce("t", batch)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await raw.produce("t", batch_of(b"y"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await raw.produce("t", batch_of(b"z"), partition=1)).error_code == 0
    # What is read may never have reached the disk.
    assert (await raw.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert b"z" in bytes((await raw.fetch("t", 0, partition=1)).records)


async def test_clients_that_leave_while_the_disk_works_leave_nothing(broker: Broker, raw: Raw, disk: SlowDisk) -> None:
    await raw.create_topic("t", flush_messages="1")
    clients = [await Raw.connect(broker.address) for _ in range(10)]
    disk.gate.clear()
    for client in clients:
        client.send(ApiKey.PRODUCE, 9, a_batch_each(1))
    (partition,) = broker.topics.partitions()
    await until(lambda: partition.log.log_end_offset == 10)
    for client in clients:
        client.close()
    await until(lambda: len(connections(broker)) == 1)
    disk.broken.add("t-0")
    disk.gate.set()
    await until(lambda: not broker.services.flusher._running)
    assert not requests_wait(broker)


async def test_a_topic_that_is_deleted_before_its_fsync_is_no_failure(
    broker: Broker, raw: Raw, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.create_topic("t", flush_ms="1000")
    await raw.produce("t", batch_of(b"x"))
    await raw.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[DeleteTopicState("t")]))
    clock.advance(1000)
    broker.timers.fire_due()
    await until(lambda: not broker.services.flusher._running and not broker.services.background.work.running)
    assert errors(caplog) == []


@pytest.mark.parametrize("trouble", ["full", "broken"])
async def test_offsets_that_cannot_be_written_are_not_committed(
    config: BrokerConfig, disk: SlowDisk, trouble: str
) -> None:
    config = replace(config, offsets_topic_num_partitions=1, log_flush_interval_messages=1)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        assert await raw.commit(5, group="before") == 0
        disk.full = trouble == "full"
        disk.broken = {"__consumer_offsets-0"} if trouble == "broken" else set()
        assert await raw.commit(5, group="meanwhile") != 0
        assert await raw.commit(5, group="meanwhile") != 0
        disk.full = False
        disk.broken = set()
        assert (await raw.commit(5, group="after") == 0) is (trouble == "full")


async def test_a_checkpoint_that_fails_is_a_line_in_the_log_and_the_next_one_comes(
    config: BrokerConfig, tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    full = FullDisk()
    config = replace(config, log_flush_offset_checkpoint_interval_ms=1000)
    async with Broker(config, disk=full, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", flush_messages="1")
        await raw.produce("t", batch_of(b"x", b"y"))
        full.is_full = lambda path: "checkpoint" in path.name
        clock.advance(1000)
        broker.timers.fire_due()
        await until(lambda: bool(errors(caplog)))
        full.free()
        clock.advance(1000)
        broker.timers.fire_due()
        await until(lambda: not broker.services.background.work.running)
        assert "t 0 2" in (config.data_dir / "recovery-point-offset-checkpoint").read_text()
    assert len(errors(caplog)) == 1


async def test_a_disk_that_does_not_answer_does_not_hold_up_a_stop_for_ever(
    config: BrokerConfig, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "CLOSE_DEADLINE_S", 0.05)
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"x"))
        disk.gate.clear()
    assert f"{config.data_dir}: not all is on disk" in caplog.text
    assert not (config.data_dir / ".kafka_cleanshutdown").exists()
    disk.gate.set()
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.fetch("t", 0)).high_watermark == 1


async def test_after_a_crash_flush_ms_counts_for_what_recovery_found(
    config: BrokerConfig, disk: SlowDisk, clock: FakeClock, tmp_path: Path
) -> None:
    async with Broker(config, disk=disk, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", flush_ms="1000")
        await raw.produce("t", batch_of(b"x"))
        shutil.copytree(config.data_dir, tmp_path / "crashed", ignore=shutil.ignore_patterns("*.tmp"))
    crashed = replace(config, log_dirs=(str(tmp_path / "crashed"),))
    disk.synced.clear()
    async with Broker(crashed, disk=disk, clock=clock) as broker:
        (partition,) = broker.topics.partitions()
        assert partition.log.recovery_point == 0
        clock.advance(1000)
        broker.timers.fire_due()
        await until(lambda: partition.log.recovery_point == 1)
        assert disk.synced == ["t-0"]


async def test_a_flush_that_waits_is_few_objects_for_pythons_collector(
    broker: Broker, raw: Raw, disk: SlowDisk
) -> None:
    """flush.ms may start thousands at a time. A full collection of their objects held the loop for a turn of 26 ms."""
    count = 100
    await raw.create_topic("t", partitions=count)
    answer = await raw.ask(ApiKey.PRODUCE, 9, a_batch_each(count))
    assert not any(each.error_code for each in answer.responses[0].partition_responses)
    partitions, flusher = list(broker.topics.partitions()), broker.services.flusher
    disk.gate.clear()
    # All threads wait for the disk: what comes now waits for them.
    for partition in partitions[: Work.FSYNC.threads]:
        flusher.schedule(partition, 0)
    await until(lambda: len(disk.waiting) == Work.FSYNC.threads)
    rest = partitions[Work.FSYNC.threads :]
    found: dict[int, float] = {}
    for delay_ms in (60_000, 0):
        gc.collect()
        before = len(gc.get_objects())
        for partition in rest:
            flusher.schedule(partition, delay_ms)
        found[delay_ms] = (len(gc.get_objects()) - before) / len(rest)
    assert found[60_000] < 6.5 and found[0] < 15.5, found
    disk.gate.set()


async def test_groups_learn_the_end_of_a_transaction_although_its_client_goes_before_the_fsync(
    broker: Broker, raw: Raw, disk: SlowDisk
) -> None:
    await raw.create_topic("t")
    offsets = broker.services.internal_topics.create("__consumer_offsets")
    broker.topics.alter(offsets, {**offsets.record.configs, "flush.messages": "1"})
    producer = Transactional(raw, "id")
    await producer.begin()
    assert await producer.commit_offset("g", "t", 1) == 0
    group = broker.services.groups.groups["g"].state
    assert group.offsets.pending
    index = broker.services.groups.shards.partition_of("g")
    disk.gate.clear()
    async with await Raw.connect(broker.address) as other:
        marker = WritableTxnMarker(
            producer.producer_id, producer.epoch, False, [WritableTxnMarkerTopic(offsets.name, [index])]
        )
        other.send(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
        await until(lambda: f"{offsets.name}-{index}" in disk.waiting)
    await until(lambda: len(connections(broker)) == 1)
    disk.gate.set()
    await until(lambda: not group.offsets.pending)


async def test_a_marker_that_fails_once_its_sender_has_gone_is_no_unseen_error(
    broker: Broker, raw: Raw, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.create_topic("t", **{"flush.messages": "1"})
    producer = Transactional(raw, "id")
    await producer.begin()
    await producer.send("t", b"open")
    disk.gate.clear()
    async with await Raw.connect(broker.address) as other:
        topic = WritableTxnMarkerTopic("t", [0])
        marker = WritableTxnMarker(producer.producer_id, producer.epoch, False, [topic])
        other.send(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([marker]))
        await until(lambda: "t-0" in disk.waiting)
    await until(lambda: len(connections(broker)) == 1)
    disk.broken.add("t-0")
    disk.gate.set()
    await until(lambda: not disk.waiting)
    await asyncio.sleep(0)
    gc.collect()
    assert "never retrieved" not in caplog.text
