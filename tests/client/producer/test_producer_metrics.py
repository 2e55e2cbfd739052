"""What a producer counts, under Kafka's names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client import Metric, Producer, PrometheusBridge
from odradek.client.errors import BufferFull, DeliveryFailed
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import keep_silent


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(cluster.address, client_id="p", retry_backoff_ms=1, retry_backoff_max_ms=1, **options)


def by_name(producer: Producer, topic: str | None = None) -> dict[str, float]:
    """The values by name: of the producer, or of one topic."""
    tags = {"client-id": "p"} if topic is None else {"client-id": "p", "topic": topic}
    found = [metric for metric in producer.metrics() if metric.tags == tags]
    assert {metric.group for metric in found} <= {"producer-metrics" if topic is None else "producer-topic-metrics"}
    return {metric.name: metric.value for metric in found}


async def test_records_batches_and_requests_are_counted() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, asyncio.timeout(10):
        producer = producer_for(cluster, buffer_memory=1_000_000)
        assert producer.metrics() == []
        async with producer:
            await producer.send_many("t", [(None, b"x" * 10)] * 10)
            await producer.send_and_wait("u", b"y")
            found, of_topic = by_name(producer), by_name(producer, "t")
            assert found["record-send-total"] == 11
            assert found["records-per-request-avg"] == 11 / 2
            assert found["batch-size-max"] == of_topic["byte-total"] == len(b"".join(cluster.log("t").batches))
            assert 0 < found["request-latency-avg"] <= found["request-latency-max"]
            assert 0 <= found["record-queue-time-avg"] <= found["record-queue-time-max"]
            assert (found["requests-in-flight"], found["produce-throttle-time-max"]) == (0, 0)
            assert found["buffer-total-bytes"] == found["buffer-available-bytes"] == 1_000_000
            assert (of_topic["record-send-total"], of_topic["record-error-total"]) == (10, 0)
            assert by_name(producer, "u")["record-send-total"] == 1
        assert producer.metrics() == []


async def test_retries_failures_and_splits_are_counted() -> None:
    async with FakeCluster({"t": 1, "u": 1}) as cluster, asyncio.timeout(10), producer_for(cluster) as producer:
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS))
        await producer.send_many("t", [(None, b"x")] * 3)
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(DeliveryFailed):
            await producer.send_many("u", [(None, b"x")] * 4)
        cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.MESSAGE_TOO_LARGE))
        await producer.send_many("t", [(None, b"x")] * 2)
        found, t, u = by_name(producer), by_name(producer, "t"), by_name(producer, "u")
        assert (found["record-retry-total"], found["record-error-total"], found["batch-split-total"]) == (3, 4, 1)
        assert (t["record-retry-total"], t["record-error-total"]) == (3, 0)
        assert (u["record-retry-total"], u["record-error-total"]) == (0, 4)
        # What goes again counts again, as in Kafka's clients.
        assert (t["record-send-total"], u["record-send-total"]) == (3 + 3 + 2 + 2, 4)


async def test_what_waits_and_what_finds_no_room_is_counted() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        producer = producer_for(cluster, buffer_memory=200, batch_size=200)
        async with producer:
            await producer.send_and_wait("t", b"x")
            cluster.on(ApiKey.PRODUCE, keep_silent)
            waiting = await producer.send("t", b"x" * 100)
            while not by_name(producer)["requests-in-flight"]:
                await asyncio.sleep(0)
            with pytest.raises(BufferFull):
                producer.send_nowait("t", b"x" * 100)
            found = by_name(producer)
            assert found["buffer-exhausted-total"] == 1
            assert 0 <= found["buffer-available-bytes"] < 100
            await producer.stop(timeout_ms=1)
            assert isinstance(waiting.exception(), DeliveryFailed)


async def test_counts_go_on_after_a_stop_and_a_start() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        producer = producer_for(cluster)
        for number in range(1, 3):
            async with producer:
                await producer.send_and_wait("t", b"x")
                cluster.on(ApiKey.PRODUCE, refuse_produce(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                with pytest.raises(DeliveryFailed):
                    await producer.send_and_wait("t", b"x")
                assert by_name(producer)["record-error-total"] == number
                assert by_name(producer)["record-send-total"] == 2 * number


async def test_the_bridge_shows_a_producer_to_prometheus() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="pip install 'odradek[metrics]'")
    bridge, registry = PrometheusBridge(), prometheus.CollectorRegistry()
    registry.register(bridge)
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer, asyncio.timeout(10):
        bridge.add(producer)
        await producer.send_and_wait("t", b"x")
        page = prometheus.generate_latest(registry).decode()
        assert 'kafka_producer_record_send_total{client_id="p"} 1.0' in page
        assert 'kafka_producer_topic_record_send_total{client_id="p",topic="t"} 1.0' in page
        assert all(isinstance(metric, Metric) for metric in producer.metrics())
