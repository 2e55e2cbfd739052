"""Answers that are no answer: items are left out, named otherwise or impossible, and batches are cut off.

What is left out is asked for again after a pause, and counts neither as done nor as absent. What nobody asked for
changes nothing. No client repeats a request at once because of them, and none breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from odradek.client import LATEST, Consumer, Producer, SimpleConsumer, TopicPartition, read_topic
from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import client_options
from odradek.client.core.metadata import ClusterView
from odradek.client.core.option_values import bootstrap_addresses
from odradek.client.core.security import PLAINTEXT
from odradek.client.errors import BadResponse, CorruptRecords, KafkaError, RequestTimedOut
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_offsets import ListOffsetsTopicResponse
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from odradek.protocol.shapes.answers import rejection
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.fake_transactions import committed
from odradek.tests.support.fakes.wire import Call, Step, answer
from odradek.tests.support.waiting import until

T0 = TopicPartition("t", 0)
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}
SLOW: dict[str, Any] = {"retry_backoff_ms": 300, "retry_backoff_max_ms": 300}


async def leave_out(call: Call) -> Any:
    """Answer without an item, and do nothing."""
    response = message(call.key, "response")()
    if call.key is ApiKey.OFFSET_FETCH:
        response = await call.default()
        for group in response.groups:
            group.topics = []
    return response


def consumer_of(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **QUICK, **options}
    return Consumer(*topics, bootstrap_servers=cluster.address, **options)


async def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += [each.offset for some in (await consumer.getmany(timeout_ms=50)).values() for each in some]
    return found


# -- Left out


@pytest.mark.parametrize("key", [ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT], ids=lambda key: key.name)
async def test_a_committed_offset_that_is_left_out_is_neither_none_nor_committed(key: ApiKey) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10, per_batch=1)
        for first, last in ((0, 5), (5, 10)):
            cluster.on(key, *[leave_out] * 2)
            async with consumer_of(cluster, group_id="g", max_poll_records=5) as consumer:
                consumer.assign([T0])
                assert await read(consumer, 5) == list(range(first, last))
                await consumer.commit()
            assert cluster.group.committed == {("t", 0): last}
            assert not cluster.steps[key]


async def test_committed_offsets_are_those_of_the_topics_that_were_asked_for() -> None:
    async def lose_sight(call: Call) -> Any:
        response = await call.default()
        topics, cluster.topics = cluster.topics, {}
        await view.refresh()
        cluster.topics = topics
        return response

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, group_id="g", auto_offset_reset="latest") as one:
        view = one._running().cluster
        write(cluster.log("t"), 10, per_batch=1)
        cluster.group.committed["t", 0] = 4
        view.watch(["t"])
        await view.refresh()
        cluster.on(ApiKey.OFFSET_FETCH, lose_sight)
        one.assign([T0])
        assert await read(one, 6) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("key", [ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH], ids=lambda key: key.name)
async def test_a_position_that_is_left_out_is_asked_for_after_a_pause(key: ApiKey) -> None:
    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t", **SLOW) as consumer:
        write(cluster.log("t"), 10, per_batch=1)
        if key is ApiKey.OFFSET_FOR_LEADER_EPOCH:
            await read(consumer, 10)
            cluster.log("t").truncate(10)
            write(cluster.log("t"), 10, per_batch=1)
            await consumer._running().cluster.refresh()
        cluster.on(key, *[leave_out] * 1000)
        before = len(cluster.calls(key))
        async with asyncio.timeout(10):
            while len(cluster.calls(key)) == before:
                await consumer.getmany(timeout_ms=5)
        await consumer.getmany(timeout_ms=40)
        assert len(cluster.calls(key)) == before + 1
        cluster.steps[key].clear()
        assert len(await read(consumer, 10)) == 10


@pytest.mark.parametrize(
    ("key", "version"),
    [(ApiKey.TXN_OFFSET_COMMIT, 1), (ApiKey.TXN_OFFSET_COMMIT, 2), (ApiKey.ADD_PARTITIONS_TO_TXN, 1)],
    ids=lambda each: getattr(each, "name", str(each)),
)
async def test_a_transaction_goes_on_when_all_of_it_is_taken(key: ApiKey, version: int) -> None:
    async with FakeCluster({"t": 1, "in": 1}) as cluster:
        cluster.transactions.version = version
        async with Producer(cluster.address, transactional_id="x", **QUICK) as producer:
            cluster.on(key, leave_out)
            async with producer.transaction():
                await producer.send("t", b"x", partition=0)
                await producer.send_offsets({TopicPartition("in", 0): 7}, "g")
        assert committed(cluster.log("t").batches) == [b"x"]
        assert cluster.group.committed == {("in", 0): 7}


async def test_a_simple_consumer_is_told_what_was_left_out() -> None:
    async with FakeCluster({"t": 1}) as cluster, SimpleConsumer(cluster.address) as consumer:
        for key, call in (
            (ApiKey.OFFSET_COMMIT, lambda: consumer.commit_offsets("g", {T0: 1})),
            (ApiKey.OFFSET_FETCH, lambda: consumer.fetch_offsets("g", [T0])),
            (ApiKey.LIST_OFFSETS, lambda: consumer.offsets_before("t", 0)),
            (ApiKey.FETCH, lambda: consumer.fetch("t", 0, 0)),
        ):
            cluster.on(key, answer(message(key, "response")()))
            with pytest.raises(BadResponse, match="the broker left "):
                await call()


async def test_an_offset_that_is_left_out_is_asked_for_again_without_an_event_loop() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(ApiKey.LIST_OFFSETS, leave_out)
        brokers = Brokers(client_options(bootstrap_addresses(cluster.address), PLAINTEXT, {"retry.backoff.ms": 1}))
        ends = await asyncio.to_thread(brokers.retry, lambda: brokers.offsets([T0], LATEST))
        assert ends == {T0: 0}


# -- Not asked for, and impossible


def changed(cluster: FakeCluster, key: ApiKey, change: Callable[[Any], object]) -> Step:
    """Give the default answer with a change."""

    async def step(call: Call) -> Any:
        response = await cluster.defaults[key](call)
        change(response)
        return response

    return step


async def test_offsets_of_other_partitions_change_nothing() -> None:
    def add_another(response: Any) -> None:
        response.topics.append(ListOffsetsTopicResponse("other", response.topics[0].partitions))

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t") as consumer:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.LIST_OFFSETS, *[changed(cluster, ApiKey.LIST_OFFSETS, add_another)] * 2)
        assert await read(consumer, 10) == list(range(10))
        assert await consumer.end_offsets([T0]) == {T0: 10}
        assert not cluster.steps[ApiKey.LIST_OFFSETS]


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_a_partition_that_cannot_be_is_no_metadata(number: int) -> None:
    topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=number)])
    with pytest.raises(BadResponse, match="topic 't' name a partition that cannot be"):
        ClusterView().updated(MetadataResponse(topics=[topic]), whole=True)


async def test_an_end_of_the_log_that_is_nowhere_is_asked_for_after_a_pause() -> None:
    def deny(response: Any) -> None:
        response.topics[0].partitions[0].offset = -1

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t", **SLOW) as consumer:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.LIST_OFFSETS, *[changed(cluster, ApiKey.LIST_OFFSETS, deny)] * 100)
        await until(lambda: bool(cluster.calls(ApiKey.LIST_OFFSETS)))
        await consumer.getmany(timeout_ms=40)
        assert len(cluster.calls(ApiKey.LIST_OFFSETS)) == 1
        cluster.steps[ApiKey.LIST_OFFSETS].clear()
        assert await read(consumer, 10) == list(range(10))


async def test_the_begin_of_the_log_is_found_at_a_broker_of_kafka_0_10_0() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10)
        cluster.versions[ApiKey.LIST_OFFSETS] = (0, 0)
        async with consumer_of(cluster, "t") as consumer:
            assert await read(consumer, 10) == list(range(10))
            assert await consumer.end_offsets([T0]) == {T0: 10}


async def test_a_batch_that_is_always_cut_off_is_raised_and_not_fetched_at_once_again() -> None:
    def cut(response: Any) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                each.records = bytes(each.records)[:61] if each.records else None

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t") as consumer:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.FETCH, *[changed(cluster, ApiKey.FETCH, cut)] * 1000)
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="no whole batch of records: seek past it, or raise max_partition"):
                await consumer.getmany(timeout_ms=10_000)
        assert await consumer.position(T0) == 0
        assert len(cluster.calls(ApiKey.FETCH)) <= 3
        cluster.steps[ApiKey.FETCH].clear()
        with suppress(CorruptRecords):  # one that has come meanwhile
            await consumer.getmany(timeout_ms=0)
        assert await read(consumer, 10) == list(range(10))


async def test_an_error_of_a_reset_waits_for_the_next_poll() -> None:
    async def refuse(call: Call) -> Any:
        return rejection(call.request, call.version, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t") as consumer:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.LIST_OFFSETS, *[refuse] * 1000)
        for asked in (1, 2):
            await until(lambda: len(cluster.calls(ApiKey.LIST_OFFSETS)) >= asked)  # noqa: B023
            await asyncio.sleep(0.02)
            assert len(cluster.calls(ApiKey.LIST_OFFSETS)) == asked
            with pytest.raises(KafkaError) as caught:
                await consumer.getmany(timeout_ms=10_000)
            assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        cluster.steps[ApiKey.LIST_OFFSETS].clear()
        with suppress(KafkaError):
            await consumer.getmany(timeout_ms=0)
        assert await read(consumer, 10) == list(range(10))


@pytest.mark.parametrize("what", ["no partition", "no records", "another partition"])
async def test_a_leader_that_answers_at_once_with_nothing_is_asked_after_pauses(what: str) -> None:
    def empty(response: Any) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                each.records = each.records if what == "another partition" else None
                each.partition_index += what == "another partition"
        response.responses = [] if what == "no partition" else response.responses

    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t", **SLOW) as consumer:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.FETCH, *[changed(cluster, ApiKey.FETCH, empty)] * 10_000)
        await until(lambda: len(cluster.calls(ApiKey.FETCH)) >= 11)
        await consumer.getmany(timeout_ms=40)
        assert len(cluster.calls(ApiKey.FETCH)) <= 12
        cluster.steps[ApiKey.FETCH].clear()
        cluster.reads.offers_sessions = False  # the session believes that it has told of the records
        cluster.reads.sessions.clear()
        assert await read(consumer, 10) == list(range(10))


async def test_a_leader_that_may_not_wait_for_records_is_asked_without_pauses() -> None:
    options = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000, "fetch_min_bytes": 0}
    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t", **options) as consumer:
        await until(lambda: len(cluster.calls(ApiKey.FETCH)) >= 13)
        write(cluster.log("t"), 10)
        assert await read(consumer, 10) == list(range(10))


async def test_records_of_which_the_user_has_sought_away_are_not_nothing() -> None:
    async def seek_away(call: Call) -> Any:
        consumer.seek(T0, 0)
        return await call.default()

    options = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.FETCH, *[seek_away] * 12)
        async with consumer_of(cluster, "t", **options) as consumer:
            await until(lambda: not cluster.steps[ApiKey.FETCH])
            assert await read(consumer, 10) == list(range(10))


async def test_a_table_of_a_topic_whose_leader_says_nothing_ends_in_time() -> None:
    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 10)
        cluster.on(ApiKey.FETCH, *[answer(message(ApiKey.FETCH, "response")())] * 1000)
        with pytest.raises(RequestTimedOut, match="nothing of t-0 came within 200 ms"):
            await read_topic("t", bootstrap_servers=cluster.address, request_timeout_ms=100)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED),
        (ApiKey.JOIN_GROUP, ErrorCode.UNKNOWN_MEMBER_ID),
        (ApiKey.SYNC_GROUP, ErrorCode.ILLEGAL_GENERATION),
        (ApiKey.SYNC_GROUP, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
    ids=lambda each: each.name,
)
async def test_a_member_that_is_sent_away_again_and_again_joins_after_pauses(key: ApiKey, code: ErrorCode) -> None:
    async def refuse(call: Call) -> Any:
        return rejection(call.request, call.version, code)

    options: dict[str, Any] = {"group_id": "g", "group_protocol": "classic", **SLOW}
    async with FakeCluster({"t": 1}) as cluster, consumer_of(cluster, "t", **options) as consumer:
        write(cluster.log("t"), 10)
        cluster.on(key, *[refuse] * 10_000)
        polling = asyncio.ensure_future(read(consumer, 10))
        await until(lambda: len(cluster.calls(key)) >= 3)
        await asyncio.sleep(0.04)
        assert len(cluster.calls(key)) == 3
        cluster.steps[key].clear()
        assert await polling == list(range(10))
