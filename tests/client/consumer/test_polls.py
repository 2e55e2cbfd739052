"""Users that stall, lose their partitions, stop from elsewhere or fail in a listener."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from odradek.client import Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from odradek.client.errors import CommitFailed, ErrorCode
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, answer
from odradek.tests.support.waiting import until

from .test_membership import member_of

T0 = TopicPartition("t", 0)
UNKNOWN_MEMBER = answer(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
REBALANCE = answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


async def take(consumer: Consumer, count: int) -> list[int]:
    """The offsets of the records of one poll, at most `count`."""
    async with asyncio.timeout(10):
        while not (batches := await consumer.getmany(timeout_ms=50, max_records=count)):
            pass
    return [record.offset for record in batches[T0]]


class Listener:
    """Does nothing; tests override what they need."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None: ...

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None: ...


# -- A commit belongs to the generation whose records were returned ----------------------------------


async def test_a_commit_after_the_partitions_were_lost_fails_and_commits_nothing(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 50)
    async with member_of(cluster, enable_auto_commit=False) as consumer:
        assert len(await take(consumer, 50)) == 50
        cluster.on(ApiKey.HEARTBEAT, UNKNOWN_MEMBER)
        await until(lambda: not consumer.assignment() or cluster.group.generation > 1)
        await until(lambda: not cluster.steps[ApiKey.HEARTBEAT])
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(100)))
        for offsets in (None, {T0: 50}):
            with pytest.raises(CommitFailed, match="t-0 was taken away"):
                await consumer.commit(offsets)
        assert cluster.calls(ApiKey.OFFSET_COMMIT) == []
        assert await take(consumer, 50) == list(range(50)), "the next poll reads them again"
        await consumer.commit()
        assert cluster.group.committed == {("t", 0): 50}


