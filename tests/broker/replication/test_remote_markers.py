"""Markers for partitions that other brokers lead: they travel together, and none waits for another's partition."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.coordination.transactions.markers import TransactionEnd
from odradek.broker.replication import remote_markers
from odradek.broker.replication.inter_broker import Peers
from odradek.broker.replication.peer import Peer
from odradek.broker.replication.remote_markers import RemoteMarkers
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records.control import ControlType, Marker
from odradek.storage.errors import StorageError
from odradek.tests.broker.replication.test_coordinators_move import COUNT, TRANSACTIONS, Producer, lead_internal
from odradek.tests.support.clusters.hand_cluster import HandCluster
from odradek.tests.support.waiting import until


def markers_of(cluster: HandCluster) -> RemoteMarkers:
    """The markers that broker 1 sends."""
    replicas = cluster.brokers[1].services.replicas
    assert replicas is not None
    return RemoteMarkers(1, replicas.view, partial(Peers, cluster.configs[1], replicas.view, replicas.inter_broker))


async def end_without_own_replica(cluster: HandCluster, leader: int) -> None:
    """Commit a transaction at broker 1, whose own replica of the partition has just gone offline."""
    await lead_internal(cluster, TRANSACTIONS, 1)
    await cluster.assign("a", leader=leader)
    producer = Producer(cluster, 1)
    await producer.begin()
    await producer.add("a")
    assert await producer.send(leader, "a", b"x") == 0
    cluster.partition(1, "a").go_offline(StorageError("the directory is gone"))
    await producer.end(True)


@pytest.mark.parametrize("flush", [None, 1])
async def test_a_marker_goes_to_the_leader_where_the_own_replica_is_offline(tmp_path: Path, flush: int | None) -> None:
    """Also where the transaction must be on disk before its end is."""
    configs: dict[str, Any] = {} if flush is None else {"log_flush_interval_messages": flush}
    async with HandCluster(tmp_path, replica_lag_time_max_ms=300, **configs) as cluster:
        await end_without_own_replica(cluster, leader=2)
        await until(lambda: cluster.partition(2, "a").last_stable_offset == 2)


async def test_a_marker_waits_where_the_own_replica_leads_and_is_offline(tmp_path: Path) -> None:
    """Until the controller has elected another leader."""
    async with HandCluster(tmp_path) as cluster:
        await end_without_own_replica(cluster, leader=1)
        assert cluster.partition(2, "a").log.log_end_offset == 1
        await cluster.assign("a", leader=2, isr=(2, 3), to=(2, 3))
        await until(lambda: cluster.partition(2, "a").last_stable_offset == 2)


async def test_a_marker_waits_where_the_leader_does_not_know_the_topic_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has lost its directory, and no controller has told it of the cluster since."""
    async with HandCluster(tmp_path) as cluster:
        for index in range(COUNT):
            await cluster.assign(TRANSACTIONS, index, leader=1, replicas=(1, 3), isr=(1, 3), to=(1, 3))
        await cluster.assign("a", leader=2)
        producer = Producer(cluster, 1)
        await producer.begin()
        await producer.add("a")
        assert await producer.send(2, "a", b"x") == 0
        await until(lambda: cluster.partition(1, "a").log.log_end_offset == 1)
        await cluster.stop(2)
        shutil.rmtree(cluster.configs[2].log_dirs[0])
        await cluster.start(2)
        with caplog.at_level("INFO"):
            await producer.end(True)
            await until(lambda: "the marker for a-0 was not written" in caplog.text)
        await cluster.assign("a", leader=1, isr=(1, 3), to=(1, 3))
        await until(lambda: cluster.partition(1, "a").last_stable_offset == 2)


async def test_a_partition_under_min_isr_answers_at_once(tmp_path: Path) -> None:
    """The marker of another partition that came in the same request is written meanwhile."""
    async with HandCluster(tmp_path, min_insync_replicas=2) as cluster:
        for topic in ("poor", "rich"):
            await cluster.assign(topic, leader=2)
        await cluster.assign("poor", leader=2, isr=(2,), replicas=(2, 1), to=(2,))
        topics = [WritableTxnMarkerTopic("poor", [0]), WritableTxnMarkerTopic("rich", [0])]
        request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, True, topics, 0, 2)])
        async with await cluster.connect(2) as raw:
            answer = await raw.ask(ApiKey.WRITE_TXN_MARKERS, 2, request)
        codes = {each.name: each.partitions[0].error_code for each in answer.markers[0].topics}
        assert codes == {"poor": int(ErrorCode.NOT_ENOUGH_REPLICAS), "rich": 0}
        assert cluster.partition(2, "poor").log.log_end_offset == 0


