"""`consume` and `streams`: many tasks work on one consumer's records, and what is done is committed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import pytest
from odradek.client import Consumer, ConsumerRecord, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.consumer.poller import Poller
from odradek.client.consumer.polls import InFlight, Polls
from odradek.client.consumer.positions import Positions
from odradek.client.consumer.workers import ERROR_HEADER, MAX_QUEUED, OFFSET_HEADER, DeadLetterTopic
from odradek.client.errors import (
    ClientStopped,
    ConcurrentPoll,
    DeserializationFailed,
    GroupRequired,
    HandlerFailed,
    InvalidOption,
    NotAssigned,
)
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.client.consumer.test_consumer import consumer_for as quick_consumer
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import answer
from odradek.tests.support.waiting import until

T0 = TopicPartition("t", 0)


def consumer_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    return quick_consumer(cluster, *topics, **{"heartbeat_interval_ms": 5, "group_id": "g"} | options)


class NoStore:
    """It has no offsets, and keeps none."""

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        pass


def write(cluster: FakeCluster, keys: list[bytes | None], partition: int = 0, topic: str = "t") -> None:
    records = [Record(-1, 7, key, b"%d" % number) for number, key in enumerate(keys)]
    cluster.log(topic, partition).write(encode_batch(records))


class Busy:
    """A handler that works on each record until the test says `go`."""

    def __init__(self) -> None:
        self.at_work, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, record: ConsumerRecord) -> None:
        self.at_work.set()
        await self.go.wait()


class Work:
    """A handler that notes what it was given, and lets the test say how long each record takes."""

    def __init__(self, consumer: Consumer, stop_after: int) -> None:
        self.consumer = consumer
        self.stop_after = stop_after
        self.order: dict[bytes | None, list[int]] = defaultdict(list)
        self.running = self.most = self.count = 0

    async def __call__(self, record: ConsumerRecord) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(record.offset % 3):
            await asyncio.sleep(0)
        self.running -= 1
        self.order[record.key].append(record.offset)
        self.count += 1
        if self.count == self.stop_after:
            os.kill(os.getpid(), signal.SIGTERM)


async def test_records_of_a_key_stay_in_order_and_a_signal_drains_and_commits() -> None:
    keys: list[bytes | None] = [b"%d" % (number % 7) for number in range(100)]
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, keys)
        work = Work(consumer, 100)
        before = signal.getsignal(signal.SIGTERM)
        await consumer.consume(work, concurrency=4, drain_on=[signal.SIGTERM])
        assert signal.getsignal(signal.SIGTERM) is before
        assert work.most > 1
        assert all(offsets == sorted(offsets) for offsets in work.order.values())
        assert sorted(offset for offsets in work.order.values() for offset in offsets) == list(range(100))
        assert cluster.group.committed == {("t", 0): 100}


async def test_only_the_prefix_that_is_done_is_committed_and_the_rest_is_returned_again() -> None:
    stuck = asyncio.Event()

    async def handler(record: ConsumerRecord) -> None:
        if record.offset == 3:
            await stuck.wait()
        if record.offset == 9:
            os.kill(os.getpid(), signal.SIGTERM)

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, [b"%d" % number for number in range(10)])
        async with consumer_for(cluster, "t", enable_auto_commit=False) as consumer:
            await consumer.consume(handler, concurrency=5, by_key=False, drain_timeout_ms=20, drain_on=[signal.SIGTERM])
            assert cluster.group.committed == {("t", 0): 3}
            assert (await consumer.getone()).offset == 3


async def test_a_commit_by_a_handler_has_what_is_done() -> None:
    async def handler(record: ConsumerRecord) -> None:
        await consumer.commit()
        assert cluster.group.committed.get(("t", 0), 0) == record.offset
        if record.offset == 99:
            await consumer.drain()

    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [None] * 100)
        await consumer.consume(handler)
        assert cluster.group.committed == {("t", 0): 100}


@pytest.mark.parametrize("asks", ["stop", "drain", "handler", "task of a handler", "block"])
async def test_what_is_handled_is_committed_before_the_consumer_leaves_its_group(asks: str) -> None:
    handled: list[int] = []

    async def handler(record: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        handled.append(record.offset)
        if len(handled) == 10:
            if asks == "handler":
                await consumer.stop()
            elif asks == "task of a handler":
                await asyncio.gather(consumer.stop())
            enough.set()

    enough = asyncio.Event()
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, [b"%d" % number for number in range(40)])
        async with consumer_for(cluster, "t") as consumer:
            consuming = asyncio.create_task(consumer.consume(handler, concurrency=4))
            await enough.wait()
            if asks == "drain":
                await consumer.drain()
                assert consuming.done() or cluster.group.committed == {("t", 0): len(handled)}
            elif asks == "stop":
                await consumer.stop()
            elif asks != "block":
                await consuming
        await consuming
        assert sorted(handled) == list(range(len(handled)))
        assert cluster.group.committed == {("t", 0): len(handled)}


async def test_signals_stay_the_programs_own() -> None:
    """Also beside `drain_on`, for two calls of `consume` at a time, and in each order of their ends."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    quiet = asyncio.Event()

    async def handler(record: ConsumerRecord) -> None:
        if record.value == b"5":
            quiet.set()

    before = signal.getsignal(signal.SIGTERM)
    loop.add_signal_handler(signal.SIGTERM, heard.set)
    installed = signal.getsignal(signal.SIGTERM)
    try:
        async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
            write(cluster, [None] * 6)
            for drain_on in ([signal.SIGTERM], []):
                heard.clear()
                stores = {"group_id": None, "offset_store": NoStore()}
                async with consumer_for(cluster, "t", **stores) as one, consumer_for(cluster, "t", **stores) as two:
                    both = [asyncio.create_task(each.consume(handler, drain_on=drain_on)) for each in (one, two)]
                    if drain_on:
                        await quiet.wait()
                    else:
                        await asyncio.sleep(0)
                    os.kill(os.getpid(), signal.SIGTERM)
                    await heard.wait()
                    if not drain_on:
                        await asyncio.gather(one.drain(), two.drain())
                    await asyncio.gather(*both)
                assert signal.getsignal(signal.SIGTERM) is installed
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_the_last_of_two_consumers_to_end_gives_the_signal_back(order: tuple[int, int]) -> None:
    async def handler(_: ConsumerRecord) -> None:
        return

    before, stores = signal.getsignal(signal.SIGTERM), {"group_id": None, "offset_store": NoStore()}
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        async with consumer_for(cluster, "t", **stores) as one, consumer_for(cluster, "t", **stores) as two:
            consumers, tasks = (one, two), list[asyncio.Task[None]]()
            for each in consumers:
                tasks.append(asyncio.create_task(each.consume(handler, drain_on=[signal.SIGTERM])))
                await asyncio.sleep(0)
            for number in order:
                assert signal.getsignal(signal.SIGTERM) is not before
                await consumers[number].drain()
                await tasks[number]
            assert signal.getsignal(signal.SIGTERM) is before


