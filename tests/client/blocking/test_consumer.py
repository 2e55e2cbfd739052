"""The blocking consumer: polls, positions, commits, groups, streams, handlers in threads, and Ctrl-C in its waits."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from odradek.client import ConsumerRecord, DeadLetterTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.blocking import Consumer, SimpleConsumer, Stream, ThreadedOffsetStore, loop_thread
from odradek.client.errors import ClientStopped, ConcurrentPoll, HandlerFailed, OffsetStoreFailed
from odradek.protocol.apis import ApiKey
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WITHIN_S = 20


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with cluster_in_thread({"t": 2}) as each:
        yield each


def consumer_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    quick = {
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 5,
        "fetch_max_wait_ms": 20,
    }
    return Consumer(*topics, bootstrap_servers=cluster.address, **quick | options)


def committed(cluster: FakeCluster, partition: TopicPartition = T0) -> int | None:
    with consumer_for(cluster, group_id="g") as reader:
        found = reader.committed(partition)[partition]
    return None if found is None else found.offset


def values(found: Mapping[TopicPartition, list[ConsumerRecord]]) -> list[bytes | None]:
    return [record.value for records in found.values() for record in records]


def take(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"no more than {found}"
        found += values(consumer.getmany(timeout_ms=1_000, max_records=count - len(found)))
    return found


def until(condition: Any) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_records_come_one_by_one_and_many_at_a_time(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    with consumer_for(cluster) as consumer:
        consumer.assign([T0])
        assert consumer.getone().value == b"0"
        assert next(consumer).value == b"1"
        assert [next(consumer).value for _ in range(3)] == [b"2", b"3", b"4"]
        assert take(consumer, 5) == [b"5", b"6", b"7", b"8", b"9"]
        assert consumer.getmany(timeout_ms=1) == {}


def test_positions_move(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    with consumer_for(cluster) as consumer:
        consumer.assign([T0, T1])
        assert (consumer.assignment(), consumer.subscription()) == ({T0, T1}, frozenset())
        assert consumer.position(T0) == 0
        consumer.seek(T0, 8)
        assert take(consumer, 2) == [b"8", b"9"]
        assert consumer.high_watermark(T0) == 10
        consumer.seek_to_beginning(T0)
        assert consumer.position(T0) == 0
        consumer.seek_to_end(T0)
        assert consumer.position(T0) == 10
        consumer.pause(T0)
        assert consumer.paused() == {T0}
        consumer.resume(T0)
        assert consumer.paused() == frozenset()
        assert consumer.end_offsets([T0]) == {T0: 10}
        assert consumer.beginning_offsets([T0]) == {T0: 0}
        assert consumer.partitions_for("t") == [0, 1]
        assert consumer.explain().partitions[0].position == 10
        assert consumer.metrics()
        assert consumer.is_connected
        consumer.seek(T0, 0)
        [batch] = consumer.getbatches(timeout_ms=WITHIN_S * 1_000)[T0]
        assert len(batch.values()) == 10
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()


def test_records_come_by_column(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    with consumer_for(cluster) as consumer:
        consumer.assign([T0])
        columns = next(iter(consumer.batches()))
        assert (columns.partition, len(columns.values)) == (T0, 10)


def test_a_simple_consumer_reads_one_broker(cluster: FakeCluster) -> None:
    host, _, port = cluster.address.rpartition(":")
    write(cluster.log("t"), 3)
    with SimpleConsumer(host, int(port)) as simple:
        assert len(simple.fetch("t", 0, 0).records) == 3
        assert simple.find_leader("t", 0).port == int(port)


def test_subscribing_before_the_start_joins_a_group_with_the_start(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    consumer = consumer_for(cluster, group_id="g", enable_auto_commit=False)
    consumer.subscribe("t")
    assert consumer.subscription() == {"t"}
    with consumer:
        assert len(take(consumer, 4)) == 4
        consumer.commit()
        found = consumer.committed(T0)[T0]
        assert found is not None and found.offset == 4
        consumer.commit({T0: 2})
        assert consumer.group_metadata().group_id == "g"
    assert committed(cluster) == 2


def test_the_thread_that_polled_last_counts_its_records_as_processed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    with consumer_for(cluster, "t", group_id="g") as consumer:
        take(consumer, 4)
    assert committed(cluster) == 4


def test_an_exception_in_the_block_leaves_the_last_records_unprocessed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    with pytest.raises(LookupError), consumer_for(cluster, "t", group_id="g") as consumer:
        take(consumer, 3)
        take(consumer, 1)
        raise LookupError
    assert committed(cluster) == 3


def test_another_thread_ends_an_iteration_and_its_record_is_not_processed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 4)
    with consumer_for(cluster, "t", group_id="g", max_poll_records=1) as consumer:
        seen: list[bytes | None] = []
        works, stopped = threading.Event(), threading.Event()

        def read() -> None:
            for record in consumer:
                seen.append(record.value)
                if record.value == b"2":
                    works.set()
                    stopped.wait(WITHIN_S)

        thread = threading.Thread(target=read)
        thread.start()
        assert works.wait(WITHIN_S)
        consumer.stop()
        stopped.set()
        thread.join(WITHIN_S)
        assert seen == [b"0", b"1", b"2"]
    assert committed(cluster) == 2


def test_a_waiting_poll_ends_when_another_thread_stops_the_consumer(cluster: FakeCluster) -> None:
    raised: list[BaseException] = []
    with consumer_for(cluster, "t") as consumer:

        def read() -> None:
            try:
                consumer.getone()
            except ClientStopped as error:
                raised.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        until(lambda: cluster.calls(ApiKey.FETCH))
        with pytest.raises(ConcurrentPoll):
            consumer.getmany(timeout_ms=1)
        consumer.stop()
        thread.join(WITHIN_S)
    assert len(raised) == 1


class Listener:
    """Commits what it is about to lose, by the blocking consumer itself."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.seen: list[str] = []
        self.threads: set[str] = set()

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._consumer.commit(dict.fromkeys(partitions, 1))
        self.seen.append("revoked")

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.threads.add(threading.current_thread().name)
        self.seen.append("assigned")

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.seen.append("lost")


