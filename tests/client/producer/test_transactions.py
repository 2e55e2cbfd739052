"""Transactions of the producer against a fake coordinator that fails, moves and fences."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from odradek.client import ConsumerGroupMetadata, KafkaError, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.errors import (
    ClientStopped,
    InvalidOption,
    InvalidTransactionState,
    ProducerFenced,
    ProducerUnusable,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
)
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdResponse
from odradek.protocol.records.batch import read_header
from odradek.tests.support.clients.stopping import answered, in_time
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.fake_transactions import committed
from odradek.tests.support.fakes.wire import answer, do_and_drop, drop, keep_silent

T0 = TopicPartition("t", 0)
VERSIONS = [1, 2]
both_versions = pytest.mark.parametrize("version", VERSIONS)


def cluster_of(version: int, nodes: int = 1) -> FakeCluster:
    cluster = FakeCluster({"t": 2, "in": 1}, nodes)
    cluster.transactions.version = version
    return cluster


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0, "max_block_ms": 5_000}
    return Producer(cluster.address, transactional_id="x", **quick | options)


@pytest.fixture(params=VERSIONS)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[FakeCluster]:
    async with cluster_of(request.param) as started:
        yield started


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[Producer]:
    async with producer_for(cluster) as started:
        yield started


def visible(cluster: FakeCluster, partition: int = 0) -> list[bytes | None]:
    return committed(cluster.log("t", partition).batches)


def asked(cluster: FakeCluster) -> list[str]:
    """The requests of transactions, in order, without repetitions next to each other."""
    keys = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
    return [f"{call.key.name} {call.version}" for call in cluster.nodes[1].calls if call.key in keys]


# -- Commit and abort


async def test_records_and_offsets_become_visible_with_the_commit(cluster: FakeCluster, producer: Producer) -> None:
    async with producer.transaction():
        for number in range(10):
            await producer.send("t", b"%d" % number, partition=number % 2)
        await producer.send_offsets({TopicPartition("in", 0): 10}, "g")
        await producer.flush()
        assert visible(cluster) == []
        assert cluster.group.committed == {}
    assert visible(cluster) == [b"0", b"2", b"4", b"6", b"8"]
    assert visible(cluster, 1) == [b"1", b"3", b"5", b"7", b"9"]
    assert cluster.group.committed == {("in", 0): 10}
    async with producer.transaction():
        await producer.send_many("t", [(None, b"more")], partition=0)
    assert visible(cluster)[-1] == b"more"


async def test_version_1_adds_partitions_and_groups_and_keeps_its_epoch() -> None:
    async with cluster_of(1) as cluster, producer_for(cluster) as producer:
        for _ in range(2):
            async with producer.transaction():
                await producer.send("t", b"x", partition=0)
                await producer.send_offsets({TopicPartition("in", 0): OffsetAndMetadata(1)}, "g")
        once = ["ADD_PARTITIONS_TO_TXN 3", "ADD_OFFSETS_TO_TXN 4", "TXN_OFFSET_COMMIT 4", "END_TXN 4"]
        assert sorted(asked(cluster)) == sorted(once * 2)
        assert {call.version for call in cluster.calls(ApiKey.PRODUCE)} == {11}
        headers = [read_header(batch) for batch in cluster.log("t").batches]
        assert [(h.producer_epoch, h.base_sequence) for h in headers if not h.is_control] == [(0, 0), (0, 1)]


async def test_version_2_adds_by_writing_and_gets_an_epoch_from_each_end() -> None:
    async with cluster_of(2) as cluster, producer_for(cluster) as producer:
        for _ in range(2):
            async with producer.transaction():
                await producer.send("t", b"x", partition=0)
                await producer.send_offsets({TopicPartition("in", 0): 1}, "g")
                await producer.send_offsets({T0: 1}, "g")
        # A topic whose id is not known is named.
        assert asked(cluster) == ["TXN_OFFSET_COMMIT 5", "TXN_OFFSET_COMMIT 6", "END_TXN 5"] * 2
        assert cluster.group.committed == {("in", 0): 1, ("t", 0): 1}
        assert {call.version for call in cluster.calls(ApiKey.PRODUCE)} == {13}
        headers = [read_header(batch) for batch in cluster.log("t").batches]
        assert [(h.producer_epoch, h.base_sequence) for h in headers if not h.is_control] == [(0, 0), (1, 0)]


async def test_an_exception_aborts(cluster: FakeCluster, producer: Producer) -> None:
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_and_wait("t", b"written", partition=0)
            waiting = await producer.send("t", b"dropped", partition=1)
            raise ZeroDivisionError
    with pytest.raises(TransactionAborted):
        await waiting
    async with producer.transaction():
        await producer.send("t", b"kept", partition=0)
    assert visible(cluster) == [b"kept"]
    assert cluster.transactions.ends == [("x", False), ("x", True)]


async def test_an_exception_of_the_block_stays_where_the_producer_was_stopped() -> None:
    async with cluster_of(2) as cluster, producer_for(cluster) as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            async with producer.transaction():
                await producer.stop()
                raise ZeroDivisionError
    assert any("the producer is not running" in each for each in caught.value.__notes__)


async def test_an_empty_transaction_asks_for_nothing(cluster: FakeCluster, producer: Producer) -> None:
    async with producer.transaction():
        pass
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert asked(cluster) == []


async def test_a_member_of_a_group_is_named_and_checked(cluster: FakeCluster, producer: Producer) -> None:
    await producer.begin_transaction()
    stale = ConsumerGroupMetadata("g", 3, "somebody", "instance")
    with pytest.raises(TransactionFailed, match="ILLEGAL_GENERATION"):
        await producer.send_offsets_to_transaction({T0: 1}, stale)
    request = cluster.calls(ApiKey.TXN_OFFSET_COMMIT)[0].request
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (
        3,
        "somebody",
        "instance",
    )
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send_offsets({T0: 2}, "g")
    assert cluster.group.committed == {("t", 0): 2}


# -- Calls that do not fit


async def test_calls_that_do_not_fit_say_so() -> None:
    async with cluster_of(2) as cluster, producer_for(cluster) as producer:
        sends = [producer.send("t", b"x"), producer.send_many("t", [(None, b"x")]), producer.send_offsets({T0: 1}, "g")]
        for call in [*sends, producer.commit_transaction(), producer.abort_transaction()]:
            with pytest.raises(InvalidTransactionState, match="in no transaction"):
                await call
        await producer.begin_transaction()
        with pytest.raises(InvalidTransactionState, match="in a transaction already"):
            await producer.begin_transaction()
        scope = producer.transaction()
        await producer.abort_transaction()
        async with scope:
            await producer.commit_transaction()
        with pytest.raises(InvalidTransactionState, match="used once"):
            async with scope:
                pass


async def test_a_producer_without_an_id_has_no_transactions() -> None:
    async with FakeCluster({"t": 1}) as cluster, Producer(cluster.address) as producer:
        with pytest.raises(InvalidTransactionState, match="transactional_id"):
            await producer.begin_transaction()
        with pytest.raises(InvalidTransactionState, match="transactional_id"):
            async with producer.transaction():
                pass


@pytest.mark.parametrize(
    "options", [{"enable_idempotence": False}, {"transactional_id": ""}, {"transaction_timeout_ms": 0}]
)
def test_options_that_do_not_go_together_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="transact"):
        Producer("127.0.0.1:1", **{"transactional_id": "x", **options})


# -- Failures


@both_versions
async def test_a_record_that_fails_fails_the_commit_and_an_abort_makes_the_producer_usable(version: int) -> None:
    async with cluster_of(version) as cluster, producer_for(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"good", partition=0)
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        await producer.send("t", b"bad", partition=0)
        with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
            await producer.commit_transaction()
        with pytest.raises(TransactionFailed, match="must be aborted"):
            await producer.send("t", b"late")
        with pytest.raises(TransactionFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next", partition=0)
        assert visible(cluster) == [b"next"]


async def test_a_commit_that_fails_aborts_at_the_end_of_the_block(cluster: FakeCluster, producer: Producer) -> None:
    cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
    with pytest.raises(TransactionFailed):
        async with producer.transaction():
            await producer.send("t", b"bad", partition=0)
    async with producer.transaction():
        await producer.send("t", b"next", partition=0)
    assert visible(cluster) == [b"next"]


async def test_records_that_wait_for_a_failed_transaction_fail_at_once(cluster: FakeCluster) -> None:
    async with producer_for(cluster) as producer:
        await producer.begin_transaction()
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        sent = [await producer.send("t", b"%d" % number, partition=number % 2) for number in range(6)]
        results = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 10)
        assert any(isinstance(result, KafkaError) for result in results)
        await producer.abort_transaction()


async def test_a_newer_producer_fences_the_older_one(cluster: FakeCluster) -> None:
    async with producer_for(cluster) as old:
        await old.begin_transaction()
        await old.send_and_wait("t", b"old", partition=0)
        async with producer_for(cluster) as new:
            with pytest.raises(ProducerFenced, match="transaction_timeout_ms"):
                await old.commit_transaction()
            with pytest.raises(ProducerFenced):
                await old.begin_transaction()
            with pytest.raises(ProducerFenced):
                await old.send("t", b"x")
            async with new.transaction():
                await new.send("t", b"new", partition=0)
        assert visible(cluster) == [b"new"]


async def test_a_fenced_producer_leaves_its_block_with_the_error(cluster: FakeCluster) -> None:
    async with producer_for(cluster) as old:
        with pytest.raises(ProducerFenced):
            async with old.transaction():
                await old.send_and_wait("t", b"old", partition=0)
                async with producer_for(cluster):
                    pass
        with pytest.raises(ZeroDivisionError) as caught:
            async with producer_for(cluster) as other, other.transaction():
                await other.send_and_wait("t", b"x")
                async with producer_for(cluster):
                    raise ZeroDivisionError
        assert "the abort failed as well" in caught.value.__notes__[0]


@both_versions
async def test_the_coordinators_move(version: int) -> None:
    async with cluster_of(version, nodes=2) as cluster, producer_for(cluster) as producer:
        for number in range(4):
            async with producer.transaction():
                await producer.send("t", b"%d" % number, partition=0)
                cluster.transactions.node_id = 1 + number % 2
                cluster.group.node_id = 2 - number % 2
                await producer.send_offsets({TopicPartition("in", 0): number}, "g")
        assert visible(cluster) == [b"0", b"1", b"2", b"3"]
        assert cluster.group.committed == {("in", 0): 3}


async def test_an_id_that_may_not_be_used_fails_the_start() -> None:
    async with cluster_of(2) as cluster:
        refused = InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        cluster.on(ApiKey.INIT_PRODUCER_ID, answer(refused))
        producer = producer_for(cluster)
        with pytest.raises(ProducerUnusable, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            await producer.start()
        with pytest.raises(ClientStopped):
            await producer.begin_transaction()
        await producer.start()
        await producer.stop()


async def test_a_broker_that_cannot_raise_the_epoch_ends_the_producer_that_lost_a_sequence() -> None:
    async with cluster_of(1) as cluster:
        cluster.versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
        async with producer_for(cluster) as producer:
            await producer.begin_transaction()
            cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
            await producer.send("t", b"bad")
            with pytest.raises(TransactionFailed):
                await producer.commit_transaction()
            with pytest.raises(ProducerUnusable, match="too old to raise the epoch"):
                await producer.abort_transaction()


# -- Time-outs and cancellation


@pytest.mark.parametrize("ending", ["commit_transaction", "abort_transaction", None])
async def test_a_stop_without_a_limit_waits_for_a_lost_cluster_no_longer_than_max_block_ms(
    ending: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_of(2) as cluster, asyncio.timeout(60):
        producer = producer_for(cluster, max_block_ms=50)  # delivery_timeout_ms is 120 s
        await answered(producer.start)
        await producer.begin_transaction()
        await answered(lambda: producer.send_and_wait("t", b"x", partition=0))
        await cluster.nodes[1].stop()
        why = ""
        while ending is not None and re.search("The last attempt failed: .*refused", why) is None:
            with pytest.raises(RequestTimedOut) as caught:
                await getattr(producer, ending)()
            why = caught.value.message
        await producer.stop()
        assert "stopped before its transaction has ended" in caplog.text


async def test_a_commit_that_takes_too_long_goes_on_and_can_be_waited_for_again(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.END_TXN, keep_silent)
    async with producer_for(cluster, max_block_ms=100, request_timeout_ms=400) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"x", partition=0)
        with pytest.raises(RequestTimedOut, match="max_block_ms"):
            await producer.commit_transaction()
        with pytest.raises(InvalidTransactionState, match="committing"):
            await producer.abort_transaction()
        while True:
            try:
                await producer.commit_transaction()
                break
            except RequestTimedOut:
                continue
        assert visible(cluster) == [b"x"]
        async with producer.transaction():
            await producer.send("t", b"y", partition=0)
    assert visible(cluster) == [b"x", b"y"]


@both_versions
@pytest.mark.parametrize("gives_up", ["time-out", "cancelled"])
async def test_a_commit_that_fails_while_nobody_waits_is_told_once_and_aborted(version: int, gives_up: str) -> None:
    # The next transaction has the same limit: it is short only where the first one must reach it.
    limit_ms = 500 if gives_up == "time-out" else 10_000
    async with cluster_of(version) as cluster:
        cluster.on(ApiKey.PRODUCE, keep_silent, keep_silent)
        async with producer_for(
            cluster, max_block_ms=limit_ms, request_timeout_ms=750, delivery_timeout_ms=1000
        ) as producer:
            with pytest.raises((RequestTimedOut, TimeoutError)):
                async with asyncio.timeout(0.25 if gives_up == "cancelled" else None), producer.transaction():
                    await producer.send("t", b"lost", partition=0)
            await told_once(producer)
            async with producer.transaction():
                await producer.send("t", b"next", partition=0)
        assert visible(cluster) == [b"next"]


async def told_once(producer: Producer) -> None:
    """Begin until the end of the transaction before is known: it was not committed."""
    async with asyncio.timeout(10):
        while True:
            try:
                async with producer.transaction():
                    raise AssertionError("nobody was told that the transaction before was aborted")
            except RequestTimedOut:
                continue  # the commit is still under way
            except TransactionFailed as error:
                assert "the transaction before" in str(error)
                return


async def one_transaction(producer: Producer, number: int) -> None:
    async with producer.transaction():
        await producer.send("t", b"%d" % number, partition=0)
        await producer.send_offsets({TopicPartition("in", 0): number}, "g")
        await producer.send_and_wait("t", b"%d" % number, partition=1)


async def cancel_after(task: asyncio.Task[None], turns: int) -> bool:
    """Cancel a task after so many turns of the loop. Return whether it was under way still."""
    for _ in range(turns):
        await asyncio.sleep(0)
    was_under_way = not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return was_under_way


async def test_cancellation_at_any_await_leaves_a_producer_that_works(cluster: FakeCluster, producer: Producer) -> None:
    turns = 0
    while await cancel_after(asyncio.create_task(one_transaction(producer, turns)), turns):
        turns += 1
    assert turns > 10
    await one_transaction(producer, 999)
    first, second = visible(cluster), visible(cluster, 1)
    assert first == second
    assert first[-1] == b"999"
    assert cluster.group.committed[("in", 0)] == 999


async def test_a_cancelled_call_can_be_made_again(cluster: FakeCluster, producer: Producer) -> None:
    for number in range(30):
        await producer.begin_transaction()
        await producer.send("t", b"%d" % number, partition=0)
        end = producer.abort_transaction if number % 3 == 2 else producer.commit_transaction
        task = asyncio.create_task(end())
        for _ in range(number % 15):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            await end()
    assert visible(cluster) == [b"%d" % number for number in range(30) if number % 3 != 2]


# -- Stop


async def test_stopping_aborts_an_open_transaction(cluster: FakeCluster) -> None:
    async with producer_for(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"x", partition=0)
    assert cluster.transactions.ends == [("x", False)]


@pytest.mark.parametrize("key", [ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT], ids=lambda key: key.name)
async def test_stopping_ends_in_time_at_a_stall(cluster: FakeCluster, producer: Producer, key: ApiKey) -> None:
    cluster.on(key, *[keep_silent] * 5)
    await producer.begin_transaction()
    waiting = await producer.send("t", b"x", partition=0)
    offsets = asyncio.create_task(producer.send_offsets({T0: 1}, "g"))
    commit = asyncio.create_task(producer.flush())
    await asyncio.sleep(0.01)
    await in_time(producer.stop)
    async with asyncio.timeout(5):
        results = await asyncio.gather(waiting, offsets, commit, return_exceptions=True)
    assert all(result is None or isinstance(result, (tuple, KafkaError)) for result in results)


@pytest.mark.parametrize("step", [drop, do_and_drop], ids=["before", "after"])
async def test_lost_connections_at_each_request_change_nothing(cluster: FakeCluster, step: Any) -> None:
    keys = [
        ApiKey.PRODUCE,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
    ]
    cluster.on(ApiKey.INIT_PRODUCER_ID, step)
    async with producer_for(cluster) as producer:
        for number, key in enumerate(keys):
            cluster.on(key, step)
            await one_transaction(producer, number)
    assert visible(cluster) == visible(cluster, 1) == [b"%d" % number for number in range(len(keys))]


async def test_a_record_that_comes_before_the_last_markers_is_soon_sent_again() -> None:
    """Markers take milliseconds, whatever the pause after other errors is."""
    cluster = cluster_of(2)
    slow = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with cluster, producer_for(cluster, **slow) as producer:
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.CONCURRENT_TRANSACTIONS))
        async with asyncio.timeout(20), producer.transaction():
            await producer.send("t", b"a", partition=0)
    assert visible(cluster) == [b"a"]