def end_of(producer_id: int, epoch: int = 0) -> TransactionEnd:
    return TransactionEnd(producer_id, epoch, 0, True, 2)


class Counted:
    """The markers of each request that is sent."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.requests: list[WriteTxnMarkersRequest] = []
        original = Peer.request

        async def request(peer: Peer, message: Any, *given: Any, **rest: Any) -> Any:
            if isinstance(message, WriteTxnMarkersRequest):
                self.requests.append(message)
            return await original(peer, message, *given, **rest)

        patch.setattr(Peer, "request", request)

    @property
    def sizes(self) -> list[int]:
        """How many markers each request has."""
        return [sum(len(t.partition_indexes) for m in each.markers for t in m.topics) for each in self.requests]


async def test_markers_for_one_broker_travel_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many transactions end at once; each gets the answer of its partition."""
    counted = Counted(monkeypatch)
    monkeypatch.setattr(remote_markers, "MAX_MARKERS", 200)
    async with HandCluster(tmp_path) as cluster:
        await cluster.assign("a", leader=2)
        await cluster.assign("gone", leader=2)
        await cluster.stop_replica(2, "gone", delete=True)
        markers = markers_of(cluster)
        written = [markers.write("a" if number % 2 else "gone", 0, end_of(number)) for number in range(500)]
        outcomes = await asyncio.gather(*written, return_exceptions=True)
        assert [outcome is None for outcome in outcomes] == [bool(number % 2) for number in range(500)]
        assert all(isinstance(each, KafkaError) for each in outcomes[::2])
        assert counted.sizes == [200, 200, 100]
        markers.close()


async def test_two_ends_of_one_producer_do_not_travel_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response tells them apart by the producer's id alone."""
    counted = Counted(monkeypatch)
    async with HandCluster(tmp_path) as cluster:
        await cluster.assign("a", 0, leader=2)
        await cluster.assign("a", 1, leader=2)
        markers = markers_of(cluster)
        ends = [("a", 0, end_of(7, 1)), ("a", 1, end_of(7, 1)), ("a", 0, end_of(7, 2)), ("a", 1, end_of(8))]
        await asyncio.gather(*(markers.write(*each) for each in ends))
        assert counted.sizes == [3, 1]
        markers.close()


async def test_markers_that_wait_fail_when_the_broker_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_markers, "MAX_MARKERS", 1)
    async with HandCluster(tmp_path) as cluster:
        await cluster.assign("a", leader=2, to=(2,))
        markers = markers_of(cluster)
        written = [markers.write("a", 0, end_of(number)) for number in (1, 2)]
        await until(lambda: cluster.partition(2, "a").log.log_end_offset == 1)
        markers.close()
        outcomes = await asyncio.gather(*written, return_exceptions=True)
        assert [type(each) for each in outcomes] == [KafkaError, KafkaError]


async def test_no_marker_waits_for_a_follower_of_another_partition(tmp_path: Path) -> None:
    """A follower in the ISR that hangs holds the markers of its own partition alone."""
    async with HandCluster(tmp_path, replica_lag_time_max_ms=60_000) as cluster:
        await cluster.assign("well", leader=2)
        # Broker 3 is never told to follow.
        await cluster.assign("hung", leader=2, isr=(2, 3), replicas=(2, 3), to=(2,))
        markers = markers_of(cluster)
        hung = markers.write("hung", 0, end_of(7))
        await until(lambda: cluster.partition(2, "hung").log.log_end_offset == 1)
        async with asyncio.timeout(20):
            await markers.write("well", 0, end_of(8))
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await hung
        markers.close()


async def test_a_replicated_marker_ends_what_a_coordinator_says_of_the_transaction_before(tmp_path: Path) -> None:
    """A broker that asked as the leader follows, and leads again before the answer comes."""
    async with HandCluster(tmp_path) as cluster:
        await cluster.assign("a", leader=1)
        partition = cluster.partition(1, "a")
        with partition.marker_watch.watch(7) as is_current, partition.marker_watch.watch(8) as is_others_current:
            await cluster.assign("a", leader=2)
            cluster.partition(2, "a").append_marker(7, 0, Marker(ControlType.COMMIT, 0), 2)
            await until(lambda: partition.log.log_end_offset == 1)
            await cluster.assign("a", leader=1)
            assert not is_current()
            assert is_others_current()
