"""What the user's code does to a client at the worst moment: it raises, cancels, starts twice, and asks for nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from odradek.client import Admin, Consumer, KafkaError, Producer, SimpleConsumer, TopicPartition
from odradek.client.core.lifetime import CancelledInside
from odradek.client.errors import ClientStopped, ConnectionLost, HandlerFailed, ListenerFailed, NotAssigned
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import answer
from odradek.tests.support.waiting import until

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


def cluster_with_records() -> FakeCluster:
    cluster = FakeCluster({"t": 1, "u": 1})
    for topic in "tu":
        write(cluster.log(topic), 3)
    return cluster


def member_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    given = {"group_id": "g", "auto_offset_reset": "earliest", **QUICK, **options}
    return Consumer(*topics, bootstrap_servers=cluster.address, **given)


async def await_something_cancelled(*_: object) -> None:
    """What code does that cancels a task of its own, and waits for its end."""
    task = asyncio.ensure_future(asyncio.sleep(10))
    task.cancel()
    await task


CLIENTS: list[Callable[[FakeCluster], Any]] = [
    lambda cluster: Producer(cluster.address),
    lambda cluster: Consumer("t", bootstrap_servers=cluster.address),
    lambda cluster: Admin(cluster.address),
    lambda cluster: SimpleConsumer("127.0.0.1", int(cluster.address.rpartition(":")[2])),
]


@pytest.mark.parametrize("make", CLIENTS, ids=["Producer", "Consumer", "Admin", "SimpleConsumer"])
async def test_a_client_that_two_tasks_start_is_one_client(make: Callable[[FakeCluster], Any]) -> None:
    before = asyncio.all_tasks()
    async with FakeCluster({"t": 1}) as cluster:
        client = make(cluster)
        await asyncio.gather(client.start(), client.start(), client.start())
        await client.stop()
        # until the broker has seen the last connection end
        await until(lambda: not any(node.writers for node in cluster.nodes.values()))
        assert asyncio.all_tasks() == before


async def test_a_poll_that_could_wait_for_nothing_says_so() -> None:
    async with cluster_with_records() as cluster, member_for(cluster) as consumer:
        calls: list[Callable[[], Awaitable[Any]]] = [
            consumer.getmany,
            consumer.getone,
            consumer.getbatches,
            lambda: anext(aiter(consumer)),
        ]
        for call in calls:
            with pytest.raises(NotAssigned, match=r"nothing to read: subscribe\(\) to topics, or assign\(\)"):
                await call()
        consumer.subscribe("t")
        assert (await consumer.getone()).value == b"0"
        await consumer.unsubscribe()
        with pytest.raises(NotAssigned):
            await consumer.getmany()
        consumer.assign([])
        assert await consumer.getmany(timeout_ms=1) == {}, "an assignment of nothing may be followed by another"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_streams_raise_an_error_that_stays_each_time_they_are_asked_and_the_loop_goes_on(protocol: str) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    async with cluster_with_records() as cluster:
        cluster.on(ApiKey.JOIN_GROUP, answer(JoinGroupResponse(error_code=code)))
        cluster.on(ApiKey.CONSUMER_GROUP_HEARTBEAT, answer(ConsumerGroupHeartbeatResponse(error_code=code)))
        async with member_for(cluster, group_protocol=protocol) as consumer:
            for stream in consumer.streams({"t": 2})["t"] * 2:
                with pytest.raises(KafkaError) as caught:
                    await anext(stream)
                assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


# -- What raises


class Listener:
    """Calls the user's code once, at its first assignment."""

    def __init__(self, act: Callable[[], Awaitable[object]]) -> None:
        self.act = act
        self.called = 0

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.called += 1
        if self.called == 1:
            await self.act()

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None: ...


async def test_a_listener_that_awaits_something_cancelled_has_failed() -> None:
    async with cluster_with_records() as cluster, member_for(cluster) as consumer:
        consumer.subscribe("t", listener=Listener(await_something_cancelled))
        for _ in range(2):
            with pytest.raises(ListenerFailed, match="it awaited something that was cancelled"):
                await consumer.getmany(timeout_ms=5_000)
            await until(lambda: bool(cluster.group.left))
        assert not cluster.calls(ApiKey.JOIN_GROUP), "who has left joins by no other protocol"
        consumer.subscribe("u")
        assert (await consumer.getone()).topic == "u"


ACTS: dict[str, tuple[Callable[[Consumer], Any], set[tuple[str, int]]]] = {
    "unsubscribe": (lambda consumer: consumer.unsubscribe(), set()),
    "subscribe": (lambda consumer: consumer.subscribe("u"), {("u", 0)}),
    "seek": (lambda consumer: consumer.seek(TopicPartition("t", 0), 2), {("t", 2)}),
    "pause": (lambda consumer: consumer.pause(*consumer.assignment()), set()),
    "commit": (lambda consumer: consumer.commit(), {("t", 0)}),
}