async def test_a_commit_that_waited_while_its_partition_was_taken_away_fails(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    go_on = asyncio.Event()

    async def slow_commit(call: Call) -> Any:
        await go_on.wait()
        return await call.default()

    consumer = Consumer(bootstrap_servers=cluster.address, group_id="g", auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([T0])
        await take(consumer, 4)
        cluster.on(ApiKey.OFFSET_COMMIT, slow_commit)
        first = asyncio.ensure_future(consumer.commit({T0: 1}))
        await until(lambda: bool(cluster.calls(ApiKey.OFFSET_COMMIT)))
        second = asyncio.ensure_future(consumer.commit())
        await asyncio.sleep(0)
        consumer.assign([])
        consumer.assign([T0])
        go_on.set()
        await first
        with pytest.raises(CommitFailed, match="t-0 was taken away"):
            await second
        assert cluster.group.committed == {("t", 0): 1}


# -- Stalls ------------------------------------------------------------------------------------------


async def test_a_user_that_stalls_leaves_without_a_rebalance_and_returns_at_its_next_poll(
    cluster: FakeCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(cluster.log("t"), 10)
    async with member_of(cluster, max_poll_interval_ms=60, enable_auto_commit=False) as consumer:
        await take(consumer, 4)
        with caplog.at_level(logging.WARNING, "odradek.client"):
            await until(lambda: bool(cluster.group.left) and not consumer.assignment())
        assert "has not polled for 60 ms (max_poll_interval_ms)" in caplog.text
        joins = len(cluster.calls(ApiKey.JOIN_GROUP))
        with pytest.raises(CommitFailed):
            await consumer.commit()
        await asyncio.sleep(0.05)  # ten heartbeats: the member must not come back by itself
        assert len(cluster.calls(ApiKey.JOIN_GROUP)) == joins
        assert await take(consumer, 4) == [0, 1, 2, 3]


async def test_a_poll_that_waits_and_a_loop_that_takes_records_are_no_stalls(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 20)
    async with member_of(cluster, max_poll_interval_ms=60, heartbeat_interval_ms=5) as consumer:
        async for record in consumer:
            await asyncio.sleep(0.01)
            if record.offset == 19:
                break
        await consumer.getmany(timeout_ms=150)
        assert cluster.group.left == []


# -- Listeners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", ["on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"])
async def test_heartbeats_go_on_while_a_listener_runs(cluster: FakeCluster, slow: str) -> None:
    done: list[int] = []

    async def runs_long(_: frozenset[TopicPartition]) -> None:
        beats = len(cluster.calls(ApiKey.HEARTBEAT))
        if slow != "on_partitions_lost":  # after a loss the member is in no group
            await until(lambda: len(cluster.calls(ApiKey.HEARTBEAT)) > beats + 3)
        done.append(cluster.group.generation)

    listener = Listener()
    setattr(listener, slow, runs_long)
    consumer = member_of(cluster)
    consumer.subscribe("t", listener=listener)
    async with consumer:
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=5)
        cluster.on(ApiKey.HEARTBEAT, UNKNOWN_MEMBER if slow == "on_partitions_lost" else REBALANCE)
        async with asyncio.timeout(5):
            while not done:
                await consumer.getmany(timeout_ms=5)
    assert done[0] <= 2


async def test_a_listener_that_raises_is_raised_by_every_poll_until_the_topics_are_subscribed_again() -> None:
    class Broken(Listener):
        async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            raise ZeroDivisionError("a bug of the user's")

    async with FakeCluster({"t": 1}) as cluster:
        write(cluster.log("t"), 3)
        consumer = member_of(cluster)
        consumer.subscribe("t", listener=Broken())
        async with consumer:
            for _ in range(3):
                with pytest.raises(KafkaError, match="the rebalance listener raised ZeroDivisionError") as caught:
                    await consumer.getmany(timeout_ms=1_000)
                assert isinstance(caught.value.__cause__, ZeroDivisionError)
            await until(lambda: cluster.group.left == ["member-1"])
            consumer.subscribe("t")
            assert await take(consumer, 3) == [0, 1, 2]


async def test_a_listener_that_raises_while_the_consumer_stops_is_raised_by_stop(cluster: FakeCluster) -> None:
    heard = asyncio.Event()  # only then is it told that they go

    class Broken(Listener):
        async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            heard.set()

        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            raise ZeroDivisionError("a bug of the user's")

    consumer = member_of(cluster)
    consumer.subscribe("t", listener=Broken())
    await consumer.start()
    await heard.wait()
    with pytest.raises(KafkaError, match="a bug of the user's"):
        await consumer.stop()
    assert cluster.group.left == ["member-1"]


# -- Stop from another task, and two tasks that poll -------------------------------------------------


async def test_a_stop_by_another_task_ends_the_loop_and_its_record_is_not_committed(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    consumer = member_of(cluster)
    await consumer.start()
    works, goes_on = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def work() -> None:
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 6:
                works.set()
                await goes_on.wait()

    worker = asyncio.ensure_future(work())
    await works.wait()
    await consumer.stop()
    assert cluster.group.committed == {("t", 0): 6}
    goes_on.set()
    await worker
    assert seen == list(range(7))


async def test_two_tasks_that_poll_at_the_same_time_get_a_clear_error() -> None:
    async with FakeCluster({"t": 1}) as cluster, member_of(cluster) as consumer:
        waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=10_000))
        await asyncio.sleep(0)
        for poll in (consumer.getmany(), anext(consumer)):
            with pytest.raises(KafkaError, match="only one task may poll at a time"):
                await poll
        write(cluster.log("t"), 1)
        assert await waiting
        assert await consumer.getmany() == {}


# -- Auto-commit and the user's commits --------------------------------------------------------------


async def test_auto_commit_does_not_overtake_a_commit_of_the_users(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 50)
    async with member_of(cluster, auto_commit_interval_ms=3) as consumer:
        await take(consumer, 5)
        await consumer.commit({T0: 40})
        beats = len(cluster.calls(ApiKey.HEARTBEAT))
        await until(lambda: len(cluster.calls(ApiKey.HEARTBEAT)) > beats + 5)
        assert cluster.group.committed == {("t", 0): 40}
        consumer.seek(T0, 10)
        await take(consumer, 5)
        await take(consumer, 5)
        await until(lambda: cluster.group.committed == {("t", 0): 15})


async def test_a_note_of_a_commit_ends_with_the_assignment(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 10)
    consumer = Consumer(
        bootstrap_servers=cluster.address, group_id="g", auto_offset_reset="earliest", auto_commit_interval_ms=3
    )
    async with consumer:
        await consumer.commit({T0: 4})
        cluster.group.committed["t", 0] = 0  # another client sets the group back
        consumer.assign([T0])
        await take(consumer, 4)
        await consumer.getmany()
        await until(lambda: cluster.group.committed == {("t", 0): 4})
        assert (await consumer.committed(T0))[T0] == OffsetAndMetadata(4, leader_epoch=0)