async def test_a_failing_record_is_tried_again_and_then_raised() -> None:
    tried: list[int] = []

    async def handler(record: ConsumerRecord) -> None:
        tried.append(record.offset)
        if record.offset == 2 and tried.count(2) < 3:
            raise RuntimeError("not yet")
        if record.offset == 4:
            raise RuntimeError("never")

    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [None] * 6)
        with pytest.raises(HandlerFailed, match="t-0 at offset 4: RuntimeError") as raised:
            await consumer.consume(handler, attempts=3, retry_backoff_ms=1)
        assert raised.value.record.offset == 4
        assert tried == [0, 1, 2, 2, 2, 3, 4, 4, 4]
        assert cluster.group.committed == {("t", 0): 4}


async def test_dead_letters_go_to_their_topic_with_the_reason() -> None:
    async def handler(record: ConsumerRecord) -> None:
        if record.offset == 1:
            raise RuntimeError("poison")
        if record.offset == 2:
            b"".join([b"\xff" * 300_000, record.value or b""]).decode()
        if record.offset == 3:
            await consumer.drain()

    async with FakeCluster({"t": 1, "dead": 1}) as cluster, asyncio.timeout(10):
        write(cluster, [b"a", b"b"])
        # Of an old format, and with a handler's error that holds more bytes than a record may have.
        cluster.log("t").write(encode_batch([Record(-1, -1, None, b"c")]))
        write(cluster, [b"d"])
        writing = Producer(cluster.address, key_serializer="json", value_serializer="json")
        async with writing as producer, consumer_for(cluster, "t") as consumer:
            dead = DeadLetterTopic(producer, "dead")
            await consumer.consume(handler, attempts=2, retry_backoff_ms=1, dead_letters=dead)
        letter, timeless = cluster.log("dead").records()
        assert (letter.key, letter.value) == (b"b", b"1")
        assert dict(letter.headers)[OFFSET_HEADER] == b"1"
        assert b"poison" in (dict(letter.headers)[ERROR_HEADER] or b"")
        assert timeless.value == b"c" and timeless.timestamp_ms > 0
        assert (dict(timeless.headers)[ERROR_HEADER] or b"").startswith(b"UnicodeDecodeError('utf-8', b'\\xff")
        assert cluster.group.committed == {("t", 0): 4}


