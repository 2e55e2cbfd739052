"""`stop(timeout_ms=...)` ends in time, wherever the broker stalls."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.errors import ClientStopped, RequestTimedOut
from odradek.protocol.apis import ApiKey
from odradek.tests.support.brokers.proxy import Proxy
from odradek.tests.support.clients.stopping import LIMIT_MS, in_time
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import keep_silent
from odradek.tests.support.waiting import until


async def asked(cluster: FakeCluster, key: ApiKey) -> None:
    await until(lambda: bool(cluster.calls(key)))


async def member_that_has_records(cluster: FakeCluster, **more: Any) -> Consumer:
    write(cluster.log("t"), 5)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 5}
    consumer = Consumer("t", bootstrap_servers=cluster.address, **options | more)
    await consumer.start()
    while not await consumer.getmany(timeout_ms=50):
        pass
    return consumer


CLASSIC_JOIN_POINTS = [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH]
JOIN_POINTS = [ApiKey.FIND_COORDINATOR, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_FETCH]


@pytest.mark.parametrize(
    ("protocol", "key"),
    [("classic", key) for key in CLASSIC_JOIN_POINTS] + [("consumer", key) for key in JOIN_POINTS],
)
async def test_a_consumer_that_joins_stops_in_time(cluster: FakeCluster, protocol: str, key: ApiKey) -> None:
    cluster.on(key, keep_silent)
    consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g", group_protocol=protocol)
    await consumer.start()
    await asked(cluster, key)
    cluster.on(ApiKey.LEAVE_GROUP, keep_silent)
    cluster.on(ApiKey.CONSUMER_GROUP_HEARTBEAT, *[keep_silent] * 10)
    await in_time(consumer.stop)


@pytest.mark.parametrize("key", [ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP], ids=lambda key: key.name)
async def test_a_member_stops_in_time(cluster: FakeCluster, key: ApiKey) -> None:
    consumer = await member_that_has_records(cluster)
    cluster.on(key, *[keep_silent] * 10)
    await in_time(consumer.stop)
    assert cluster.calls(key)


GROUP_APIS = (ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP, ApiKey.FIND_COORDINATOR)


@pytest.mark.parametrize("call", ["commit", "commit of offsets", "unsubscribe"])
async def test_a_call_of_a_member_ends_in_time_at_a_silent_coordinator(cluster: FakeCluster, call: str) -> None:
    consumer = await member_that_has_records(cluster, default_api_timeout_ms=LIMIT_MS)
    for key in GROUP_APIS:
        cluster.on(key, *[keep_silent] * 20)

    async def called(timeout_ms: float) -> None:
        with suppress(RequestTimedOut):
            if call == "unsubscribe":
                await consumer.unsubscribe()
            else:
                await consumer.commit({TopicPartition("t", 0): 3} if call == "commit of offsets" else None)

    await in_time(called)
    await consumer.stop(timeout_ms=LIMIT_MS)


async def test_a_leave_does_not_wait_behind_a_join(cluster: FakeCluster) -> None:
    never = asyncio.Event()

    async def wait_for_other_members(_: object) -> None:
        await never.wait()

    cluster.on(ApiKey.SYNC_GROUP, wait_for_other_members)
    consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g", group_protocol="classic")
    await consumer.start()
    await asked(cluster, ApiKey.SYNC_GROUP)
    await asyncio.wait_for(consumer.stop(), 5)
    assert cluster.group.left == ["member-1"]


async def asked_again(cluster: FakeCluster, key: ApiKey, calls: int) -> None:
    await until(lambda: len(cluster.calls(key)) != calls)


SEND_POINTS = [ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE]


@pytest.mark.parametrize("key", SEND_POINTS, ids=lambda key: key.name)
async def test_a_producer_that_sends_stops_in_time_and_its_callers_learn_why(cluster: FakeCluster, key: ApiKey) -> None:
    producer = Producer(cluster.address)
    await producer.start()
    calls = len(cluster.calls(key))
    cluster.on(key, *[keep_silent] * 10)
    sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
    await asked_again(cluster, key, calls)
    await in_time(producer.stop)
    with pytest.raises(ClientStopped):
        await sending


@pytest.mark.parametrize("key", [ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID], ids=lambda key: key.name)
async def test_a_transactional_producer_stops_in_time_while_it_starts(cluster: FakeCluster, key: ApiKey) -> None:
    cluster.on(key, *[keep_silent] * 10)
    producer = Producer(cluster.address, transactional_id="x")
    starting = asyncio.create_task(producer.start())
    await asked(cluster, key)
    await in_time(producer.stop)
    with pytest.raises(ClientStopped):
        await starting


@pytest.mark.parametrize("call", ["partitions_for", "end_offsets", "committed", "position"])
async def test_a_consumer_stops_in_time_beside_a_call_that_waits(call: str) -> None:
    place = TopicPartition("t", 0)
    waits_for = {"end_offsets": ApiKey.LIST_OFFSETS, "committed": ApiKey.OFFSET_FETCH, "position": ApiKey.LIST_OFFSETS}
    key = waits_for.get(call, ApiKey.METADATA)
    async with FakeCluster({"t": 1, "u": 1}) as cluster:
        consumer = Consumer(bootstrap_servers=cluster.address, group_id="g")
        await consumer.start()
        calls = len(cluster.calls(key))
        cluster.on(key, *[keep_silent] * 10)
        consumer.assign([place])
        arguments: dict[str, Any] = {"partitions_for": "u", "end_offsets": [place]}
        waiting = asyncio.create_task(getattr(consumer, call)(arguments.get(call, place)))
        await asked_again(cluster, key, calls)
        await in_time(consumer.stop)
        with pytest.raises(ClientStopped):
            await waiting


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_a_producer_stops_in_time_and_holds_no_more_than_its_buffer(acks: Any) -> None:
    buffer_memory = 1 << 23
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        cluster.nodes[1].port = proxy.port
        options: dict[str, Any] = {"acks": acks, "enable_idempotence": acks == "all", "linger_ms": 0}
        producer = Producer(f"127.0.0.1:{proxy.port}", buffer_memory=buffer_memory, max_block_ms=200, **options)
        await producer.start()
        await producer.send_and_wait("t", b"x")
        proxy.stall()
        tracemalloc.start()
        try:
            with pytest.raises(Exception, match="no room for a record"):
                for _ in range(1 << 8):
                    await asyncio.sleep(0)
                    (await producer.send("t", b"x" * (1 << 17))).add_done_callback(lambda f: f.exception())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # What the system's own buffers have taken is not counted.
        assert peak < 1.25 * buffer_memory
        await in_time(producer.stop)


async def test_a_consumer_behind_a_half_open_socket_stops_in_time() -> None:
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        cluster.nodes[1].port = proxy.port
        consumer = await member_that_has_records(cluster)
        proxy.stall()
        await in_time(consumer.stop)


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA], ids=lambda key: key.name)
async def test_a_consumer_that_waits_for_a_leader_stops_in_time(cluster: FakeCluster, key: ApiKey) -> None:
    consumer = Consumer("t", bootstrap_servers=cluster.address, metadata_max_age_ms=5)
    await consumer.start()
    cluster.on(key, *[keep_silent] * 10)
    calls = len(cluster.calls(key))
    await asked_again(cluster, key, calls)
    await in_time(consumer.stop)


async def test_a_consumer_in_a_check_of_its_position_stops_in_time(cluster: FakeCluster) -> None:
    consumer = await member_that_has_records(cluster)
    cluster.on(ApiKey.OFFSET_FOR_LEADER_EPOCH, keep_silent)
    cluster.log("t").truncate(5)
    await asked(cluster, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    await in_time(consumer.stop)


async def test_a_consumer_that_connects_to_a_silent_port_stops_in_time() -> None:
    async with FakeCluster({"t": 1}) as cluster, Proxy(cluster.nodes[1].port) as proxy:
        consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g")
        await consumer.start()
        await asked(cluster, ApiKey.FIND_COORDINATOR)
        proxy.stall()
        cluster.nodes[1].port = proxy.port  # the next connections go there
        for writer in list(cluster.nodes[1].writers):
            writer.transport.abort()
        await asyncio.sleep(0.01)
        await in_time(consumer.stop)


@pytest.mark.parametrize("method", ["on_partitions_assigned", "on_partitions_revoked"])
async def test_a_consumer_whose_listener_does_not_end_stops_in_time(cluster: FakeCluster, method: str) -> None:
    """It swallows its cancellation, too."""
    called, released = asyncio.Event(), asyncio.Event()

    class Stuck:
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await self.wait("on_partitions_revoked")

        async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            await self.wait("on_partitions_assigned")

        async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
            return

        async def wait(self, name: str) -> None:
            while name == method and not released.is_set():
                called.set()
                with suppress(asyncio.CancelledError):
                    await released.wait()

    options: dict[str, Any] = {"group_id": "g", "heartbeat_interval_ms": 5}
    consumer = Consumer(bootstrap_servers=cluster.address, **options)
    consumer.subscribe("t", listener=Stuck())
    await consumer.start()
    async with asyncio.timeout(10):
        while not (called.is_set() or (consumer.assignment() and method == "on_partitions_revoked")):
            await consumer.getmany(timeout_ms=5)
    await in_time(consumer.stop)
    released.set()
    await asyncio.sleep(0)
