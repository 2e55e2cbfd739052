"""Groups and transactions over several brokers: coordinators move with the leaders of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.coordination.partition_hash import partition_for
from odradek.broker.replication.remote_markers import RemoteMarkers
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.fakes.clock import SkewedClock
from odradek.tests.support.waiting import until

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
# How many partitions the internal topics of a HandCluster have.
COUNT = 2


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50) as each:
        yield each


async def ask(cluster: HandCluster, node: int, key: ApiKey, version: int, request: Any) -> Any:
    async with await cluster.connect(node) as raw:
        return await raw.ask(key, version, request)


async def lead_internal(cluster: HandCluster, topic: str, leader: int) -> None:
    for index in range(COUNT):
        await cluster.assign(topic, index, leader=leader)


async def commit(cluster: HandCluster, node: int, offset: int) -> int:
    async with await cluster.connect(node) as raw:
        return await raw.commit(offset)


async def committed(cluster: HandCluster, node: int) -> tuple[int, int]:
    """The group's error and its offset, once the coordinator has loaded it."""
    group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    while True:
        answer = await ask(cluster, node, ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[group]))
        found = answer.groups[0]
        if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return found.error_code, found.topics[0].partitions[0].committed_offset if found.topics else -1
        await asyncio.sleep(0.005)


async def test_committed_offsets_follow_the_leader(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await lead_internal(cluster, OFFSETS, 1)
    await until(lambda: not cluster.brokers[1].services.groups.shards.loading)
    assert await commit(cluster, 1, 7) == 0
    assert await commit(cluster, 2, 7) == ErrorCode.NOT_COORDINATOR
    for node in (1, 2, 3):
        found = await ask(cluster, node, ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        assert (found.error_code, found.node_id) == (0, 1)
    await lead_internal(cluster, OFFSETS, 2)
    assert await committed(cluster, 2) == (0, 7)
    assert (await committed(cluster, 1))[0] == ErrorCode.NOT_COORDINATOR
    assert await commit(cluster, 1, 8) == ErrorCode.NOT_COORDINATOR
    assert await commit(cluster, 2, 8) == 0
    await lead_internal(cluster, OFFSETS, 3)
    assert await committed(cluster, 3) == (0, 8)


async def test_a_commit_is_answered_once_the_isr_has_it(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    for index in range(COUNT):
        await cluster.assign(OFFSETS, index, leader=1, to=(1,))
    await until(lambda: not cluster.brokers[1].services.groups.shards.loading)
    waiting = asyncio.ensure_future(commit(cluster, 1, 7))
    await until(lambda: len(cluster.brokers[1].services.purgatory) > 0)
    assert not waiting.done()
    await lead_internal(cluster, OFFSETS, 2)
    assert await waiting == ErrorCode.NOT_COORDINATOR


class Producer:
    """One transactional producer; each partition of its transaction and its coordinator may be anywhere."""

    def __init__(self, cluster: HandCluster, coordinator: int) -> None:
        self.cluster = cluster
        self.coordinator = coordinator
        self.id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        while True:
            answer = await ask(self.cluster, self.coordinator, key, version, request)
            if getattr(answer, "error_code", 0) not in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                return answer
            await asyncio.sleep(0.005)

    async def begin(self) -> None:
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("x", 60_000))
        assert answer.error_code == 0
        self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}

    async def add(self, topic: str) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
        )
        while True:
            answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                assert code == 0
                return
            await asyncio.sleep(0.005)

    async def send(self, node: int, topic: str, value: bytes) -> int:
        sequence = self.sequences.get(topic, 0)
        data = batch_of(
            value, producer_id=self.id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )
        async with await self.cluster.connect(node) as raw:
            result = await raw.produce(topic, data, transactional_id="x", timeout_ms=20_000)
        if not result.error_code:
            self.sequences[topic] = sequence + 1
        return result.error_code

    async def end(self, commit: bool) -> None:
        answer = await self.ask(ApiKey.END_TXN, 3, EndTxnRequest("x", self.id, self.epoch, commit))
        assert answer.error_code == 0


async def read(cluster: HandCluster, node: int, topic: str) -> tuple[int, bytes]:
    async with await cluster.connect(node) as raw:
        fetched = await raw.fetch(topic, 0, isolation_level=1)
    assert fetched.error_code == 0, fetched
    return fetched.last_stable_offset, bytes(fetched.records)


async def test_a_transaction_over_partitions_of_several_leaders_is_whole(cluster: HandCluster) -> None:
    await lead_internal(cluster, TRANSACTIONS, 3)
    for topic, leader in (("a", 1), ("b", 2), ("c", 3)):
        await cluster.assign(topic, leader=leader)
    producer = Producer(cluster, 3)
    for commit_it in (True, False, True):
        await producer.begin()
        for topic, leader in (("a", 1), ("b", 2), ("c", 3)):
            await producer.add(topic)
            assert await producer.send(leader, topic, b"x") == 0
        await producer.end(commit_it)
        for topic in "abc":
            await until(lambda topic=topic: all_ended(cluster, topic))
    for topic, leader in (("a", 1), ("b", 2), ("c", 3)):
        # Three records and three markers, on every replica.
        assert {cluster.partition(node, topic).log.log_end_offset for node in (1, 2, 3)} == {6}
        assert (await read(cluster, leader, topic))[0] == 6
        logs = {node: cluster.partition(node, topic).log for node in (1, 2, 3)}
        entries = {node: [each.aborted.entries() for each in log.segments] for node, log in logs.items()}
        assert entries[1] == entries[2] == entries[3] != [[]]