async def test_a_rebalance_waits_for_the_records_that_are_worked_on() -> None:
    busy, handled = Busy(), list[int]()

    async def handler(record: ConsumerRecord) -> None:
        await busy(record)
        handled.append(record.offset)
        if len(handled) == 20:
            await consumer.drain()

    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [b"%d" % number for number in range(20)])
        consuming = asyncio.ensure_future(consumer.consume(handler, concurrency=2))
        await busy.at_work.wait()
        beats = len(cluster.calls(ApiKey.HEARTBEAT))
        cluster.on(ApiKey.HEARTBEAT, answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
        await until(lambda: len(cluster.calls(ApiKey.HEARTBEAT)) >= beats + 3)
        assert cluster.group.generation == 1
        busy.go.set()
        await consuming
        assert sorted(handled) == list(range(20)), "nothing twice"
        await until(lambda: cluster.group.generation >= 2)
        assert cluster.group.committed == {("t", 0): 20}


async def test_consume_needs_offsets_to_commit_and_a_consumer_of_its_own(cluster: FakeCluster) -> None:
    async def handler(_: ConsumerRecord) -> None:
        return

    async with consumer_for(cluster, "t", group_id=None) as consumer:
        with pytest.raises(GroupRequired):
            await consumer.consume(handler)
    async with consumer_for(cluster, "t") as consumer:
        with pytest.raises(InvalidOption):
            await consumer.consume(handler, concurrency=0)
        consumer.streams({"t": 1})
        with pytest.raises(ConcurrentPoll):
            await consumer.consume(handler)


async def test_a_handler_that_hangs_has_its_consumer_leave_the_group() -> None:
    async def handler(_: ConsumerRecord) -> None:
        await asyncio.Event().wait()

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, [None] * 3)
        async with consumer_for(cluster, "t", max_poll_interval_ms=20) as consumer:
            consuming = asyncio.ensure_future(consumer.consume(handler))
            await until(lambda: bool(cluster.group.left))
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)


# -- Streams


async def test_streams_have_partitions_of_their_own_and_commit_what_was_asked_past() -> None:
    async with FakeCluster({"t": 4, "u": 1}) as cluster, consumer_for(cluster) as consumer, asyncio.timeout(10):
        for number in range(4):
            write(cluster, [None] * 5, number)
        write(cluster, [None] * 5, 0, "u")
        streams = consumer.streams({"t": 2, "u": 1})
        assert {topic: len(some) for topic, some in streams.items()} == {"t": 2, "u": 1}
        seen: list[set[tuple[str, int]]] = []
        for stream, count in [*((each, 10) for each in streams["t"]), (streams["u"][0], 5)]:
            records = [await anext(stream) for _ in range(count)]
            seen.append({(record.topic, record.partition) for record in records})
        assert [len(each) for each in seen] == [2, 2, 1]
        assert len(set.union(*seen)) == 5
        asking = asyncio.ensure_future(anext(streams["t"][0]))
        await asyncio.sleep(0)
        await consumer.stop()
        with pytest.raises(StopAsyncIteration):
            await asking
        assert [record async for record in streams["u"][0]] == []
    committed = cluster.group.committed
    assert committed["u", 0] == 4, "the last record of a stream that was not asked again is not processed"
    assert sorted(committed["t", number] for number in range(4)) == [4, 5, 5, 5]


