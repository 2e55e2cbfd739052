"""The fsyncs of a follower: those of all partitions of a response run beside each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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
