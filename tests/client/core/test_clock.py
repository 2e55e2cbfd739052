"""A request that fails again and again is named in one warning after a second; shorter failures are not named."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer
from odradek.client.core import clock
from odradek.client.core.clock import RetryNotice, first_ms
from odradek.client.core.lifetime import end_tasks
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import Call
from odradek.tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("at_once")
QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_SAID_AFTER_S", 0.0)


async def no_coordinator(call: Call) -> FindCoordinatorResponse:
    found = [Coordinator(key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in call.request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found)


async def warned(caplog: pytest.LogCaptureFixture) -> str:
    await until(lambda: bool(caplog.records))
    return caplog.records[0].getMessage()


async def test_a_producer_names_a_full_disk_once(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}) as fake, Producer(fake.address, **QUICK) as producer:
        fake.on(ApiKey.PRODUCE, *[refuse_produce(ErrorCode.KAFKA_STORAGE_ERROR)] * 50)
        await producer.send_and_wait("t", b"x")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("t-0: ") and caplog.messages[0].endswith(
        "(KAFKA_STORAGE_ERROR); it is retried"
    )


async def test_a_group_and_an_admin_name_a_coordinator_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster({"t": 1}) as fake:
        fake.defaults[ApiKey.FIND_COORDINATOR] = no_coordinator
        async with Consumer("t", bootstrap_servers=fake.address, group_id="g", **QUICK) as consumer:
            polling = asyncio.create_task(consumer.getone())
            assert (await warned(caplog)).endswith("(COORDINATOR_NOT_AVAILABLE); it is retried")
            await end_tasks([polling])
        caplog.clear()
        async with Admin(fake.address, **QUICK) as admin:
            asking = asyncio.create_task(admin.list_group_offsets("g"))
            assert (await warned(caplog)).endswith("(COORDINATOR_NOT_AVAILABLE); it is retried")
            await end_tasks([asking])


async def test_a_topic_that_has_no_leader_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as fake, Producer(fake.address, **QUICK) as producer:

        async def leaderless(call: Call) -> MetadataResponse:
            response = await metadata(call)
            response.topics = [MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, "t", bytes(16))]
            return response

        metadata = fake.defaults[ApiKey.METADATA]
        fake.defaults[ApiKey.METADATA] = leaderless
        sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
        assert "'t'" in await warned(caplog)
        await end_tasks([sending])


async def test_there_is_one_line_until_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    notice, error = RetryNotice(), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full.")
    for key in ("a", "b", "a"):
        notice.failed(key, error)
        await asyncio.sleep(0.001)
    notice.done("a")
    notice.failed("c", error)
    await asyncio.sleep(0.001)
    assert caplog.messages == ["full (KAFKA_STORAGE_ERROR); it is retried"]
    notice.done("b")
    notice.done("c")
    notice.failed("a", error)
    await asyncio.sleep(0.001)
    assert len(caplog.messages) == 2


async def test_what_ends_within_the_second_is_not_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_SAID_AFTER_S", 0.001)
    notice, error = RetryNotice(), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    notice.failed("a", error)
    notice.done("a")
    await asyncio.sleep(0.003)
    notice.failed("a", error)
    notice.close()
    notice.failed("a", error)
    await asyncio.sleep(0.003)
    assert caplog.messages == []


async def test_what_was_given_up_is_forgotten(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_RETRIED_WITHIN_S", 0.0)
    notice, error = RetryNotice(), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    for key in range(3):
        notice.failed(key, error)
        await asyncio.sleep(0.001)
    assert len(caplog.messages) == 3


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_subscription_to_a_topic_that_does_not_exist_is_named_once(
    caplog: pytest.LogCaptureFixture, group_id: str | None
) -> None:
    options: dict[str, Any] = {**QUICK, "group_id": group_id, "allow_auto_create_topics": False}
    async with FakeCluster() as fake, Consumer("missing", bootstrap_servers=fake.address, **options) as consumer:
        text = await warned(caplog)
        assert text.startswith("topic 'missing' cannot be read yet: ")
        assert text.endswith("(UNKNOWN_TOPIC_OR_PARTITION); it is retried")
        before = len(fake.calls(ApiKey.METADATA))
        while len(fake.calls(ApiKey.METADATA)) < before + 5:
            await consumer.getmany(timeout_ms=1)
        assert len(caplog.messages) == 1


@pytest.mark.parametrize(("time_us", "time_ms"), [(0, 0), (1, 1), (1_074_732_048_531_000, 1_074_732_048_531),
    (1_074_732_048_531_001, 1_074_732_048_532), (-1, 0), (-1_000, -1)])  # fmt: skip
def test_a_moment_begins_with_the_millisecond_that_is_not_before_it(time_us: int, time_ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    assert {first_ms(moment), first_ms(moment.astimezone(timezone(timedelta(hours=-3, minutes=-30))))} == {time_ms}
    assert first_ms(moment.astimezone().replace(tzinfo=None)) == time_ms, "without a zone it is local time"
