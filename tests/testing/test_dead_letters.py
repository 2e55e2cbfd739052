"""The dead letters of a share group and the picture of its queue, for a test, the admin client and the command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.client import ConfigResource
from odradek.client.blocking import Admin, ShareConsumer
from odradek.client.core.descriptions import ShareQueue
from odradek.testing import LocalKafka
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
    monkeypatch.setattr(admin, "describe_configs", lambda asked: {each: {} for each in asked})
    assert kafka.dead_letters("workers") == []
