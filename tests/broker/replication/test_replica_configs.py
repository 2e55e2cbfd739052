"""The configs of replication, each shown to act over brokers whose controller the test plays."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.broker import server
from odradek.broker.configs.server_table import RACK_AWARE_SELECTOR
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.storage.checkpoints import CLEAN_SHUTDOWN, REPLICATION_OFFSET, read_offsets
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.disks.ruled_disk import WAIT_S, HangingDisk
from odradek.tests.support.waiting import until


async def test_partitions_are_fetched_over_several_connections(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 2, num_replica_fetchers=3) as cluster:
        for index in range(6):
            await cluster.assign("t", index, leader=1)
        await until(lambda: len(connections(cluster.brokers[1])) == 3)


async def test_a_partition_that_failed_waits_before_it_is_fetched_again(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 2, replica_fetch_wait_max_ms=20) as cluster:
        for node, backoff_ms in ((1, 20), (2, 3_600_000)):
            object.__setattr__(cluster.brokers[node].config, "replica_fetch_backoff_ms", backoff_ms)
        # Neither leader knows of it when it is asked first.
        await cluster.assign("quick", leader=2, to=(1,))
        await cluster.assign("slow", leader=1, to=(2,))
        await cluster.assign("probe", leader=1)
        async with await cluster.connect(1) as raw:
            await raw.produce("probe", batch_of(b"x"), timeout_ms=20_000)
        await cluster.leader_and_isr(2, [("quick", 0)])
        await cluster.leader_and_isr(1, [("slow", 0)])
        for topic, node in (("quick", 2), ("slow", 1)):
            async with await cluster.connect(node) as raw:
                await raw.produce(topic, batch_of(b"x"), acks=1)
        await until(lambda: cluster.partition(1, "quick").log.log_end_offset == 1)
        assert cluster.partition(2, "slow").log.log_end_offset == 0


async def test_a_leader_that_is_silent_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    caplog.set_level(logging.WARNING)
    async with HandCluster(tmp_path, 2, replica_socket_timeout_ms=50) as cluster:
        server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
        leader = cluster.brokers[1]
        cluster.addresses[1] = server.sockets[0].getsockname()
        await cluster.assign("t", leader=1, to=(2,))
        await until(lambda: "did not answer Fetch within 0.05 s" in caplog.text)
        assert leader.services.replicas is not None
        server.close()


async def test_a_follower_that_does_not_fetch_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, replica_lag_time_max_ms=100) as cluster:
        await cluster.assign("t", leader=1, to=(1, 2))
        async with await cluster.connect(1) as raw:
            result = await raw.produce("t", batch_of(b"x"), timeout_ms=20_000)
            assert result.error_code == 0
        assert cluster.controller.states["t", 0].isr == (1, 2)
        await cluster.leader_and_isr(3, [("t", 0)])
        await until(lambda: cluster.controller.states["t", 0].isr == (1, 2, 3))
        assert cluster.partition(3).log.log_end_offset == 1


async def test_high_watermarks_are_written_down(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, 2, replica_high_watermark_checkpoint_interval_ms=20) as cluster:
        await cluster.assign("t", leader=1)
        async with await cluster.connect(1) as raw:
            await raw.produce("t", batch_of(b"x", b"y"), timeout_ms=20_000)
        paths = [cluster.brokers[node].config.data_dir / REPLICATION_OFFSET for node in (1, 2)]
        await until(lambda: all(read_offsets(path) == {("t", 0): 2} for path in paths))


async def test_a_disk_that_hangs_holds_up_no_high_watermarks_of_another_nor_its_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANG_S", 0)
    disk, folders = HangingDisk(), [tmp_path / "node-1", tmp_path / "other"]
    cluster = HandCluster(tmp_path, 1, replica_high_watermark_checkpoint_interval_ms=20)
    cluster.disks[1] = disk
    cluster.configs[1] = replace(cluster.configs[1], log_dirs=tuple(map(str, folders)))
    async with cluster:
        for index in range(2):
            await cluster.assign("t", index, leader=1)
        (index,) = (each for each in range(2) if cluster.partition(1, "t", each).log.directory.parent == folders[0])
        disk.hang(folders[1], kinds={"rename"})
        await until(lambda: disk.waiting == 1)
        async with await cluster.connect(1) as raw:
            await raw.produce("t", batch_of(b"x"), index, timeout_ms=20_000)
        # Sooner than the disk gives up.
        try:
            async with asyncio.timeout(WAIT_S / 2):
                await until(lambda: read_offsets(folders[0] / REPLICATION_OFFSET) == {("t", index): 1})
                stop = asyncio.ensure_future(cluster.brokers[1].stop())
                await until(lambda: (folders[0] / CLEAN_SHUTDOWN).exists())
                assert not (folders[1] / CLEAN_SHUTDOWN).exists()
        finally:
            disk.free()
        await stop


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    racks = {1: "north", 2: "south", 3: "south"}
    async with HandCluster(tmp_path, racks=racks, replica_selector_class=RACK_AWARE_SELECTOR) as cluster:
        await cluster.assign("t", leader=1)
        async with await cluster.connect(1) as raw:
            await raw.produce("t", batch_of(b"x"), timeout_ms=20_000)
            for rack, expected in (("south", (2, 0)), ("north", (-1, 1)), ("east", (-1, 1)), ("", (-1, 1))):
                wanted = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
                request = FetchRequest(max_wait_ms=0, min_bytes=1, rack_id=rack, topics=[wanted])
                (found,) = (await raw.ask(ApiKey.FETCH, 11, request)).responses[0].partitions
                assert (found.preferred_read_replica, len(found.records) > 0) == (expected[0], bool(expected[1]))