def all_ended(cluster: HandCluster, topic: str) -> bool:
    """Whether no transaction is open in a partition, on any replica, and all have the same."""
    found = [cluster.partition(node, topic) for node in (1, 2, 3)]
    ends = {each.log.log_end_offset for each in found} | {each.last_stable_offset for each in found}
    return len(ends) == 1


async def test_a_batch_outside_of_the_transaction_is_rejected_by_a_remote_coordinator(cluster: HandCluster) -> None:
    await lead_internal(cluster, TRANSACTIONS, 3)
    await cluster.assign("a", leader=1)
    producer = Producer(cluster, 3)
    await producer.begin()
    assert await producer.send(1, "a", b"x") == ErrorCode.INVALID_TXN_STATE
    await producer.add("a")
    assert await producer.send(1, "a", b"x") == 0


async def one_that_has_sent(cluster: HandCluster) -> Producer:
    """Return a producer whose coordinator is broker 1, with a record in a transaction at the leader, broker 2."""
    await lead_internal(cluster, TRANSACTIONS, 1)
    await cluster.assign("a", leader=2)
    producer = Producer(cluster, 1)
    await producer.begin()
    await producer.add("a")
    assert await producer.send(2, "a", b"one") == 0
    return producer


async def test_an_open_transaction_outlives_the_leaders_of_its_partition_and_of_its_coordinator(
    cluster: HandCluster,
) -> None:
    producer = await one_that_has_sent(cluster)
    await cluster.assign("a", leader=3)
    # The next leader knows the open transaction, and that nothing is stable.
    assert cluster.partition(3, "a").last_stable_offset == 0
    assert await producer.send(3, "a", b"two") == 0
    await lead_internal(cluster, TRANSACTIONS, 2)
    producer.coordinator = 2
    await producer.end(True)
    await until(lambda: all_ended(cluster, "a"))
    stable, records = await read(cluster, 3, "a")
    assert stable == 3
    assert b"one" in records and b"two" in records


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000, 0], ids=["ahead", "behind", "equal"])
async def test_a_commit_outlives_its_coordinator_whatever_the_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    """The next coordinator leads the partition, and its clock has dated the marker of the transaction before."""
    cluster = HandCluster(tmp_path, replica_fetch_wait_max_ms=50)
    cluster.clocks[2] = SkewedClock(ahead_ms)
    async with cluster:
        producer = await one_that_has_sent(cluster)
        await producer.end(True)
        await until(lambda: all_ended(cluster, "a"))
        await producer.add("a")
        assert await producer.send(2, "a", b"two") == 0
        monkeypatch.setattr(RemoteMarkers, "_send", no_marker)
        await producer.end(True)
        await lead_internal(cluster, TRANSACTIONS, 2)
        await until(lambda: all_ended(cluster, "a"))
        assert cluster.partition(2, "a").last_stable_offset >= 4
        assert not any(each.aborted.entries() for each in cluster.partition(2, "a").log.segments)


async def no_marker(*_: object) -> None:
    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the leader cannot be reached")


async def test_markers_wait_for_a_leader_that_is_not_there(cluster: HandCluster) -> None:
    producer = await one_that_has_sent(cluster)
    await cluster.stop(2)
    for index in range(COUNT):
        await cluster.assign(TRANSACTIONS, index, leader=1, isr=(1, 3))
    await producer.end(True)
    assert cluster.partition(3, "a").log.log_end_offset == 1
    await cluster.assign("a", leader=3, isr=(1, 3))
    await until(lambda: cluster.partition(3, "a").last_stable_offset == 2)


async def test_offsets_in_a_transaction_of_a_remote_coordinator_count_once_it_commits(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await lead_internal(cluster, OFFSETS, 2)
    await lead_internal(cluster, TRANSACTIONS, 3)
    await until(lambda: not cluster.brokers[2].services.groups.shards.loading)
    producer = Producer(cluster, 3)
    for offset, commit_it, expected in ((5, False, -1), (7, True, 7)):
        await producer.begin()
        topic = TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, offset)])
        request = TxnOffsetCommitRequest("x", "g", producer.id, producer.epoch, topics=[topic])
        rejected = await ask(cluster, 2, ApiKey.TXN_OFFSET_COMMIT, 3, request)
        assert rejected.topics[0].partitions[0].error_code
        added = await producer.ask(
            ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest("x", producer.id, producer.epoch, "g")
        )
        assert added.error_code == 0
        answer = await ask(cluster, 2, ApiKey.TXN_OFFSET_COMMIT, 3, request)
        assert answer.topics[0].partitions[0].error_code == 0
        await producer.end(commit_it)
        offsets = cluster.partition(2, OFFSETS, partition_for("g", COUNT))
        # The marker is in the log, and in that of each replica.
        await until(lambda offsets=offsets: offsets.last_stable_offset == offsets.log.log_end_offset)
        assert await committed(cluster, 2) == (0, expected)
