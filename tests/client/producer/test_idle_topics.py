"""Topics that a producer has stopped to write to leave its metadata, and are not made again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client import Producer
from odradek.client.errors import DeliveryTimedOut
from odradek.client.producer import session
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.waiting import until


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0, "metadata_max_age_ms": 5}
    return Producer(cluster.address, **quick | options)


async def asked(cluster: FakeCluster, times: int = 3) -> list[set[str]]:
    """Wait for so many more requests for metadata, and return which topics they name."""
    before = len(cluster.calls(ApiKey.METADATA))
    await until(lambda: len(cluster.calls(ApiKey.METADATA)) >= before + times)
    return [{topic.name for topic in call.request.topics} for call in cluster.calls(ApiKey.METADATA)[before:]]


async def test_a_deleted_topic_is_not_made_again_and_asked_for_no_longer() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        cluster.auto_create = True
        await producer.send_and_wait("t", b"x")
        await producer.send_and_wait("other", b"x")
        cluster.delete("t")
        await asked(cluster)
        assert await asked(cluster) == [{"other"}] * 3
        assert cluster.topics.keys() == {"other"}


async def test_a_record_for_a_deleted_topic_makes_it_again() -> None:
    """Also one that was sent before the producer had heard of the deletion."""
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer, asyncio.timeout(10):
        cluster.auto_create = True
        await producer.send_and_wait("t", b"1")
        cluster.delete("t")
        await producer.send_and_wait("t", b"2")
        cluster.delete("t")
        await asked(cluster)
        await producer.send_and_wait("t", b"3")
        assert cluster.values("t") == [b"3"]


async def test_a_record_for_a_deleted_topic_that_no_broker_makes_expires_and_says_why() -> None:
    options = {"delivery_timeout_ms": 60, "request_timeout_ms": 50}
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, **options) as producer, asyncio.timeout(10):
        await producer.send_and_wait("t", b"1")
        cluster.delete("t")
        with pytest.raises(DeliveryTimedOut, match="no leader"):
            await producer.send_and_wait("t", b"2")
        await asked(cluster)
        assert await asked(cluster) == [set()] * 3


async def test_a_topic_that_was_not_used_for_long_is_asked_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_IDLE_MS", 0)
    async with FakeCluster({"t": 1, "busy": 1}) as cluster, producer_for(cluster) as producer, asyncio.timeout(10):
        await producer.send_and_wait("t", b"x")
        takes = cluster.defaults[ApiKey.PRODUCE]
        cluster.defaults[ApiKey.PRODUCE] = refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS)
        waits = await producer.send("busy", b"x")
        await asked(cluster)
        assert await asked(cluster) == [{"busy"}] * 3
        cluster.defaults[ApiKey.PRODUCE] = takes
        await waits
        await producer.send_and_wait("t", b"y")
        assert cluster.values("t") == [b"x", b"y"]
