"""A truncation whose producers take long to find: a thread looks for them, and the role may change meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.topics import validation
from odradek.storage import checkpoints
from odradek.storage.log import Log
from odradek.storage.log_view import LogView
from odradek.tests.broker.replication.test_leader_changes import agree, produce
from odradek.tests.support.clusters.hand_cluster import HandCluster, bytes_of
from odradek.tests.support.disks.ruled_disk import FullDisk
from odradek.tests.support.waiting import until


class SlowSearch:
    """Holds every search for producers until `go_on` is set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.threads: set[int] = set()
        search = LogView.producers_before

        def slow(view: LogView, *given: Any) -> Any:
            self.threads.add(threading.get_ident())
            self.began.set()
            assert self.go_on.wait(30)
            return search(view, *given)

        patch.setattr(LogView, "producers_before", slow)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, 2, replica_fetch_wait_max_ms=50) as each:
        yield each


async def diverge(cluster: HandCluster) -> None:
    """Let broker 1 have a record that broker 2, the leader by now, has not."""
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"kept")).error_code == 0
    await cluster.assign("t", leader=2, isr=(2,), to=(2,))
    assert (await produce(cluster, 1, b"lost", acks=1)).error_code == 0
    assert (await produce(cluster, 2, b"new")).base_offset == 1


async def test_the_loop_goes_on_while_a_thread_looks_for_the_producers(
    cluster: HandCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await diverge(cluster)
    search = SlowSearch(monkeypatch)
    await cluster.leader_and_isr(1, [("t", 0)])
    await until(search.began.is_set)
    # On one loop with the other broker, which answers.
    assert (await produce(cluster, 2, b"newer")).base_offset == 2
    assert cluster.partition(1).log.log_end_offset == 2
    search.go_on.set()
    await agree(cluster, 1, 2)
    assert b"lost" not in bytes_of(cluster, 1)
    assert threading.get_ident() not in search.threads


async def test_a_follower_that_leads_by_then_is_not_cut(cluster: HandCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an unclean election: what it has is what there is now."""
    await diverge(cluster)
    search = SlowSearch(monkeypatch)
    await cluster.leader_and_isr(1, [("t", 0)])
    await until(search.began.is_set)
    await cluster.assign("t", leader=1, isr=(1,), to=(1,))
    assert (await produce(cluster, 1, b"later", acks=1)).base_offset == 2
    search.go_on.set()
    await asyncio.sleep(0.05)
    assert b"lost" in bytes_of(cluster, 1) and cluster.partition(1).log.log_end_offset == 3
    await cluster.leader_and_isr(2, [("t", 0)])
    await agree(cluster, 1, 2)
    assert b"new" not in bytes_of(cluster, 2)


async def test_a_follower_that_leads_by_then_takes_nothing_behind_a_batch_that_a_thread_wrote(
    cluster: HandCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log would get a gap, and records that the leader of before has at other offsets than this one."""
    began, go_on, stage = threading.Event(), threading.Event(), Log.stage

    def slow(log: Log, *given: Any) -> Any:
        began.set()
        assert go_on.wait(30)
        return stage(log, *given)

    await cluster.assign("t", leader=1, to=(1,))
    await cluster.assign("followed-too", leader=1)
    for value in (b"large" * 500, b"behind"):
        assert (await produce(cluster, 1, value, acks=1)).error_code == 0
    monkeypatch.setattr(validation, "VERY_LARGE_BYTES", 2000)
    monkeypatch.setattr(Log, "stage", slow)
    await cluster.leader_and_isr(2, [("t", 0)])
    await until(began.is_set)
    await cluster.assign("t", leader=2, isr=(2,), to=(2,))
    go_on.set()
    await asyncio.sleep(0.05)
    assert cluster.partition(2).log.log_end_offset == 0
    assert (await produce(cluster, 2, b"own", acks=1)).base_offset == 0


def point_on_disk(cluster: HandCluster, node: int) -> int:
    """The recovery point that a start after a crash would go by."""
    folder = cluster.partition(node).log.directory.parent
    return checkpoints.read_offsets(folder / checkpoints.RECOVERY_POINT)["t", 0]


@pytest.mark.parametrize("refused", ["recovery-point", ".timeindex", "leader-epoch"])
async def test_no_full_disk_leaves_a_recovery_point_above_what_is_copied_after_a_cut(
    tmp_path: Path, refused: str
) -> None:
    """After a crash the batches between would pass for flushed."""
    made, failures = HandCluster(tmp_path, 2), 0

    def is_full(path: Path) -> bool:
        nonlocal failures
        failures += refused in path.name
        return refused in path.name

    disk = made.disks[1] = FullDisk()
    async with made as cluster:
        await diverge(cluster)
        log = cluster.partition(1).log
        log.flush()
        await cluster.brokers[1].services.background.checkpoints.write(log.directory.parent)
        assert (point_on_disk(cluster, 1), log.log_end_offset) == (2, 2)
        disk.is_full = is_full
        await cluster.leader_and_isr(1, [("t", 0)])
        async with asyncio.timeout(30):
            while failures < 3 and bytes_of(cluster, 1) != bytes_of(cluster, 2):
                assert b"lost" in bytes_of(cluster, 1) or point_on_disk(cluster, 1) <= 1
                await asyncio.sleep(0.002)
        assert b"lost" in bytes_of(cluster, 1) or point_on_disk(cluster, 1) <= 1
        disk.free()
        await agree(cluster, 1, 2)
        assert point_on_disk(cluster, 1) <= log.recovery_point
