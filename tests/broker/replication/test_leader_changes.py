"""A partition gets another leader: what is lost, what is not, and how replicas come to agree again."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from odradek.broker.replication.leadership import Leadership
from odradek.broker.topics.partition_state import READ_COMMITTED, READ_UNCOMMITTED
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.storage.errors import StorageError
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.hand_cluster import HandCluster, bytes_of
from odradek.tests.support.histories.transactional import Transactional
from odradek.tests.support.waiting import until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[HandCluster]:
    async with HandCluster(tmp_path, replica_fetch_wait_max_ms=50) as each:
        yield each


async def produce(cluster: HandCluster, node: int, value: bytes, acks: int = -1, **rest: Any) -> Any:
    async with await cluster.connect(node) as raw:
        return await raw.produce("t", batch_of(value, **rest), acks=acks, timeout_ms=20_000)


async def agree(cluster: HandCluster, *nodes: int) -> None:
    """Wait until these brokers have the same bytes and high watermarks."""

    def equal() -> bool:
        ends = {cluster.partition(node).log.log_end_offset for node in nodes}
        marks = {cluster.partition(node).high_watermark for node in nodes}
        return len(ends | marks) == 1

    await until(equal)
    assert len({bytes_of(cluster, node) for node in nodes}) == 1


async def test_what_only_the_old_leader_had_goes_and_what_was_acknowledged_stays(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"kept")).error_code == 0
    # The followers know of another leader before the last records reach them.
    await cluster.assign("t", leader=2, isr=(2, 3), to=(2, 3))
    for number in range(3):
        assert (await produce(cluster, 1, b"lost-%d" % number, acks=1)).error_code == 0
    assert (await produce(cluster, 2, b"new")).base_offset == 1
    assert cluster.partition(1).log.log_end_offset == 4
    await cluster.leader_and_isr(1, [("t", 0)])
    await agree(cluster, 1, 2, 3)
    assert b"lost" not in bytes_of(cluster, 1)
    assert b"kept" in bytes_of(cluster, 1)
    await until(lambda: set(cluster.controller.states["t", 0].isr) == {1, 2, 3})


async def test_a_follower_whose_log_begins_behind_the_end_of_its_leaders_starts_over(cluster: HandCluster) -> None:
    """Retention has removed there what the leader, elected without being in sync, never had."""
    await cluster.assign("t", leader=1, to=(1,))
    cluster.partition(1).log.start_over(5, 0)
    assert (await produce(cluster, 1, b"lost", acks=1)).base_offset == 5
    await cluster.assign("t", leader=2, isr=(2,))
    assert (await produce(cluster, 2, b"new")).base_offset == 0
    await agree(cluster, 1, 2, 3)
    assert cluster.partition(1).log.log_start_offset == 0
    await until(lambda: set(cluster.controller.states["t", 0].isr) == {1, 2, 3})


async def test_logs_that_diverge_over_several_epochs_agree_again(cluster: HandCluster) -> None:
    """Two brokers wrote by turns without the other: KIP-279's case."""
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"common")).error_code == 0
    for round_number in range(3):
        # Each leads alone, and nobody fetches from it.
        await cluster.assign("t", leader=1, isr=(1,), to=(1,))
        for _ in range(round_number + 1):
            await produce(cluster, 1, b"one", acks=1)
        await cluster.assign("t", leader=2, isr=(2,), to=(2,))
        await produce(cluster, 2, b"two", acks=1)
    assert cluster.partition(1).log.epochs.entries != cluster.partition(2).log.epochs.entries
    await cluster.assign("t", leader=2, isr=(2,))
    assert (await produce(cluster, 2, b"last")).error_code == 0
    await agree(cluster, 1, 2, 3)
    assert cluster.partition(1).log.epochs.entries == cluster.partition(2).log.epochs.entries
    assert b"one" not in bytes_of(cluster, 3)


