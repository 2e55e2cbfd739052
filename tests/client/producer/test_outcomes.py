"""A record that fails says whether it is written, not written, or perhaps written; the log agrees."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.client import Producer
from odradek.client.errors import ClientStopped, DeliveryFailed, DeliveryStopped, DeliveryTimedOut, Outcome
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import Step, do_and_drop, drop, keep_silent
from odradek.tests.support.waiting import until

# Long enough for a busy machine to send a batch at least once.
SHORT: dict[str, Any] = {"request_timeout_ms": 250, "delivery_timeout_ms": 1_000}
CASES: dict[str, tuple[list[Step], Outcome, int]] = {
    "rejected": ([refuse_produce(ErrorCode.INVALID_RECORD)], Outcome.NOT_WRITTEN, 0),
    "never accepted": ([refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS)] * 200, Outcome.NOT_WRITTEN, 0),
    "lost before": ([drop] * 1000, Outcome.UNKNOWN, 0),
    "lost after": ([do_and_drop, *[drop] * 1000], Outcome.UNKNOWN, 1),
    "timed out after": ([refuse_produce(ErrorCode.REQUEST_TIMED_OUT, after=True), *[drop] * 1000], Outcome.UNKNOWN, 1),
    "too few replicas": (
        [refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, after=True)] * 200,
        Outcome.WRITTEN,
        1,
    ),
}


def producer_for(cluster: FakeCluster, **options: Any) -> Producer:
    quick: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0}
    return Producer(cluster.address, **quick | SHORT | options)


@pytest.mark.parametrize("case", CASES)
async def test_a_failure_says_what_is_in_the_log(case: str) -> None:
    steps, outcome, written = CASES[case]
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster) as producer:
        cluster.on(ApiKey.PRODUCE, *steps)
        with pytest.raises(DeliveryFailed) as caught:
            await producer.send_and_wait("t", b"x")
        assert caught.value.outcome is outcome
        assert len(cluster.values("t")) == written
        cluster.steps[ApiKey.PRODUCE].clear()


async def test_many_records_are_counted_by_outcome() -> None:
    async with FakeCluster({"t": 1}) as cluster, producer_for(cluster, batch_size=1) as producer:
        cluster.on(ApiKey.PRODUCE, drop, *[refuse_produce(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000)
        with pytest.raises(DeliveryTimedOut) as caught:
            await producer.send_many("t", ((None, b"%d" % number) for number in range(3)))
        assert caught.value.__notes__[0].startswith(
            "3 of 3 records were not delivered: 2 not written, 1 written or not, nobody knows"
        )
        cluster.steps[ApiKey.PRODUCE].clear()


async def test_records_of_a_producer_that_stops_say_it_too(cluster: FakeCluster) -> None:
    producer = producer_for(cluster, delivery_timeout_ms=10_000)
    await producer.start()
    cluster.on(ApiKey.PRODUCE, keep_silent)
    sent = await producer.send("t", b"x")
    await until(lambda: bool(cluster.calls(ApiKey.PRODUCE)))
    await producer.stop(timeout_ms=20)
    with pytest.raises(ClientStopped) as caught:
        await sent
    assert isinstance(caught.value, DeliveryStopped)
    assert caught.value.outcome is Outcome.UNKNOWN