async def test_streams_of_a_pattern_and_a_slow_one_holds_up_none_but_its_own() -> None:
    async with FakeCluster({"a": 1, "b": 1}) as cluster, consumer_for(cluster, group_id=None) as consumer:
        write(cluster, [None] * 3000, 0, "a")
        write(cluster, [None] * 3000, 0, "b")
        one, _slow = consumer.streams("a|b", 2)
        async with asyncio.timeout(10):
            assert [(await anext(one)).offset for _ in range(3000)] == list(range(3000))


async def test_a_slow_stream_does_not_keep_others_of_its_leader_from_being_fetched() -> None:
    options = {"group_id": None, "max_partition_fetch_bytes": 2_000}
    async with FakeCluster({"a": 1, "b": 1}) as cluster, consumer_for(cluster, **options) as consumer:
        for _ in range(60):
            write(cluster, [None] * 100, 0, "a")
            write(cluster, [None] * 100, 0, "b")
        one, _slow = consumer.streams("a|b", 2)
        async with asyncio.timeout(20):
            assert [(await anext(one)).offset for _ in range(6000)] == list(range(6000))
        states = {state.partition.topic: state for state in consumer._positions}
        assert states["b"].buffered_bytes < 3 * 2_000 + 2 * 1_500, "a slow stream holds no more than its share"


async def test_a_record_that_cannot_be_deserialized_keeps_no_other_partition_from_being_fetched() -> None:
    def read(data: bytes) -> bytes:
        if data == b"bad":
            raise ValueError("bad")
        return data

    options = {"group_id": None, "max_partition_fetch_bytes": 2_000, "value_deserializer": read}
    async with FakeCluster({"a": 1, "b": 1}) as cluster, consumer_for(cluster, "a", "b", **options) as consumer:
        cluster.log("b").write(encode_batch([Record(-1, 7, None, b"bad")]))
        for _ in range(60):
            write(cluster, [None] * 100, 0, "a")
            write(cluster, [None] * 100, 0, "b")
        seen: list[int] = []
        async with asyncio.timeout(20):
            while len(seen) < 6000:
                with suppress(DeserializationFailed):
                    found = await consumer.getmany(timeout_ms=1000)
                    assert found.keys() <= {TopicPartition("a", 0)}
                    seen += [record.offset for records in found.values() for record in records]
        assert seen == list(range(6000))


async def test_a_commit_beside_streams_has_what_they_were_asked_past() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer, asyncio.timeout(10):
        write(cluster, [None] * 1500)
        (stream,) = consumer.streams({"t": 1})["t"]
        for number in range(4):
            await anext(stream)
            await consumer.commit()
            assert cluster.group.committed.get(("t", 0), 0) == number


async def test_an_error_is_raised_by_each_stream_once(cluster: FakeCluster) -> None:
    async with consumer_for(cluster, group_id=None, auto_offset_reset="none") as consumer:
        for stream in consumer.streams({"t": 2})["t"]:
            with pytest.raises(Exception, match="no committed offset"):
                await asyncio.wait_for(anext(stream), 10)
        with pytest.raises(InvalidOption):
            consumer.streams({})


# -- Seeks, polls and drains beside the workers


async def test_records_that_were_sought_past_hold_no_drain_up() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [b"a"] * 10)
        busy = Busy()
        consuming = asyncio.create_task(consumer.consume(busy))
        await busy.at_work.wait()
        consumer.seek_to_end(T0)
        busy.go.set()
        await consumer.drain()
        await consuming


def test_records_of_a_partition_that_was_taken_away_stall_nobody() -> None:
    positions, polls = Positions(), Polls()
    (state,) = positions.replace([T0])
    state.move_to(0)
    polls.by_record = InFlight(positions, polls)
    polls.mark_returned(state)
    polls.by_record.add(T0, [ConsumerRecord("t", 0, 0, 7, 0, None, b"", ())], 0)
    assert polls.stalled_ms(1_000) == 1_000
    assert polls.works_on([T0])
    positions.replace([])
    assert polls.stalled_ms(1_000) == 0
    assert not polls.works_on([T0])


