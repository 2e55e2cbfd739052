"""`stop(timeout_ms=...)` ends in time, wherever the broker stalls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.client import Consumer, Producer
from odradek.protocol.apis import ApiKey
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.fake_cluster import FakeCluster
from odradek.tests.support.proxy import Proxy
from odradek.tests.support.wire import keep_silent

LIMIT_MS = 50


async def in_time(stop: Callable[..., Awaitable[None]]) -> None:
    """Stop within the limit; the rest is for a busy machine, far below any time-out of the client's."""
    async with asyncio.timeout(5):
        await stop(timeout_ms=LIMIT_MS)


async def asked(cluster: FakeCluster, key: ApiKey) -> None:
    async with asyncio.timeout(10):
        while not cluster.calls(key):
            await asyncio.sleep(0.001)


async def member_that_has_records(cluster: FakeCluster) -> Consumer:
    cluster.log("t").write(encode_batch([Record(-1, 7, None, b"x")] * 5))
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 5}
    consumer = Consumer("t", bootstrap_servers=cluster.address, **options)
    await consumer.start()
    while not await consumer.getmany(timeout_ms=50):
        pass
    return consumer


JOIN_POINTS = [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH]


@pytest.mark.parametrize("key", JOIN_POINTS, ids=lambda key: key.name)
async def test_a_consumer_that_joins_stops_in_time(key: ApiKey) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(key, keep_silent)
        consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g")
        await consumer.start()
        await asked(cluster, key)
        cluster.on(ApiKey.LEAVE_GROUP, keep_silent)
        await in_time(consumer.stop)


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP], ids=lambda key: key.name)
async def test_a_member_stops_in_time(key: ApiKey) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        consumer = await member_that_has_records(cluster)
        cluster.on(key, *[keep_silent] * 10)
        await in_time(consumer.stop)
        assert cluster.calls(key)


async def test_a_leave_does_not_wait_behind_a_join() -> None:
    never = asyncio.Event()

    async def wait_for_other_members(_: object) -> None:
        await never.wait()

    async with FakeCluster({"t": 1}) as cluster:
        cluster.on(ApiKey.SYNC_GROUP, wait_for_other_members)
        consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g")
        await consumer.start()
        await asked(cluster, ApiKey.SYNC_GROUP)
        await asyncio.wait_for(consumer.stop(), 5)
        assert cluster.group.left == ["member-1"]


@pytest.mark.parametrize("acks", [0, "all"])
async def test_a_producer_stops_in_time_and_holds_no_more_than_its_buffer(acks: Any) -> None:
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        cluster.nodes[1].port = proxy.port
        options: dict[str, Any] = {"acks": acks, "enable_idempotence": acks != 0, "linger_ms": 0}
        producer = Producer(f"127.0.0.1:{proxy.port}", buffer_memory=1 << 23, max_block_ms=200, **options)
        await producer.start()
        await producer.send_and_wait("t", b"x")
        proxy.stall()
        taken = 0
        with pytest.raises(Exception, match="no room for a record"):
            while taken < 1 << 25:
                await asyncio.sleep(0)
                (await producer.send("t", b"x" * (1 << 17))).add_done_callback(lambda f: f.exception())
                taken += 1 << 17
        # The kernel's buffers take some megabytes besides.
        assert taken < (1 << 23) + (1 << 23)
        await in_time(producer.stop)


async def test_a_consumer_behind_a_half_open_socket_stops_in_time() -> None:
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        cluster.nodes[1].port = proxy.port
        consumer = await member_that_has_records(cluster)
        proxy.stall()
        await in_time(consumer.stop)
