"""The blocking producer: futures, many records, transactions, several threads, and Ctrl-C in its waits."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from odradek.client import RecordMetadata, TopicPartition
from odradek.client.blocking import LoopThreadCall, Producer
from odradek.client.errors import ClientStopped, InvalidTransactionState, KafkaError, RecordTooLarge, UnknownTopic
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import Call, Silence

WITHIN_S = 20


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with cluster_in_thread({"t": 1, "u": 3}) as each:
        yield each


def producer_for(cluster: FakeCluster, **options: Any) -> Producer[Any, Any]:
    return Producer(cluster.address, **{"retry_backoff_ms": 1, "retry_backoff_max_ms": 5} | options)


async def interrupt(call: Call) -> Any:
    """Press Ctrl-C, and answer nothing."""
    os.kill(os.getpid(), signal.SIGINT)
    return Silence()


def test_a_future_ends_with_the_place_of_the_record(cluster: FakeCluster) -> None:
    with producer_for(cluster) as producer:
        future = producer.send("t", b"a", key=b"k", headers={"h": b"1"})
        assert isinstance(future, Future)
        assert future.result(WITHIN_S) == RecordMetadata("t", 0, 0, future.result().timestamp_ms)
        assert producer.send_and_wait("t", b"b").offset == 1
        assert producer.send_nowait("t", b"c").result(WITHIN_S).offset == 2
        assert producer.send_values("t", [b"d", b"e"]).records == 2
        assert producer.partitions_for("u") == [0, 1, 2]
    assert cluster.values("t") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_queued_record_cannot_be_cancelled_and_flush_waits_for_it(cluster: FakeCluster) -> None:
    with producer_for(cluster, linger_ms=20) as producer:
        future = producer.send("t", b"a")
        assert not future.cancel()
        producer.flush()
        assert future.done()


def test_errors_are_those_of_the_asyncio_producer(cluster: FakeCluster) -> None:
    with producer_for(cluster, max_block_ms=3_000) as hasty, pytest.raises(UnknownTopic):
        hasty.send("missing", b"x")
    with producer_for(cluster, enable_idempotence=False) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send("t", bytes(2_000_000))
        with pytest.raises(InvalidTransactionState):
            producer.begin_transaction()
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError) as found:
            producer.send("t", b"x").result(WITHIN_S)
        assert found.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ClientStopped, match="use `with` or `async with`"):
        producer.send("t", b"x")
    with pytest.raises(ClientStopped, match="make a new one"):
        producer.start()


@pytest.mark.parametrize("buffer_memory", [1_000, 1_300, 2_000, 33_554_432])
def test_many_records_of_a_generator_keep_their_order(cluster: FakeCluster, buffer_memory: int) -> None:
    threads: set[str] = set()

    def records() -> Iterator[tuple[None, bytes]]:
        for number in range(3_000):
            threads.add(threading.current_thread().name)
            yield None, b"%d" % number

    with producer_for(cluster, batch_size=1_000, buffer_memory=buffer_memory) as producer:
        done = producer.send_many("t", records())
    assert (done.records, done.offsets) == (3_000, {TopicPartition("t", 0): (0, 2_999)})
    assert cluster.values("t") == [b"%d" % number for number in range(3_000)]
    assert threads == {threading.current_thread().name}  # so the generator may block, or read a blocking consumer


def test_offsets_of_a_generator_are_those_of_all_its_parts_in_any_order_of_their_ends() -> None:
    with cluster_in_thread({"u": 2}, nodes=2) as cluster:
        handle = cluster.defaults[ApiKey.PRODUCE]

        async def slow_for_the_first(call: Call) -> Any:
            while call.node.node_id == 1 and len(cluster.values("u", 1)) < 2_500:
                await asyncio.sleep(0.001)
            return await handle(call)

        cluster.defaults[ApiKey.PRODUCE] = slow_for_the_first
        # The first part has records of both partitions, the others of the second one alone.
        keys = (b"%d" % (number % 2 if number < 1_000 else 1) for number in range(3_000))
        with producer_for(cluster, partitioner=lambda key, _all, _led: int(key)) as producer:
            done = producer.send_many("u", ((key, b"v") for key in keys))
        assert done == (3_000, {TopicPartition("u", 0): (0, 499), TopicPartition("u", 1): (0, 2_499)})


def test_serializers_take_what_is_not_bytes(cluster: FakeCluster) -> None:
    options = {"key_serializer": "str", "value_serializer": "json"}
    with producer_for(cluster, **options) as producer:
        producer.send("t", {"n": 0}, key="k").result(WITHIN_S)
        producer.send_many("t", (("k", {"n": number}) for number in range(1, 3)))
    assert cluster.values("t") == [b'{"n":0}', b'{"n":1}', b'{"n":2}']


def test_many_records_of_a_list(cluster: FakeCluster) -> None:
    with producer_for(cluster) as producer:
        done = producer.send_many("u", [(b"%d" % number, b"v") for number in range(500)])
    assert done.records == 500 == sum(last - first + 1 for first, last in done.offsets.values())


def test_a_generator_is_not_read_on_after_an_error(cluster: FakeCluster) -> None:
    taken = 0

    def records() -> Iterator[tuple[None, bytes]]:
        nonlocal taken
        for taken in range(100_000):
            yield None, bytes(2_000_000) if taken == 5_000 else b"x"

    with producer_for(cluster) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send_many("t", records())
    assert taken < 20_000


def test_an_exception_of_the_generator_is_raised(cluster: FakeCluster) -> None:
    def records() -> Iterator[tuple[None, bytes]]:
        yield None, b"x"
        raise LookupError("no more")

    with producer_for(cluster) as producer:
        with pytest.raises(LookupError):
            producer.send_many("t", records())
        assert producer.send_and_wait("t", b"y").partition == 0


def test_a_transaction_commits_at_the_end_of_its_block_and_aborts_after_an_exception(cluster: FakeCluster) -> None:
    with producer_for(cluster, transactional_id="tx") as producer:
        with producer.transaction():
            producer.send("t", b"kept")
            producer.send_offsets({TopicPartition("t", 0): 5}, "g")
        with pytest.raises(LookupError), producer.transaction():
            producer.send("t", b"dropped")
            producer.flush()
            raise LookupError
        producer.begin_transaction()
        producer.commit_transaction()
        with pytest.raises(InvalidTransactionState):
            producer.send("t", b"outside")
    ends = [call.request.committed for call in cluster.calls(ApiKey.END_TXN)]
    assert ends[:2] == [True, False]


def test_threads_share_a_producer(cluster: FakeCluster) -> None:
    def work(name: int) -> list[Future[RecordMetadata]]:
        return [producer.send("t", b"%d %d" % (name, number)) for number in range(50)]

    with producer_for(cluster) as producer, ThreadPoolExecutor(4) as pool:
        futures = [each for found in pool.map(work, range(4)) for each in found]
        assert sorted(each.result(WITHIN_S).offset for each in futures) == list(range(200))
    for name in range(4):  # each thread's records are in the order of its calls
        own = [value for value in cluster.values("t") if value and value.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, number) for number in range(50)]


def test_threads_start_and_stop_a_client_together(cluster: FakeCluster) -> None:
    producer = producer_for(cluster)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: producer.start(), range(4)))
        assert producer.is_connected
        list(pool.map(lambda _: producer.stop(), range(4)))
    assert not producer.is_connected


def test_a_call_from_the_callback_of_a_future_says_what_is_wrong(cluster: FakeCluster) -> None:
    raised: list[BaseException] = []
    registered, done = threading.Event(), threading.Event()

    async def answer_a_registered_callback(call: Call) -> Any:
        await asyncio.to_thread(registered.wait, WITHIN_S)
        return await call.default()

    def callback(future: Future[RecordMetadata]) -> None:
        try:
            producer.send("t", b"again")
        except KafkaError as error:
            raised.append(error)
        done.set()

    with producer_for(cluster) as producer:
        cluster.on(ApiKey.PRODUCE, answer_a_registered_callback)
        producer.send("t", b"x").add_done_callback(callback)
        registered.set()
        assert done.wait(WITHIN_S)
    assert [type(each) for each in raised] == [LoopThreadCall]


@pytest.mark.parametrize("wait", ["send_and_wait", "flush", "send_many", "result"])
def test_ctrl_c_ends_a_wait_and_the_producer_goes_on(cluster: FakeCluster, wait: str) -> None:
    with producer_for(cluster, request_timeout_ms=200) as producer:
        producer.partitions_for("t")
        cluster.on(ApiKey.PRODUCE, interrupt)
        with pytest.raises(KeyboardInterrupt):
            if wait == "send_and_wait":
                producer.send_and_wait("t", b"a")
            elif wait == "send_many":
                producer.send_many("t", iter([(None, b"a")]))
            else:
                future = producer.send("t", b"a")
                _ = future.result() if wait == "result" else producer.flush()
        assert producer.send_and_wait("t", b"b").offset == 1
    assert cluster.values("t") == [b"a", b"b"]


def test_ctrl_c_during_the_start_leaves_nothing_behind(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.METADATA, interrupt)
    with pytest.raises(KeyboardInterrupt), producer_for(cluster):
        pytest.fail("started")
    assert "odradek-client" not in [each.name for each in threading.enumerate()]
