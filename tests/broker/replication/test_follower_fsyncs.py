"""The fsyncs of a follower: those of all partitions of a response run beside each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.replication.follower_log import FollowerLog
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.storage.files import Disk, File
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until

# As many as there are threads for fsyncs of one directory, or fewer.
PARTITIONS = 4
WAIT_S = 60


async def test_a_response_with_several_partitions_waits_for_their_fsyncs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, waiting, follower = threading.Event(), list[str](), tmp_path / "node-2"
    fsync, threads = Disk.fsync, set[int]()

    def gated(disk: Disk, file: File) -> None:
        if file.path.is_relative_to(follower) and file.path.suffix == ".log":
            threads.add(threading.get_ident())
            waiting.append(file.path.parent.name)
            assert gate.wait(WAIT_S)
        fsync(disk, file)

    sent = [PartitionProduceData(index, batch_of(b"x")) for index in range(PARTITIONS)]
    request = ProduceRequest(acks=1, timeout_ms=20_000, topic_data=[TopicProduceData("t", partition_data=sent)])
    async with HandCluster(tmp_path, 2, log_flush_interval_messages=1) as cluster:
        for index in range(PARTITIONS):
            await cluster.assign("t", index, leader=1)
        monkeypatch.setattr(Disk, "fsync", gated)
        try:
            async with await cluster.connect(1) as raw:
                await raw.ask(ApiKey.PRODUCE, 9, request)
            await until(lambda: len(waiting) == PARTITIONS)
            assert sorted(waiting) == [f"t-{index}" for index in range(PARTITIONS)]
            # None is counted before its fsync.
            ends = [cluster.partition(1, "t", index).high_watermark for index in range(PARTITIONS)]
            assert ends == [0] * PARTITIONS
        finally:
            gate.set()
        await until(lambda: all(cluster.partition(1, "t", each).high_watermark == 1 for each in range(PARTITIONS)))
    assert threading.get_ident() not in threads


async def test_a_log_that_starts_over_for_a_whole_batch_waits_for_its_fsync(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fsync that ended behind it would take what is copied then for flushed."""
    async with Broker(config) as broker:
        services, running = broker.services, list[object]()
        partition = services.topics.create("t", 1, {}).partitions[0]
        log = partition.log
        # The leader's records were deleted up to the middle of its first batch. No checkpoint stands in the way.
        log.start_over(7, 0)
        log.clean_on_disk = 0
        start_over = log.start_over

        def watched(offset: int, now_ms: int) -> None:
            running.extend(services.flusher._running)
            start_over(offset, now_ms)

        monkeypatch.setattr(log, "start_over", watched)
        services.flusher.schedule(partition, 0)
        logs = FollowerLog(
            services.flusher, services.staging, services.threads, services.clock,
            services.background.checkpoints.write, lambda _: None,
        )  # fmt: skip
        copied = encode_batch([Record(offset, 0, None, b"x") for offset in range(5, 10)], base_offset=5)
        await logs.append(partition, memoryview(copied), lambda: True)
        assert running == []
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (7, 10, 5)
