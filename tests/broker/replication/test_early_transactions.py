"""Transactions of version 2 that begin before the last one has its markers, or where the coordinator is the leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.replication.remote_markers import RemoteMarkers
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.tests.broker.replication.test_coordinators_move import OFFSETS, TRANSACTIONS, lead_internal, no_marker
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import accepted, until

LEADERS = [1, 2]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    # Nobody is told to come again: what comes early waits for as long as it takes.
    async with HandCluster(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000) as each:
        await lead_internal(each, TRANSACTIONS, 1)
        await until(lambda: not each.brokers[1].services.transactions.shards.loading)
        yield each


async def producer_of(cluster: HandCluster, leader: int) -> tuple[Transactional, Transactional]:
    """A producer at its coordinator, and the same one at the leader of the partition."""
    await cluster.assign("t", leader=leader)
    at_coordinator = Transactional(await cluster.connect(1), "x")
    await at_coordinator.begin()
    at_leader = Transactional(await cluster.connect(leader), "x")
    take_over(at_leader, at_coordinator)
    return at_coordinator, at_leader


def take_over(to: Transactional, of: Transactional) -> None:
    to.producer_id, to.epoch, to.sequences = of.producer_id, of.epoch, of.sequences


@pytest.mark.parametrize("leader", LEADERS, ids=["at the coordinator", "elsewhere"])
async def test_no_record_is_refused_however_soon_it_comes(cluster: HandCluster, leader: int) -> None:
    coordinator, writer = await producer_of(cluster, leader)
    for _ in range(5):
        assert (await writer.send("t", b"a")).error_code == 0
        assert await coordinator.end(commit=True) == 0
        take_over(writer, coordinator)
    await until(lambda: cluster.partition(leader, "t").last_stable_offset == 10)
    close(coordinator, writer)


@pytest.mark.parametrize("leader", LEADERS, ids=["at the coordinator", "elsewhere"])
async def test_one_record_adds_all_partitions_of_a_request(cluster: HandCluster, leader: int) -> None:
    for index in range(1, 8):
        await cluster.assign("t", index, leader=leader)
    coordinator, writer = await producer_of(cluster, leader)
    log = cluster.brokers[1].services.transactions.shards
    place = TRANSACTIONS, log.partition_of("x")
    before = cluster.partition(1, *place).log.log_end_offset
    records = batch_of(
        b"a", producer_id=writer.producer_id, producer_epoch=writer.epoch, base_sequence=0, transactional=True
    )
    # One is led elsewhere, and one is not there.
    sent = [PartitionProduceData(index, bytearray(records)) for index in range(9)]
    await cluster.assign("t", 7, leader=3)
    request = ProduceRequest("x", -1, 30_000, [TopicProduceData("t", partition_data=sent)])
    answer = await writer.raw.ask(ApiKey.PRODUCE, 12, request)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [0] * 7 + [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert cluster.partition(1, *place).log.log_end_offset == before + 1
    assert await coordinator.end(commit=True) == 0
    await until(lambda: all(cluster.partition(leader, "t", index).last_stable_offset == 2 for index in range(7)))
    close(coordinator, writer)


@pytest.mark.parametrize("leader", LEADERS, ids=["at the coordinator", "elsewhere"])
async def test_no_offset_is_refused_however_soon_it_comes(cluster: HandCluster, leader: int) -> None:
    await lead_internal(cluster, OFFSETS, leader)
    await until(lambda: not cluster.brokers[leader].services.groups.shards.loading)
    coordinator, writer = await producer_of(cluster, leader)
    for offset in range(3):
        assert await writer.commit_offset("g", "t", offset) == 0
        assert await coordinator.end(commit=True) == 0
        take_over(writer, coordinator)
    close(coordinator, writer)


def close(*producers: Transactional) -> None:
    for each in producers:
        each.raw.close()


@pytest.mark.parametrize("leader", LEADERS, ids=["at the coordinator", "elsewhere"])
@pytest.mark.parametrize("max_ms", [0, 60])
async def test_a_producer_is_told_to_come_again_once_the_wait_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader: int, max_ms: int
) -> None:
    async with HandCluster(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=max_ms) as cluster:
        await lead_internal(cluster, TRANSACTIONS, 1)
        await until(lambda: not cluster.brokers[1].services.transactions.shards.loading)
        # Its marker does not come.
        await cluster.assign("slow", leader=2)
        coordinator, writer = await producer_of(cluster, leader)
        slow = Transactional(await cluster.connect(2), "x")
        take_over(slow, coordinator)
        await accepted(lambda: slow.send("slow", b"a"))
        with monkeypatch.context() as patch:
            patch.setattr(RemoteMarkers, "_send", no_marker)
            assert await coordinator.end(commit=True) == 0
            take_over(writer, coordinator)
            began_s = asyncio.get_running_loop().time()
            assert (await writer.send("t", b"a")).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            assert asyncio.get_running_loop().time() - began_s >= max_ms / 1000 - 0.001
        close(coordinator, writer, slow)


async def one_that_waits(
    cluster: HandCluster, monkeypatch: pytest.MonkeyPatch, leader: int
) -> tuple[asyncio.Future[Any], Transactional, Transactional, Transactional]:
    """Return a record that waits for markers which never come, and the connections of its producer."""
    await cluster.assign("slow", leader=2)
    coordinator, writer = await producer_of(cluster, leader)
    slow = Transactional(await cluster.connect(2), "x")
    take_over(slow, coordinator)
    assert (await slow.send("slow", b"a")).error_code == 0
    monkeypatch.setattr(RemoteMarkers, "_send", no_marker)
    assert await coordinator.end(commit=True) == 0
    take_over(writer, coordinator)
    waiting = asyncio.ensure_future(writer.send("t", b"a"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    return waiting, coordinator, writer, slow


async def test_who_waits_for_markers_keeps_no_other_producer_waiting(
    cluster: HandCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, *used = await one_that_waits(cluster, monkeypatch, 2)
    other = Transactional(await cluster.connect(1), "y")
    await other.begin()
    other_writer = Transactional(await cluster.connect(2), "y")
    take_over(other_writer, other)
    async with asyncio.timeout(5):
        assert (await other_writer.send("t", b"b")).error_code == 0
    waiting.cancel()
    close(*used, other, other_writer)


async def test_who_waits_is_sent_to_the_next_coordinator(cluster: HandCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, *used = await one_that_waits(cluster, monkeypatch, 1)
    await lead_internal(cluster, TRANSACTIONS, 3)
    # As Produce says it: not the leader's fault.
    assert (await waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    close(*used)