@pytest.mark.parametrize("name", ACTS)
async def test_a_listener_may_use_its_consumer(name: str) -> None:
    call, first = ACTS[name]
    async with cluster_with_records() as cluster, member_for(cluster) as consumer:

        async def act() -> None:
            if (made := call(consumer)) is not None:
                await made

        consumer.subscribe("t", listener=Listener(act))
        found = await consumer.getmany(timeout_ms=5_000 if first else 300)
        assert {(place.topic, records[0].offset) for place, records in found.items()} == first
        consumer.subscribe("u")
        assert name == "subscribe" or (await consumer.getone()).topic == "u", "the consumer goes on"


async def test_a_listener_may_stop_the_consumer() -> None:
    before = asyncio.all_tasks()
    async with cluster_with_records() as cluster:
        consumer = member_for(cluster)
        await consumer.start()
        consumer.subscribe("t", listener=Listener(consumer.stop))
        with pytest.raises(ClientStopped):
            await consumer.getmany(timeout_ms=5_000)
        await consumer.stop()
    left = asyncio.all_tasks() - before
    await asyncio.wait(left, timeout=5) if left else None
    assert asyncio.all_tasks() <= before


async def test_a_producer_whose_tasks_the_program_cancelled_can_be_started_again(cluster: FakeCluster) -> None:
    producer = Producer(cluster.address)
    await producer.start()
    for task in asyncio.all_tasks() - {asyncio.current_task()} - cluster.tasks:
        task.cancel()
    with pytest.raises(ClientStopped):
        while True:
            await producer.send_and_wait("t", b"lost")
    await producer.stop()
    async with producer:
        await producer.send_and_wait("t", b"x")
    assert cluster.values("t")[-1] == b"x"


async def test_batches_tell_why_they_end_also_after_a_second_start() -> None:
    async with cluster_with_records() as cluster:
        consumer = Consumer("t", bootstrap_servers=cluster.address)
        for _ in range(2):
            await consumer.start()
            for task in asyncio.all_tasks() - {asyncio.current_task()} - cluster.tasks:
                task.cancel()
            with pytest.raises(ClientStopped, match="was cancelled"):
                async for _ in consumer.batches():
                    pass
            await consumer.stop()


async def test_a_subscription_during_an_unsubscribe_is_read_and_committed() -> None:
    async with cluster_with_records() as cluster, member_for(cluster, "t") as consumer:
        assert (await consumer.getone()).topic == "t"
        unsubscribe = asyncio.create_task(consumer.unsubscribe())
        await asyncio.sleep(0)
        consumer.subscribe("u")
        await unsubscribe
        assert consumer.subscription() == {"u"}
        assert (await consumer.getone()).topic == "u"
        await consumer.commit()
        assert cluster.group.committed["u", 0] == 1


async def test_a_handler_that_awaits_something_cancelled_has_failed() -> None:
    async with cluster_with_records() as cluster, member_for(cluster, "t") as consumer:
        with pytest.raises(HandlerFailed, match="it awaited something that was cancelled"):
            async with asyncio.timeout(10):
                await consumer.consume(await_something_cancelled, attempts=2, retry_backoff_ms=1)


async def test_dead_letters_that_await_something_cancelled_have_failed() -> None:
    async def fail(record: object) -> None:
        raise ValueError(record)

    async with cluster_with_records() as cluster, member_for(cluster, "t") as consumer:
        with pytest.raises(CancelledInside, match="it awaited something that was cancelled"):
            async with asyncio.timeout(10):
                await consumer.consume(fail, attempts=1, dead_letters=await_something_cancelled)


async def test_a_token_provider_that_awaits_something_cancelled_gives_no_token() -> None:
    async def token() -> str:
        await await_something_cancelled()
        return ""

    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token
    }  # fmt: skip
    async with FakeCluster() as cluster:
        with pytest.raises(ConnectionLost, match="it awaited something that was cancelled"):
            await Admin(cluster.address, **options).start()


@pytest.mark.parametrize("serializer", [None, "str"], ids=["plain", "with a serializer"])
async def test_records_that_raise_in_the_middle_of_send_many_leave_no_warning(
    cluster: FakeCluster, serializer: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    def records() -> Iterator[tuple[None, Any]]:
        yield None, b"a" if serializer is None else "a"
        raise ValueError("mine")

    async with Producer(cluster.address, value_serializer=serializer, linger_ms=0, **QUICK) as producer:
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.INVALID_RECORD))
        with pytest.raises(ValueError, match="mine"):
            await producer.send_many("t", records())
        await producer.flush()
        gc.collect()
        await producer.send_values("t", [b"b"])
    assert cluster.values("t") == [b"b"]
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