async def test_auto_commit_stays_off_after_consume() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster, [None] * 3)
        async with consumer_for(cluster, "t", enable_auto_commit=False) as consumer:
            handled = asyncio.Event()

            async def handle(record: ConsumerRecord) -> None:
                if record.offset == 2:
                    handled.set()

            consuming = asyncio.create_task(consumer.consume(handle))
            await handled.wait()
            await consumer.drain()
            await consuming
            write(cluster, [None] * 2)
            while not await consumer.getmany(timeout_ms=100):
                pass
        assert cluster.group.committed == {("t", 0): 3}


async def test_a_drain_while_a_workers_queue_is_full_begins_no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    taken = 0
    poll = Poller.records_in_flight

    async def noted(poller: Poller, room: Callable[[], int]) -> dict[TopicPartition, list[ConsumerRecord]]:
        nonlocal taken
        rooms.append(room())
        found = await poll(poller, room)
        taken += sum(map(len, found.values()))
        return found

    async def handler(_: ConsumerRecord) -> None:
        await done.wait()

    monkeypatch.setattr(Poller, "records_in_flight", noted)
    done = asyncio.Event()
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [None] * 3 * MAX_QUEUED)
        task = asyncio.create_task(consumer.consume(handler))
        while taken <= MAX_QUEUED:  # one is with the handler
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.01, done.set)
        await consumer.drain()
        await task
    assert taken == MAX_QUEUED + 1
    assert min(rooms) > 0


async def test_a_drain_waits_for_the_commit_that_another_drain_has_begun() -> None:
    class SlowStore(NoStore):
        def __init__(self) -> None:
            self.kept: dict[TopicPartition, OffsetAndMetadata] = {}
            self.asked, self.go_on = asyncio.Event(), asyncio.Event()

        async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            self.asked.set()
            await self.go_on.wait()
            self.kept.update(offsets)

    store, handled = SlowStore(), asyncio.Event()

    async def handle(_record: ConsumerRecord) -> None:
        handled.set()

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        async with consumer_for(cluster, "t", group_id=None, offset_store=store) as consumer:
            write(cluster, [None])
            consuming = asyncio.create_task(consumer.consume(handle))
            await handled.wait()
            first = asyncio.create_task(consumer.drain())
            await store.asked.wait()
            second = asyncio.create_task(consumer.drain())
            await asyncio.sleep(0)
            assert not second.done()
            store.go_on.set()
            await second
            assert {place: at.offset for place, at in store.kept.items()} == {T0: 1}
            await asyncio.gather(first, consuming)


async def test_polls_take_no_records_from_consume() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster, [None] * 100)
        busy = Busy()
        consuming = asyncio.create_task(consumer.consume(busy))
        await busy.at_work.wait()
        for poll in (consumer.getmany, consumer.getbatches, consumer.getone):
            with pytest.raises(ConcurrentPoll):
                await poll()
        busy.go.set()
        await consumer.drain()
        await consuming


async def test_streams_that_cannot_subscribe_leave_the_consumer_as_it_was() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer, asyncio.timeout(10):
        write(cluster, [None])
        consumer.assign([T0])
        with pytest.raises(NotAssigned):
            consumer.streams({"t": 1})
        assert [record.offset for record in (await consumer.getmany(timeout_ms=5_000))[T0]] == [0]
        await consumer.commit()
        assert cluster.group.committed == {("t", 0): 1}


async def test_only_one_task_waits_for_records_of_a_stream() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer, asyncio.timeout(10):
        (stream,) = consumer.streams({"t": 1})["t"]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentPoll):
            await anext(stream)
        write(cluster, [None])
        assert (await waiting).offset == 0


async def test_streams_whose_task_was_cancelled_do_not_look_as_if_the_consumer_had_stopped() -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster) as consumer, asyncio.timeout(10):
        (stream,) = consumer.streams({"t": 1})["t"]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks():
            if task.get_name() == "streams":
                task.cancel()
        with pytest.raises(ClientStopped, match="cancelled"):
            await waiting


async def test_a_consumer_is_not_lost_while_the_program_has_its_streams() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        consumer = consumer_for(cluster)
        await consumer.start()
        held = weakref.ref(consumer)
        (stream,) = consumer.streams({"t": 1})["t"]
        del consumer
        gc.collect()
        write(cluster, [None])
        assert (await anext(stream)).offset == 0
        found = held()
        assert found is not None
        await found.stop()