async def test_a_leader_that_wrote_nothing_follows_without_a_loop(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"x")
    await cluster.assign("t", leader=2, isr=(2,), to=(2,))
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"y")
    await agree(cluster, 1, 2, 3)
    assert cluster.partition(2).log.epochs.latest == 2


@pytest.mark.parametrize(("leader", "code"), [(1, ErrorCode.NONE), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
async def test_a_producer_that_waits_over_a_new_epoch_is_acknowledged_by_the_same_leader_alone(
    cluster: HandCluster, leader: int, code: ErrorCode
) -> None:
    await cluster.assign("t", leader=1, to=(1,))
    waiting = asyncio.ensure_future(produce(cluster, 1, b"x"))
    await until(lambda: len(cluster.brokers[1].services.purgatory) == 1)
    await cluster.assign("t", leader=leader, isr=(1, 2), to=(1, 2))
    assert (await waiting).error_code == code
    assert code or cluster.partition(2).log.log_end_offset == 1


async def test_a_retried_batch_is_found_again_by_the_next_leader(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    batch = {"producer_id": 7, "producer_epoch": 0}
    for sequence in range(3):
        assert (await produce(cluster, 1, b"x", base_sequence=sequence, **batch)).base_offset == sequence
    await cluster.assign("t", leader=3, isr=(2, 3))
    assert (await produce(cluster, 3, b"x", base_sequence=2, **batch)).base_offset == 2
    assert cluster.partition(3).log.log_end_offset == 3
    again = await produce(cluster, 3, b"x", base_sequence=5, **batch)
    assert again.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await produce(cluster, 3, b"x", base_sequence=3, **batch)).error_code == 0


async def test_a_new_leader_that_may_miss_records_tells_neither_an_end_nor_that_there_is_none_of_a_time(
    cluster: HandCluster,
) -> None:
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"x")).error_code == 0
    # Nobody fetches from the new leader, whose high watermark is that of its last fetch.
    await until(lambda: cluster.partition(3).log.log_end_offset == 1)
    cluster.partition(3).high_watermark = 0
    await cluster.assign("t", leader=3, to=(3,))
    unknown = ErrorCode.OFFSET_NOT_AVAILABLE
    for version, timestamp, code in (
        (5, LATEST, unknown), (4, LATEST, ErrorCode.LEADER_NOT_AVAILABLE), (7, 0, unknown), (7, MAX_TIMESTAMP, unknown)
    ):  # fmt: skip
        assert (await end_offset(cluster, 3, version, timestamp=timestamp)).error_code == code
    earliest = await end_offset(cluster, 3, 7, timestamp=EARLIEST)
    assert (earliest.error_code, earliest.offset) == (0, 0)
    await cluster.leader_and_isr(1, [("t", 0)])
    await cluster.leader_and_isr(2, [("t", 0)])
    await until(lambda: cluster.partition(3).high_watermark == 1)
    assert [(await end_offset(cluster, 3, 7, timestamp=at)).offset for at in (LATEST, 0, MAX_TIMESTAMP)] == [1, 0, 0]


@asynccontextmanager
async def open_transaction(cluster: HandCluster) -> AsyncIterator[Transactional]:
    """A producer whose transaction has two records in the partition."""
    for index in range(cluster.configs[1].transaction_state_log_num_partitions):
        await cluster.assign("__transaction_state", index, leader=1)
    async with await cluster.connect(1) as raw:
        producer = Transactional(raw, "tx")
        await producer.begin()
        # The producer id is replicated.
        while (code := (await producer.send("t", b"1", b"2")).error_code) == ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(0.01)
        assert code == 0
        yield producer


async def test_a_new_leader_tells_the_last_stable_offset_below_a_transaction_that_stays_open(
    cluster: HandCluster,
) -> None:
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"x")).error_code == 0
    async with open_transaction(cluster):
        await cluster.assign("t", leader=2)
    await until(lambda: cluster.partition(2).high_watermark == 3)
    for isolation_level, offset in ((READ_UNCOMMITTED, 3), (READ_COMMITTED, 1)):
        answer = await end_offset(cluster, 2, 5, isolation_level)
        assert (answer.error_code, answer.offset) == (0, offset)


