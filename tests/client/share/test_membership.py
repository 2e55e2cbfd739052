"""A member of a share group: how it joins, stalls, and leaves, whatever the coordinator answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client import KafkaError
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from odradek.tests.client.share.workers import take, worker
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import Call, answer, do_and_drop
from odradek.tests.support.waiting import until

HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT


async def test_a_topic_that_is_denied_is_told_and_the_member_goes_on(cluster: FakeCluster) -> None:
    denied = ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="not t")
    cluster.on(HEARTBEAT, answer(denied))
    write(cluster.log("t"), 3)
    async with worker(cluster) as consumer:
        with pytest.raises(KafkaError, match="not t"):
            await consumer.getmany(timeout_ms=10_000)
        assert len(await take(consumer, 3)) == 3


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_a_member_that_is_fenced_or_not_answered_joins_again(code: ErrorCode) -> None:
    async with FakeCluster({"t": 1}) as cluster, worker(cluster) as consumer:
        await consumer.getmany(timeout_ms=200)
        cluster.on(HEARTBEAT, answer(ShareGroupHeartbeatResponse(error_code=code)))
        async with asyncio.timeout(20):
            while cluster.steps[HEARTBEAT]:
                await consumer.getmany(timeout_ms=5)
        write(cluster.log("t"), 3)
        assert len(await take(consumer, 3)) == 3


async def test_a_member_whose_join_was_not_answered_leaves_all_the_same(cluster: FakeCluster) -> None:
    cluster.on(HEARTBEAT, do_and_drop)
    async with worker(cluster, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000):
        await until(lambda: bool(cluster.share_group.epoch))
    joined = cluster.calls(HEARTBEAT)[0].request.member_id
    assert cluster.share_group.left == [joined], "its partitions would wait for the end of its session"


async def test_a_member_that_stops_while_the_coordinator_moves_leaves_all_the_same(cluster: FakeCluster) -> None:
    rejections = iter((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR))

    async def beat(call: Call) -> Any:
        cluster.on(HEARTBEAT, beat)
        code = next(rejections, None) if call.request.member_epoch < 0 else None
        return await call.default() if code is None else ShareGroupHeartbeatResponse(error_code=code)

    cluster.on(HEARTBEAT, beat)
    write(cluster.log("t"), 1)
    async with worker(cluster) as consumer:
        await take(consumer, 1)
    joined = cluster.calls(HEARTBEAT)[0].request.member_id
    assert cluster.share_group.left == [joined]


async def test_a_user_that_does_not_poll_leaves_and_joins_when_it_does(cluster: FakeCluster) -> None:
    write(cluster.log("t"), 3)
    async with worker(cluster, max_poll_interval_ms=50) as consumer:
        await take(consumer, 1)
        await until(lambda: bool(cluster.share_group.left))
        assert len(await take(consumer, 2)) == 2


async def test_a_user_who_waits_in_a_poll_for_longer_than_the_interval_stays_a_member() -> None:
    async with FakeCluster({"t": 1}) as cluster, worker(cluster, max_poll_interval_ms=50) as consumer:
        waiting = asyncio.create_task(consumer.getone())
        # at an interval of 5 ms
        await until(lambda: len(cluster.calls(HEARTBEAT)) >= 30)
        assert not cluster.share_group.left
        write(cluster.log("t"), 1)
        assert (await waiting).offset == 0


async def test_a_stop_while_a_stalled_member_leaves_does_not_forget_to_leave(cluster: FakeCluster) -> None:
    leaving: list[Call] = []
    handle = cluster.defaults[HEARTBEAT]

    async def busy(call: Call) -> Any:
        if call.request.member_epoch >= 0:
            return await handle(call)
        leaving.append(call)
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    write(cluster.log("t"), 1)
    cluster.defaults[HEARTBEAT] = busy
    pauses = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with worker(cluster, max_poll_interval_ms=50, **pauses) as consumer:
        await take(consumer, 1)
        # the third attempt comes after the pause
        await until(lambda: len(leaving) >= 2)
        cluster.defaults[HEARTBEAT] = handle
    assert cluster.share_group.left == [leaving[0].request.member_id]


async def test_another_subscription_is_told_to_the_group() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, worker(cluster) as consumer:
        write(cluster.log("t"), 1)
        write(cluster.log("u"), 1)
        assert (await take(consumer, 1))[0].topic == "t"
        consumer.subscribe("u")
        assert consumer.subscription() == {"u"}
        assert (await take(consumer, 1))[0].topic == "u"
