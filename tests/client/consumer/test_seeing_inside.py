"""What a consumer tells of itself: metrics, explanations, and the line of a user that stalls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client import Consumer, TopicPartition
from odradek.client.core.metrics import Metric, PrometheusBridge, prometheus_name
from odradek.protocol.apis import ApiKey
from odradek.tests.client.consumer.test_consumer import consumer_for as quick_consumer
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write
from odradek.tests.support.fakes.wire import keep_silent
from odradek.tests.support.waiting import until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer_for(cluster: FakeCluster, *topics: str, **options: Any) -> Consumer:
    return quick_consumer(cluster, *topics, **{"heartbeat_interval_ms": 5, "group_id": "g", "client_id": "c"} | options)


async def test_metrics_have_kafkas_names_and_count() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        write(cluster.log("t"), 10)
        consumer = consumer_for(cluster, "t")
        assert consumer.metrics() == []
        async with consumer, asyncio.timeout(10):
            taken = 0
            while taken < 7:
                taken += sum(map(len, (await consumer.getmany(timeout_ms=50, max_records=7)).values()))
            await consumer.commit()
            found = {(each.name, each.tags.get("partition")): each for each in consumer.metrics()}
            for name, value in {"records-consumed-total": 7, "commit-total": 1, "assigned-partitions": 2}.items():
                assert found[name, None].value == value
            assert found["records-lag", "0"].value == 3 == found["records-lag-max", None].value
            assert found["records-lag", "0"].tags == {"client-id": "c", "topic": "t", "partition": "0"}
            for name in ("bytes-consumed-total", "fetch-total", "fetch-latency-max", "rebalance-total"):
                assert found[name, None].value > 0
            assert found["last-poll-seconds-ago", None].value >= 0


async def test_the_bridge_shows_metrics_to_prometheus() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="pip install 'odradek[metrics]'")
    bridge, registry = PrometheusBridge(), prometheus.CollectorRegistry()
    registry.register(bridge)
    async with FakeCluster({"t": 1}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster.log("t"), 3)
        bridge.add(consumer)
        await consumer.getone()
        page = prometheus.generate_latest(registry).decode()
        assert 'kafka_consumer_fetch_manager_records_consumed_total{client_id="c"} 3.0' in page
        assert 'kafka_consumer_fetch_manager_records_lag{client_id="c",partition="0",topic="t"}' in page
        bridge.remove(consumer)
        assert "kafka_" not in prometheus.generate_latest(registry).decode()


def test_a_metric_keeps_its_name_in_prometheus() -> None:
    metric = Metric("consumer-fetch-manager-metrics", "fetch-latency-avg", 1.0)
    assert prometheus_name(metric) == "kafka_consumer_fetch_manager_fetch_latency_avg"
    assert not metric.is_counter


async def test_an_explanation_tells_the_lag_and_what_is_waited_for() -> None:
    async with FakeCluster({"t": 2}) as cluster, consumer_for(cluster, "t") as consumer, asyncio.timeout(10):
        write(cluster.log("t"), 10)
        while not await consumer.getmany(timeout_ms=50, max_records=4):
            pass
        consumer.pause(T1)
        explanation = consumer.explain()
        assert (explanation.group_id, explanation.state, explanation.rebalance) == ("g", "STABLE", "")
        first, second = explanation.partitions
        assert (first.position, first.lag, first.waits_for) == (4, 6, "the next poll")
        assert first.lag_seconds is not None and first.lag_seconds > 0
        assert second.waits_for == "resume()"
        assert "t-0: position 4" in str(explanation) and "waits for resume()" in str(explanation)


async def test_an_explanation_names_what_holds_a_rebalance_up(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.SYNC_GROUP, keep_silent)
    consumer = consumer_for(cluster, "t")
    await consumer.start()
    await until(lambda: bool(cluster.calls(ApiKey.SYNC_GROUP)))
    assert "the other members" in consumer.explain().rebalance
    assert "rebalance: " in str(consumer.explain())
    await consumer.stop(timeout_ms=50)


async def test_the_warning_of_a_stall_names_the_users_line(caplog: pytest.LogCaptureFixture) -> None:
    async def work(consumer: Consumer) -> None:
        await consumer.getone()
        await asyncio.Event().wait()  # here

    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        write(cluster.log("t"), 3)
        async with consumer_for(cluster, "t", max_poll_interval_ms=20) as consumer:
            user = asyncio.ensure_future(work(consumer))
            await until(lambda: bool(cluster.group.left))
            user.cancel()
            await asyncio.gather(user, return_exceptions=True)
    assert f"The task that polled is at {__file__}:" in caplog.text
    assert "in work." in caplog.text
