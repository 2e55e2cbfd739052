"""A decision on a transaction that waits for the disk does not come behind those of another coordinator."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.storage.files import Disk, File
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.histories.transactional import V2_END, V2_PRODUCE, Transactional
from odradek.tests.support.waiting import accepted, until

NAME, TRANSACTIONS, COUNT = "x", "__transaction_state", 2
WAIT_S = 60


async def lead(cluster: HandCluster, leader: int) -> None:
    for index in range(COUNT):
        await cluster.assign(TRANSACTIONS, index, leader=leader)
    shards = cluster.brokers[leader].services.transactions.shards
    await until(lambda: shards.owned == set(range(COUNT)) and not shards.loading)


def send_without_answer(producer: Transactional) -> None:
    """Send a batch that nobody waits for."""
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "transactional": True}
    sent = [PartitionProduceData(0, batch_of(b"b", base_sequence=1, **who))]
    request = ProduceRequest(NAME, acks=0, timeout_ms=1_000, topic_data=[TopicProduceData("t", partition_data=sent)])
    producer.raw.send(ApiKey.PRODUCE, V2_PRODUCE - 3, request)


async def test_a_commit_is_not_written_once_another_broker_has_coordinated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the disk, and meanwhile the partition of its transactional id goes away and comes back."""
    gate, waiting, leader = threading.Event(), list[str](), tmp_path / "node-1"
    fsync = Disk.fsync

    def gated(disk: Disk, file: File) -> None:
        if file.path.is_relative_to(leader / "t-0"):
            waiting.append(file.path.name)
            assert gate.wait(WAIT_S)
        fsync(disk, file)

    async with HandCluster(tmp_path, 2, log_flush_interval_messages=1) as cluster:
        await cluster.assign("t", leader=1)
        await lead(cluster, 1)
        transactions = cluster.brokers[1].services.transactions
        async with await cluster.connect(1) as raw:
            producer = Transactional(raw, NAME)
            await producer.begin()
            # The record of its partition is on its way to the disk.
            await accepted(lambda: producer.send("t", b"a"), ErrorCode.CONCURRENT_TRANSACTIONS)
            monkeypatch.setattr(Disk, "fsync", gated)
            try:
                send_without_answer(producer)
                await until(lambda: bool(waiting))
                raw.send(ApiKey.END_TXN, V2_END, EndTxnRequest(NAME, producer.producer_id, producer.epoch, True))
                await until(lambda: transactions.ids[NAME].is_busy)
                await lead(cluster, 2)
                await lead(cluster, 1)
            finally:
                gate.set()
            answer = await raw.receive(ApiKey.END_TXN, V2_END)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            # The coordinator of now decides, and a restart finds nothing else.
            assert await producer.end(commit=False) == 0