def test_a_listener_may_call_the_consumer(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 2)
    with consumer_for(cluster, group_id="g", enable_auto_commit=False) as consumer:
        listener = Listener(consumer)
        consumer.subscribe("t", listener=listener)
        take(consumer, 2)
        consumer.unsubscribe()
    assert listener.seen == ["assigned", "revoked"]
    assert listener.threads.isdisjoint({"odradek-client", threading.current_thread().name})
    assert committed(cluster) == 1


class Store:
    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {T0: OffsetAndMetadata(3)}

    def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.offsets

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if T1 in offsets:
            raise LookupError("not mine")
        self.offsets.update(offsets)


def test_a_blocking_store_keeps_offsets(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 5)
    store = Store()
    with consumer_for(cluster, offset_store=ThreadedOffsetStore(store), enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        assert take(consumer, 2) == [b"3", b"4"]
        consumer.commit()
        assert store.offsets[T0].offset == 5
        with pytest.raises(OffsetStoreFailed):
            consumer.commit({T1: 1})


# -- Threads


def test_a_handler_runs_in_threads_until_the_consumer_stops(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 20)
    seen: list[bytes | None] = []
    barrier, calls = threading.Barrier(2, timeout=WITHIN_S), count()

    def handle(record: ConsumerRecord) -> None:
        if next(calls) < 2:
            barrier.wait()  # two handlers run at the same time
        seen.append(record.value)
        if len(seen) == 20:
            threading.Thread(target=consumer.stop).start()

    with consumer_for(cluster, "t", group_id="g") as consumer:
        consumer.consume(handle, concurrency=2, by_key=False)
    assert sorted(seen, key=str) == sorted((b"%d" % number for number in range(20)), key=str)
    assert committed(cluster) is not None


def test_a_signal_drains_the_handlers(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 8)
    seen: list[bytes | None] = []

    def handle(record: ConsumerRecord) -> None:
        if not seen:
            os.kill(os.getpid(), signal.SIGTERM)
        seen.append(record.value)

    before = signal.getsignal(signal.SIGTERM)
    with consumer_for(cluster, "t", group_id="g", max_poll_records=4) as consumer:
        consumer.consume(handle, drain_on=[signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is before
    assert committed(cluster) == len(seen) > 0


@pytest.mark.parametrize("ends", [Consumer.drain, Consumer.stop], ids=["drain", "stop"])
def test_a_handler_may_end_its_consume(cluster: FakeCluster, ends: Callable[[Consumer], None]) -> None:
    write(cluster.log("t"), 20)
    seen: list[bytes | None] = []

    def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)
        if record.offset == 5:
            ends(consumer)
            assert len(seen) == 6, "it waits for no other record"

    with consumer_for(cluster, "t", group_id="g") as consumer:
        consumer.consume(handle, drain_timeout_ms=5_000)
    assert committed(cluster) == len(seen) >= 6


def test_a_record_that_always_fails_goes_to_the_dead_letters_or_raises(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    dead: list[tuple[bytes | None, str]] = []

    def handle(record: ConsumerRecord) -> None:
        raise LookupError("never")

    def bury(record: ConsumerRecord, error: Exception) -> None:
        dead.append((record.value, str(error)))
        threading.Thread(target=consumer.stop).start()

    with consumer_for(cluster, "t", group_id="g") as consumer:
        with pytest.raises(HandlerFailed):
            consumer.consume(handle, attempts=2, retry_backoff_ms=1)
        consumer.consume(handle, attempts=1, dead_letters=bury)
    assert dead == [(b"0", "never")]


def test_a_coroutine_is_refused_where_it_would_not_run(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)

    async def handle(record: ConsumerRecord) -> None: ...

    def fail(record: ConsumerRecord) -> None:
        raise LookupError("never")

    with consumer_for(cluster, "t", group_id="g") as consumer:
        with pytest.raises(HandlerFailed, match="takes plain functions, not coroutines"):
            consumer.consume(handle, attempts=1)  # pyright: ignore
        with pytest.raises(TypeError, match="takes plain functions, not coroutines"):
            consumer.consume(fail, attempts=1, dead_letters=DeadLetterTopic(Producer(), "dead"))  # pyright: ignore
    assert not any(cluster.group.committed.values())


def test_streams_are_read_by_threads(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 5)
    write(cluster.log("t", 1), 5)
    seen: list[list[int]] = [[], []]

    def read(number: int, stream: Stream) -> None:
        for record in stream:
            seen[number].append(record.partition)

    with consumer_for(cluster, group_id="g") as consumer:
        streams = consumer.streams({"t": 2})["t"]
        threads = [threading.Thread(target=read, args=each) for each in enumerate(streams)]
        for thread in threads:
            thread.start()
        until(lambda: sum(map(len, seen)) == 10)
        consumer.stop()
        for thread in threads:
            thread.join(WITHIN_S)
    assert sorted(map(tuple, map(set, seen))) == [(0,), (1,)]


def test_streams_of_a_pattern(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 1)
    with consumer_for(cluster, group_id="g") as consumer:
        [stream] = consumer.streams("t.*", 1)
        assert next(stream).value == b"0"


# -- Ctrl-C


def interrupts(cluster: FakeCluster, key: ApiKey) -> None:
    async def step(call: Call) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return await call.default()

    cluster.on(key, step)


def poll_by(consumer: Consumer, way: str) -> list[bytes | None]:
    match way:
        case "getmany":
            return values(consumer.getmany(timeout_ms=60_000))
        case "getbatches":
            found = consumer.getbatches(timeout_ms=60_000)
            return [value for batches in found.values() for batch in batches for value in batch.values()]
        case "getone":
            return [consumer.getone().value]
        case _:
            return [next(consumer).value]


WAYS = ["getmany", "getone", "next", "getbatches"]


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_in_a_poll_loses_no_record(cluster: FakeCluster, way: str) -> None:
    """The records come before the interrupt, with it or after it: none is skipped."""
    seen: list[bytes | None] = []
    with consumer_for(cluster, "t", group_id="g") as consumer:
        until(lambda: cluster.calls(ApiKey.FETCH))
        interrupts(cluster, ApiKey.FETCH)
        write(cluster.log("t"), 3)
        with pytest.raises(KeyboardInterrupt):
            while True:
                seen += poll_by(consumer, way)
        seen += take(consumer, 3 - len(seen))
        assert seen == [b"0", b"1", b"2"]
    assert committed(cluster) == 3


def interrupt_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the exception of a signal handler when a call is done, and its caller does not have the result yet."""
    wait, failures = loop_thread.Call[Any].wait, [LookupError("of a signal handler")]

    def interrupted(call: loop_thread.Call[Any]) -> None:
        wait(call)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(loop_thread.Call, "wait", interrupted)


@pytest.mark.parametrize("way", WAYS)
def test_records_that_an_interrupted_thread_missed_are_returned_again(
    cluster: FakeCluster, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster.log("t"), 3, per_batch=1)
    with consumer_for(cluster, "t", group_id="g") as consumer:
        take(consumer, 1)
        interrupt_the_next_call(monkeypatch)
        with pytest.raises(LookupError):
            poll_by(consumer, way)
        assert take(consumer, 2) == [b"1", b"2"]
    assert committed(cluster) == 3


def test_a_stream_returns_the_record_that_an_interrupted_thread_missed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster.log("t"), 3)
    with consumer_for(cluster, group_id="g") as consumer:
        [stream] = consumer.streams({"t": 1})["t"]
        interrupt_the_next_call(monkeypatch)
        with pytest.raises(LookupError):
            next(stream)
        assert [next(stream).value for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.LIST_OFFSETS])
def test_ctrl_c_in_a_call_leaves_the_consumer_usable(cluster: FakeCluster, key: ApiKey) -> None:
    write(cluster.log("t"), 3)
    with consumer_for(cluster, "t", group_id="g", enable_auto_commit=False) as consumer:
        take(consumer, 3)
        interrupts(cluster, key)
        with pytest.raises(KeyboardInterrupt):
            while True:
                _ = consumer.commit() if key is ApiKey.OFFSET_COMMIT else consumer.end_offsets([T0])
        consumer.commit()
        assert consumer.end_offsets([T0]) == {T0: 3}
    assert committed(cluster) == 3
