"""An idempotent producer beside two brokers that answer, refuse, hang up and change the leader as Hypothesis says.

After each schedule the log agrees with what the producer was told: a record that succeeded is there once, in the order
of the calls; one that failed is there as its outcome says; none is there twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client import Producer, RecordMetadata
from odradek.client.errors import DeliveryFailed, Outcome
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.fake_cluster import FakeCluster, refuse_produce
from odradek.tests.support.fakes.wire import Call, HangUp, Silence, Step, do_and_drop, do_it, drop, keep_silent
from odradek.tests.support.seeds import examples

# A broker answers these to a batch that it has not written.
BEFORE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
# A broker may answer these to a batch that it has written: with acks=all it looks again when the replicas have it.
AFTER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
OPTIONS: dict[str, Any] = {
    "batch_size": 1,
    "linger_ms": 0,
    "retry_backoff_ms": 0.1,
    "retry_backoff_max_ms": 0.2,
    "request_timeout_ms": 50,
}


def move(cluster: Any) -> None:
    """Let the other broker lead. It has every record that the first one has."""
    log = cluster.log("t")
    log.leader, log.epoch = 3 - log.leader, log.epoch + 1


async def move_first(call: Call) -> Any:
    move(call.node.cluster)
    return await call.default()


async def move_and_drop(call: Call) -> Any:
    await call.default()
    move(call.node.cluster)
    return HangUp()


async def do_and_keep_silent(call: Call) -> Any:
    await call.default()
    return Silence()


async def move_and_drop_late(call: Call) -> Any:
    """Hang up when the client may have heard of the new leader."""
    await call.default()
    move(call.node.cluster)
    await asyncio.sleep(0.004)
    return HangUp()


FATES: dict[str, Step] = {
    "do it": do_it,
    "hang up": drop,
    "do it and hang up": do_and_drop,
    "do it and say nothing": do_and_keep_silent,
    "move the leader": move_first,
    "do it, move the leader and hang up": move_and_drop,
    "do it, move the leader and hang up late": move_and_drop_late,
    **{f"{code.name} before": refuse_produce(code) for code in BEFORE},
    **{f"{code.name} after": refuse_produce(code, after=True) for code in AFTER},
}
SCHEDULES = st.lists(st.sampled_from(sorted(FATES)), max_size=14)


async def outcomes(cluster: FakeCluster, producer: Producer, first: int, count: int) -> list[Any]:
    sent = [await producer.send("t", b"%d" % number) for number in range(first, first + count)]
    return await asyncio.gather(*sent, return_exceptions=True)


def check(cluster: FakeCluster, told: Sequence[Any]) -> None:
    log = [int(value or b"") for value in cluster.values("t")]
    for number, result in enumerate(told):
        count = log.count(number)
        if isinstance(result, RecordMetadata):
            assert count == 1, f"{number} was acknowledged, and is there {count} times: {log}"
            assert result.offset in (-1, log.index(number))
        else:
            assert isinstance(result, DeliveryFailed), result
            expected = {Outcome.NOT_WRITTEN: {0}, Outcome.UNKNOWN: {0, 1}, Outcome.WRITTEN: {1}}[result.outcome]
            assert count in expected, f"{number} failed as {result.outcome.name}, and is there {count} times: {log}"
    acknowledged = [number for number in log if isinstance(told[number], RecordMetadata)]
    assert acknowledged == sorted(acknowledged), f"out of order: {log}"


async def run(fates: Sequence[str], *, forgets: bool = False, **options: Any) -> list[Any]:
    """Send records through these fates of requests; return what became of each."""
    async with FakeCluster({"t": 1}, nodes=2) as cluster:
        async with Producer(cluster.address, **OPTIONS | options) as producer:
            told = await outcomes(cluster, producer, 0, 1)
            if forgets:
                cluster.log("t").forget_producers()
            cluster.on(ApiKey.PRODUCE, *(FATES[fate] for fate in fates))
            told += await outcomes(cluster, producer, 1, 7)
            cluster.steps[ApiKey.PRODUCE].clear()
            told += await outcomes(cluster, producer, 8, 2)
        check(cluster, told)
        assert all(isinstance(result, RecordMetadata) for result in told[8:]), "the producer goes on"
        return told


@settings(max_examples=examples(80))
@given(SCHEDULES, st.booleans(), st.sampled_from([2, 300_000]))
def test_the_log_agrees_with_what_was_told(fates: list[str], forgets: bool, metadata_max_age_ms: int) -> None:
    uvloop.run(run(fates, forgets=forgets, metadata_max_age_ms=metadata_max_age_ms))


@pytest.mark.parametrize("second", ["INVALID_RECORD", "MESSAGE_TOO_LARGE", "UNKNOWN_PRODUCER_ID"])
@pytest.mark.parametrize("first", [code.name for code in AFTER if code.retriable])
def test_a_batch_that_may_be_written_keeps_its_sequence_when_one_behind_it_fails(first: str, second: str) -> None:
    told = uvloop.run(run([f"{first} after", f"{second} before"]))
    assert isinstance(told[1], RecordMetadata)


@pytest.mark.parametrize("then", ["do it and hang up", "NOT_LEADER_OR_FOLLOWER after"])
def test_records_behind_a_failed_one_are_not_written_twice_where_the_broker_has_forgotten_the_producer(
    then: str,
) -> None:
    """It takes any sequence then: what came behind the failed record may be in the log."""
    uvloop.run(run(["INVALID_RECORD before", then], forgets=True))


def test_no_batch_overtakes_those_that_the_old_leader_has() -> None:
    """A leader remembers five batches of a producer: behind a sixth, a repetition of the first is not recognized."""
    fates = ["do it and say nothing"] * 4 + ["do it, move the leader and hang up late"]
    told = uvloop.run(run(fates, metadata_max_age_ms=1))
    assert all(isinstance(result, RecordMetadata) for result in told), told


def test_a_gap_that_the_broker_made_costs_no_record() -> None:
    """As KIP-360 has it: the batch goes again under a new producer id."""
    told = uvloop.run(run(["OUT_OF_ORDER_SEQUENCE_NUMBER before", "OUT_OF_ORDER_SEQUENCE_NUMBER before"]))
    assert all(isinstance(result, RecordMetadata) for result in told), told


async def silent(fates: Sequence[str]) -> None:
    async with FakeCluster({"t": 1}, nodes=2) as cluster:
        times = {"request_timeout_ms": 40, "delivery_timeout_ms": 60}  # a busy machine takes some to connect
        async with Producer(cluster.address, **OPTIONS | times) as producer:
            steps = [keep_silent if fate == "be silent" else FATES[fate] for fate in fates]
            cluster.on(ApiKey.PRODUCE, *steps)
            told = await outcomes(cluster, producer, 0, 8)
            cluster.steps[ApiKey.PRODUCE].clear()
        check(cluster, told)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([*sorted(FATES), "be silent"]), max_size=14))
def test_the_log_agrees_with_what_was_told_when_time_runs_out(fates: list[str]) -> None:
    uvloop.run(silent(fates))
