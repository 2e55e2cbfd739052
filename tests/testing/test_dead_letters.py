"""The dead letters of a share group and the picture of its queue, for a test, the admin client and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from odradek.broker.server import Broker
from odradek.broker.share_partitions import dead_letter_topics
from odradek.client import ConfigResource
from odradek.client.blocking import Admin, ShareConsumer
from odradek.client.core.descriptions import ShareQueue
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing import KafkaCluster, LocalKafka
from odradek.tests.support.documents.command import odradek, printed


def test_what_is_dead_and_why_is_told(kafka: LocalKafka) -> None:
    kafka.create_topic("jobs")
    kafka.create_topic("dlq.jobs", config={"errors.deadletterqueue.group.enable": "true"})
    kafka.put("jobs", [f"{number}" for number in range(6)])
    configs = {
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": "2",
        "errors.deadletterqueue.topic.name": "dlq.jobs",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    options: dict[str, Any] = {"group_id": "workers", "bootstrap_servers": kafka.address, "max_poll_records": 4}
    with Admin(kafka.address) as admin:
        admin.alter_configs({ConfigResource.group("workers"): configs})
        assert kafka.dead_letters("workers") == []
        with ShareConsumer("jobs", **options, share_acquire_mode="record_limit") as worker:
            seen: list[int] = []

            def handle(job: Any) -> None:
                seen.append(job.offset)
                if job.offset == 1:
                    worker.reject(job)
                if seen.count(2) == 2 and len(seen) == 7:
                    worker.drain()
                if job.offset == 2:
                    raise RuntimeError("never")

            worker.consume(handle, retry_backoff_ms=1)
            worker.commit()
            kafka.wait_for(records=2, topic="dlq.jobs")
            letters = {each.value: dict(each.headers)["__dlq.errors.message"] for each in kafka.dead_letters("workers")}
            assert letters == {
                b"1": b"Offset rejected by client.",
                b"2": b"Offset delivery count exceeded the threshold.",
            }
            assert kafka.dead_letters("others") == []
            queue = admin.describe_share_queue("workers")
            assert (queue.rejected, queue.delivered_too_often, queue.lost) == (1, 1, 0)
            assert queue.dead_letter_topic == "dlq.jobs" and queue.held == queue.archiving == 0
            (row,) = printed(kafka.address, "groups", "describe", "workers", "--queue", "--json")
            told = json.loads(row)
            assert (told["rejected"], told["delivered_too_often"], told["dead_letter_topic"]) == (1, 1, "dlq.jobs")
    assert isinstance(queue, ShareQueue)
    refused = odradek(kafka.address, "groups", "describe", "nobody", "--queue")
    assert refused.returncode


def test_a_broker_that_knows_no_dead_letters_has_none(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    admin: Any = kafka._admin  # pyright: ignore[reportPrivateUsage]

    def described(asked: list[Any]) -> dict[Any, Any]:
        return {each: {} for each in asked}

    monkeypatch.setattr(admin, "describe_configs", described)
    assert kafka.dead_letters("workers") == []


def test_a_cluster_writes_them_to_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_topics, "PAUSES_S", (0.1,) * 100)
    configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dlq.jobs"}
    options: dict[str, Any] = {"group_id": "workers", "share_acknowledgement_mode": "explicit"}
    logs = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    few = {f"{each}.num.partitions": 1 for each in logs}
    with KafkaCluster(few) as cluster, Admin(cluster.address) as admin:
        options["bootstrap_servers"] = cluster.address
        with pytest.raises(KafkaError) as refused:
            admin.alter_configs({ConfigResource.group("workers"): configs})
        assert refused.value.code is ErrorCode.INVALID_REQUEST

        async def were_alone_before(brokers: Sequence[Broker]) -> None:
            for each in brokers:
                each.services.metadata.put_group_configs("workers", configs)

        cluster._on_loop(were_alone_before)  # pyright: ignore[reportPrivateUsage]
        cluster.create_topic("jobs")
        cluster.create_topic("dlq.jobs", config={"errors.deadletterqueue.group.enable": "true"})
        cluster.move_leader("jobs", to=1)
        cluster.move_leader("dlq.jobs", to=2)
        cluster.put("jobs", ["a", "b", "c"])
        with ShareConsumer("jobs", **options) as worker:
            jobs = worker.getmany(timeout_ms=60_000)
            cluster.kill(2)
            for job in [each for some in jobs.values() for each in some]:
                worker.reject(job)
            worker.commit()
            cluster.wait_for(records=3, topic="dlq.jobs")
        assert cluster.leader("dlq.jobs") != 2
        offsets = [dict(each.headers)["__dlq.errors.offset"] for each in cluster.dead_letters("workers")]
        assert offsets == [b"0", b"1", b"2"]
