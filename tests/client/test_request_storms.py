"""An error that does not end costs the cluster a request a pause, and never a storm of requests.

Retriable errors are answered for ever, at every request of a producer and of a consumer, and the requests of each API
are counted. So are those of clients whose partition has no leader. The codes are those that Kafka answers with, and a
sample.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from odradek.client import Consumer, KafkaError, Producer, ShareConsumer
from odradek.client.core.metadata import NO_LEADER
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.metadata import MetadataResponseBroker
from odradek.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from odradek.protocol.messages.share_fetch import ShareFetchResponse
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from odradek.tests.client.consumer.test_error_table import ANSWERS, sample, spoil
from odradek.tests.client.producer.test_every_error import SAMPLE, error_step
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, Step, do_it

PAUSE_MS = 50
LASTS_S = 0.3
# The requests that a client makes without a pause: at its start, and those that one attempt is made of.
AT_ONCE = 12
MANY = 5_000
PRODUCED = [ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.METADATA]
OPTIONS: dict[str, Any] = {"retry_backoff_ms": PAUSE_MS, "retry_backoff_max_ms": PAUSE_MS}

Load = Callable[[FakeCluster], Awaitable[None]]
Trouble = Callable[[FakeCluster], Awaitable[None]]


async def produce(cluster: FakeCluster) -> None:
    """Send to both partitions, and wait for what does not come."""
    async with asyncio.timeout(LASTS_S):
        producer = Producer(cluster.address, linger_ms=0, **OPTIONS)
        try:
            await producer.start()
            await asyncio.gather(*(producer.send_and_wait("t", b"x", partition=number) for number in range(2)))
            await asyncio.sleep(LASTS_S)
        finally:
            await producer.stop(timeout_ms=0)


async def consume(cluster: FakeCluster, kind: Callable[..., Any] = Consumer, **more: Any) -> None:
    """Poll as a member of a group, also after errors."""
    given = {"auto_offset_reset": "earliest"} if kind is Consumer else {}
    consumer = kind("t", bootstrap_servers=cluster.address, group_id="g", **OPTIONS | given | more)
    async with asyncio.timeout(LASTS_S):
        try:
            await consumer.start()
            while True:
                try:
                    await consumer.getmany(timeout_ms=PAUSE_MS)
                except KafkaError:
                    await asyncio.sleep(PAUSE_MS / 1000)
        finally:
            await consumer.stop(timeout_ms=0)


async def storm(load: Load, trouble: Trouble) -> tuple[str, int] | None:
    """Return the API that was asked too often and how often, None if there is none."""
    async with FakeCluster({"t": 2}, nodes=2) as cluster:
        cluster.group.interval_ms = cluster.share_group.interval_ms = PAUSE_MS
        cluster.share_group.wait_s = PAUSE_MS / 1000
        await trouble(cluster)
        began = time.monotonic()
        with suppress(TimeoutError, KafkaError):
            await load(cluster)
        pauses = (time.monotonic() - began) * 1000 / PAUSE_MS
        asked = Counter(call.key for node in cluster.nodes.values() for call in node.calls)
        return next(((key.name, count) for key, count in asked.items() if count > AT_ONCE + 2 * pauses), None)


async def storms(load: Load, troubles: dict[str, Trouble]) -> dict[str, Any]:
    """Return what was asked too often, by trouble."""
    found = await asyncio.gather(*(storm(load, each) for each in troubles.values()))
    return {name: each for name, each in zip(troubles, found, strict=True) if each}


def errors(key: ApiKey, codes: list[ErrorCode], step: Callable[[ErrorCode], Step]) -> dict[str, Trouble]:
    """Return the trouble of each retriable error, for ever at one API."""

    def trouble(code: ErrorCode) -> Trouble:
        async def answer_with_it(cluster: FakeCluster) -> None:
            # A client begins with metadata that it is given.
            cluster.on(key, *([do_it] if key is ApiKey.METADATA else []), *[step(code)] * MANY)

        return answer_with_it

    return {f"{key.name} {code.name}": trouble(code) for code in codes if code.retriable}


async def _no_leader(cluster: FakeCluster) -> None:
    cluster.log("t", 1).leader = NO_LEADER


async def _leader_is_away(cluster: FakeCluster) -> None:
    async def with_both_nodes(call: Call) -> Any:
        response = await call.default()
        nodes = cluster.nodes.values()
        response.brokers = [MetadataResponseBroker(each.node_id, "127.0.0.1", each.port) for each in nodes]
        return response

    cluster.on(ApiKey.METADATA, *[with_both_nodes] * MANY)
    await cluster.nodes[2].stop()


async def _old_leader_is_named(cluster: FakeCluster) -> None:
    """Metadata name the wrong leader for ever."""

    async def with_the_old_leader(call: Call) -> Any:
        response = await call.default()
        for topic in response.topics:
            for each in topic.partitions:
                each.leader_id = 1
        return response

    cluster.on(ApiKey.METADATA, *[with_the_old_leader] * MANY)


LEADERS: dict[str, Trouble] = {
    "no leader": _no_leader,
    "leader is away": _leader_is_away,
    "old leader is named": _old_leader_is_named,
}


async def test_a_producer_pauses_between_attempts() -> None:
    for key in PRODUCED:
        step = spoil if key is ApiKey.METADATA else partial(error_step, key)
        assert await storms(produce, errors(key, SAMPLE, step)) == {}


async def test_a_consumer_pauses_between_attempts() -> None:
    for key in ANSWERS:
        assert await storms(consume, errors(key, sample(key), spoil)) == {}


async def test_a_leader_that_cannot_be_asked_is_looked_for_with_pauses() -> None:
    assert await storms(produce, LEADERS) == {}
    assert await storms(consume, LEADERS) == {}


def at_every(key: ApiKey, response: Callable[[ErrorCode], Any], *codes: ErrorCode) -> dict[str, Trouble]:
    """Return the trouble of each code, for ever at every request of an API that is not the first one."""

    def trouble(code: ErrorCode) -> Trouble:
        async def answer_with_it(cluster: FakeCluster) -> None:
            async def joins_alone(call: Call) -> Any:
                joins = getattr(call.request, "member_epoch", 0) == 0 and key is not ApiKey.SHARE_FETCH
                return await call.default() if joins else response(code)

            cluster.on(key, *[joins_alone] * MANY)

        return answer_with_it

    return {f"{key.name} {code.name}": trouble(code) for code in codes}


async def test_a_member_of_a_newer_group_pauses_between_attempts() -> None:
    codes = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    consumer = partial(consume, group_protocol="consumer")
    troubles = at_every(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda code: ConsumerGroupHeartbeatResponse(error_code=code), *codes
    )
    assert await storms(consumer, troubles) == {}
    worker = partial(consume, kind=ShareConsumer, fetch_max_wait_ms=PAUSE_MS)
    troubles = at_every(ApiKey.SHARE_GROUP_HEARTBEAT, lambda code: ShareGroupHeartbeatResponse(error_code=code), *codes)
    assert await storms(worker, troubles) == {}
    lost = ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (
        await storms(
            worker,
            at_every(ApiKey.SHARE_FETCH, lambda code: ShareFetchResponse(error_code=code), *lost)
            | at_every(ApiKey.SHARE_ACKNOWLEDGE, lambda code: ShareAcknowledgeResponse(error_code=code), *lost),
        )
        == {}
    )