async def test_committed_records_are_shown_once_the_marker_is_replicated_so_that_their_end_never_falls(
    cluster: HandCluster,
) -> None:
    await cluster.assign("t", leader=1)
    async with open_transaction(cluster) as producer:
        await agree(cluster, 1, 2, 3)
        # The followers know of another leader before the marker reaches them.
        await cluster.assign("t", leader=2, to=(2, 3))
        await producer.end(commit=True)
        await until(lambda: cluster.partition(1).log.log_end_offset == 3)
    assert (await end_offset(cluster, 1, 5, READ_COMMITTED)).offset == 0
    assert (await end_offset(cluster, 2, 5, READ_COMMITTED)).offset == 0


async def end_offset(
    cluster: HandCluster, node: int, version: int, isolation_level: int = READ_UNCOMMITTED, timestamp: int = LATEST
) -> Any:
    wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[wanted])
    async with await cluster.connect(node) as raw:
        return (await raw.ask(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]


async def test_too_small_an_isr_rejects_acks_all(tmp_path: Path) -> None:
    async with HandCluster(tmp_path, min_insync_replicas=2) as cluster:
        await cluster.assign("t", leader=1, isr=(1,), to=(1,))
        assert (await produce(cluster, 1, b"x")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await produce(cluster, 1, b"y", acks=1)).error_code == 0
        # Consumers see nothing that a single failure could take.
        assert cluster.partition(1).high_watermark == 0
        await cluster.leader_and_isr(2, [("t", 0)])
        await until(lambda: cluster.partition(1).high_watermark == 1)
        assert (await produce(cluster, 1, b"z")).error_code == 0


async def that_asks(cluster: HandCluster) -> Leadership:
    """Wait until the leader, broker 1, asks for another ISR."""
    replica = cluster.brokers[1].services.replicas.get("t", 0)  # type: ignore[union-attr]
    assert replica is not None and replica.leadership is not None
    await until(lambda: replica.leadership.pending is not None)
    return replica.leadership


async def test_two_isrs_count_until_the_controller_has_answered(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1, isr=(1,), to=(1, 2))
    await until(lambda: cluster.controller.states["t", 0].isr == (1, 2))
    cluster.controller.answers.clear()
    await cluster.leader_and_isr(3, [("t", 0)])
    leadership = await that_asks(cluster)
    assert leadership.maximal_isr == {1, 2, 3}
    await cluster.stop(3)
    waiting = asyncio.ensure_future(produce(cluster, 1, b"x"))
    await until(lambda: cluster.partition(2).log.log_end_offset == 1)
    assert not waiting.done()
    # Broker 3 may be in the ISR: without it nothing is committed.
    assert cluster.partition(1).high_watermark == 0
    cluster.controller.judge = lambda *_: ErrorCode.INELIGIBLE_REPLICA
    cluster.controller.answers.set()
    assert (await waiting).error_code == 0


async def test_a_lost_answer_of_the_controller_is_made_good_by_update_metadata(cluster: HandCluster) -> None:
    cluster.controller.judge = lambda *_: ErrorCode.INVALID_UPDATE_VERSION
    await cluster.assign("t", leader=1, isr=(1, 2))
    leadership = await that_asks(cluster)
    state = cluster.controller.states["t", 0]
    cluster.controller.states["t", 0] = replace(state, isr=(1, 2, 3), partition_epoch=state.partition_epoch + 1)
    await cluster.update_metadata()
    assert (leadership.isr, leadership.pending) == ((1, 2, 3), None)


async def test_a_restart_serves_nobody_before_the_controller_has_spoken(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"x")
    await agree(cluster, 1, 2, 3)
    await cluster.stop(1)
    await cluster.start(1)
    assert (await produce(cluster, 1, b"y")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.partition(1).high_watermark == 1
    await cluster.assign("t", leader=1)
    assert (await produce(cluster, 1, b"y")).base_offset == 1


@pytest.mark.parametrize("leader", [1, 3])
async def test_a_follower_that_comes_back_with_an_older_disk_is_brought_up_to_date(
    cluster: HandCluster, tmp_path: Path, leader: int
) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"old")
    await cluster.stop(2)
    disk, copy = cluster.configs[2].data_dir, tmp_path / "copy"
    shutil.copytree(disk, copy)
    await cluster.start(2)
    await cluster.assign("t", leader=1)
    for number in range(5):
        await produce(cluster, 1, b"new-%d" % number)
    await cluster.stop(2)
    shutil.rmtree(disk)
    shutil.copytree(copy, disk)
    await cluster.start(2)
    await cluster.assign("t", leader=leader, isr=(1, 3))
    await agree(cluster, 1, 2, 3)
    assert cluster.partition(2).log.log_end_offset == 6


async def test_a_follower_that_is_behind_the_leaders_first_record_starts_over(cluster: HandCluster) -> None:
    await cluster.stop(2)
    await cluster.assign("t", leader=1, isr=(1, 3), to=(1, 3))
    for number in range(4):
        await produce(cluster, 1, b"x-%d" % number)
    assert await delete_records(cluster, 1, 3) == (0, 3)
    assert cluster.partition(3).log.log_start_offset == 3
    await cluster.start(2)
    await cluster.update_metadata()
    await cluster.leader_and_isr(2, [("t", 0)])
    await until(lambda: cluster.partition(2).log.log_end_offset == 4)
    assert cluster.partition(2).log.log_start_offset == 3


async def delete_records(cluster: HandCluster, node: int, offset: int, timeout_ms: int = 20_000) -> tuple[int, int]:
    """Error code and low watermark."""
    async with await cluster.connect(node) as raw:
        found = await raw.delete_records("t", offset, timeout_ms=timeout_ms)
        return found.error_code, found.low_watermark


async def test_deleted_records_stay_deleted_under_the_next_leader(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    for number in range(4):
        await produce(cluster, 1, b"x-%d" % number)
    # Broker 3 does not hear that it follows in this epoch, so its fetches are refused.
    await cluster.assign("t", leader=1, to=(1, 2))
    assert await delete_records(cluster, 1, 3, 100) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    deleting = asyncio.ensure_future(delete_records(cluster, 1, 3))
    await cluster.leader_and_isr(3, [("t", 0)])
    assert await deleting == (0, 3)
    await cluster.stop(1)
    await cluster.assign("t", leader=3, isr=(2, 3))
    assert [cluster.partition(node).log.log_start_offset for node in (2, 3)] == [3, 3]


async def test_records_are_deleted_without_a_broker_that_dies_meanwhile(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"x")
    await cluster.assign("t", leader=1, to=(1, 2))
    deleting = asyncio.ensure_future(delete_records(cluster, 1, 1))
    await until(lambda: cluster.partition(2).log.log_start_offset == 1)
    await cluster.stop(3)
    assert not deleting.done()
    await cluster.update_metadata()
    assert await deleting == (0, 1)


async def test_a_leader_that_is_replaced_does_not_say_that_records_are_deleted(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"x")
    await cluster.assign("t", leader=1, to=(1, 2))
    deleting = asyncio.ensure_future(delete_records(cluster, 1, 1))
    await until(lambda: cluster.partition(1).log.log_start_offset == 1)
    await cluster.assign("t", leader=3)
    assert await deleting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_epochs_of_controllers_and_brokers_fence(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    replicas = cluster.brokers[1].services.replicas
    assert replicas is not None
    replicas.broker_epoch = 50
    place = [("t", 0)]
    assert (await cluster.leader_and_isr(1, place, controller_epoch=0)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert (await cluster.leader_and_isr(1, place, broker_epoch=49)).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (await cluster.leader_and_isr(1, place, broker_epoch=50)).error_code == 0
    stopped = await cluster.stop_replica(1, "t", delete=True, controller_epoch=0)
    assert stopped.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    await cluster.assign("t", leader=1)
    late = await cluster.stop_replica(1, "t", delete=True, leader_epoch=0)
    assert late.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    state = cluster.controller.states["t", 0]
    cluster.controller.states["t", 0] = replace(state, leader_epoch=0)
    answer = await cluster.leader_and_isr(1, place)
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH


async def test_a_partition_that_is_stopped_stays_on_disk_until_it_is_deleted(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await produce(cluster, 1, b"x")
    directory = cluster.partition(1).log.directory
    assert (await cluster.stop_replica(1, "t", delete=False)).partition_errors[0].error_code == 0
    assert (await produce(cluster, 1, b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert directory.exists()
    assert (await cluster.stop_replica(1, "t", delete=True, leader_epoch=-2)).partition_errors[0].error_code == 0
    assert not directory.exists()
    # A replica that is given to it again begins empty.
    await cluster.assign("t", leader=2)
    await agree(cluster, 1, 2, 3)
    await cluster.stop(1)
    await cluster.start(1)
    assert cluster.partition(1).log.log_end_offset == 1


async def test_a_broker_that_was_away_deletes_what_a_deleted_topic_left(cluster: HandCluster) -> None:
    """The controller asks for it before the full request, which does not name the topic."""
    await cluster.assign("t", leader=1)
    await cluster.assign("u", leader=1)
    await produce(cluster, 1, b"x")
    home = cluster.partition(2).log.directory.parent
    await cluster.stop(2)
    await cluster.start(2)
    assert (await cluster.stop_replica(2, "t", delete=True, leader_epoch=-2)).partition_errors[0].error_code == 0
    assert (await cluster.leader_and_isr(2, [("u", 0)], type=1)).error_code == 0
    await cluster.stop(2)
    assert not (home / "t-0").exists() and not list(home.glob("*-stray"))


async def test_a_full_request_leaves_a_replica_whose_disk_has_failed_to_be_deleted_later(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await cluster.assign("u", leader=1)
    partition = cluster.partition(2)
    directory = partition.log.directory
    partition.go_offline(StorageError("the disk has failed"))
    assert (await cluster.leader_and_isr(2, [("u", 0)], type=1)).error_code == 0
    await cluster.stop(2)
    await cluster.start(2)
    assert (await cluster.stop_replica(2, "t", delete=True, leader_epoch=-2)).partition_errors[0].error_code == 0
    assert not directory.exists()


async def test_a_full_request_leaves_only_what_it_names(cluster: HandCluster) -> None:
    await cluster.assign("t", leader=1)
    await cluster.assign("u", leader=1)
    directory = cluster.partition(1, "u").log.directory
    answer = await cluster.leader_and_isr(1, [("t", 0)], type=1)
    assert answer.error_code == 0
    async with await cluster.connect(1) as raw:
        assert (await raw.produce("u", batch_of(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.stop(1)
    await cluster.start(1)
    assert not directory.exists()
    assert [each.name for each in directory.parent.glob("u-0.*-stray")] or not list(directory.parent.glob("u-0*"))


async def test_a_leader_logs_how_often_its_isr_has_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with HandCluster(tmp_path, replica_lag_time_max_ms=200) as cluster:
        # Broker 3 is not told that it follows.
        await cluster.assign("t", leader=1, to=(1, 2))
        assert (await produce(cluster, 1, b"x", acks=1)).error_code == 0
        await until(lambda: "ISR changes of this leader so far: 1 shrinks, 0 expands" in caplog.text)
        assert "t-0: the ISR is [1, 2] (it was [1, 2, 3]), partition epoch 1" in caplog.text
        await cluster.leader_and_isr(3, [("t", 0)])
        await until(lambda: "ISR changes of this leader so far: 1 shrinks, 1 expands" in caplog.text)
