"""Time in the test's hand: retention, sessions, transactions, compaction, rebalances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition
from odradek.client import KafkaError, ShareConsumer
from odradek.testing import LocalKafka, Record
from odradek.testing.errors import Unavailable


@contextmanager
def member_of(kafka: LocalKafka, group: str, topic: str, **options: str) -> Iterator[ConfluentConsumer]:
    """A member of a group that has its assignment."""
    assigned: list[object] = []
    consumer = ConfluentConsumer({"bootstrap.servers": kafka.address, "group.id": group, **options})
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))
    while not assigned:
        consumer.poll(0.05)
    try:
        yield consumer
    finally:
        consumer.close()


def test_retention_follows_the_clock_of_the_test(kafka: LocalKafka, kafka_clock: LocalKafka) -> None:
    kafka.create_topic("t", config={"retention.ms": 3_600_000})
    kafka.put("t", ["old"])
    kafka_clock.advance(minutes=59)
    assert len(kafka.records("t")) == 1
    kafka_clock.advance(hours=7)
    assert kafka.records("t") == []


def test_retention_can_be_applied_now(kafka: LocalKafka) -> None:
    for name in ("t", "u"):
        kafka.create_topic(name, config={"retention.ms": 3_600_000})
        kafka.put(name, [Record("old", timestamp=1_000_000_000_000)])
    kafka.apply_retention("t")
    assert (len(kafka.records("t")), len(kafka.records("u"))) == (0, 1)
    kafka.apply_retention()
    assert kafka.records("u") == []


def test_retention_takes_whole_segments_as_that_of_a_real_broker(kafka: LocalKafka) -> None:
    """What it leaves was compared with Kafka 4.3.1."""
    hour_ms, now_ms = 3_600_000, int(time.time() * 1000)
    old, older, young = (now_ms - 2 * hour_ms, now_ms - 8 * 24 * hour_ms, now_ms)
    # A young record keeps its segment, whatever is in it; the roll of segment.ms (7 days) ends one before the next.
    for name, times, kept in (
        ("one-segment", [old, young], 2),
        ("two-segments", [older, young], 1),
        ("young-first", [young, older], 2),
        ("all-old", [old, old], 0),
    ):
        kafka.create_topic(name, config={"retention.ms": hour_ms})
        for timestamp in times:
            kafka.put(name, [Record("v", timestamp=timestamp)])
        kafka.apply_retention(name)
        assert len(kafka.records(name)) == kept, name


def test_a_silent_member_is_gone_after_its_session(kafka: LocalKafka, kafka_clock: LocalKafka) -> None:
    kafka.create_topic("t")
    with member_of(kafka, "g", "t"):
        assert [each.assignment for each in kafka.members("g")] == [[("t", 0)]]
        before = kafka.members("g")[0].member_id
        kafka_clock.advance(minutes=2)
        assert before not in [each.member_id for each in kafka.members("g")]


def test_a_test_ends_the_session_of_a_member(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    with member_of(kafka, "g", "t"):
        member = kafka.members("g")[0].member_id
        kafka.expire(member)
        assert member not in [each.member_id for each in kafka.members("g")]
        with pytest.raises(KafkaError, match="no group has a member 'nobody'"):
            kafka.expire("nobody")


def test_a_test_ends_the_session_of_a_member_of_a_consumer_group(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    with member_of(kafka, "g", "t", **{"group.protocol": "consumer"}):
        (member,) = kafka.members("g")
        with pytest.raises(KafkaError, match="whose members never join again"):
            kafka.rebalance("g")
        # Such a group never stops to rebalance.
        assert kafka.history("g") == []
        kafka.expire(member.member_id)
        assert kafka.members("g") == []
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        kafka.history("nobody")


async def test_a_test_ends_the_session_of_a_member_of_a_share_group(kafka: LocalKafka) -> None:
    kafka.put("t", ["v"])
    async with ShareConsumer("t", bootstrap_servers=kafka.address, group_id="s") as consumer:
        await consumer.getmany(timeout_ms=10)
        (member,) = await asyncio.to_thread(kafka.members, "s")
        with pytest.raises(KafkaError, match=r"is a share group .*, whose members never join again"):
            await asyncio.to_thread(kafka.rebalance, "s")
        await asyncio.to_thread(kafka.expire, member.member_id)
        assert member.member_id not in [each.member_id for each in await asyncio.to_thread(kafka.members, "s")]


def test_a_test_lets_a_group_rebalance(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    with member_of(kafka, "g", "t") as consumer:
        revoked: list[object] = []
        consumer.subscribe(["t"], on_revoke=lambda _, partitions: revoked.append(partitions))
        kafka.rebalance("g")
        while not revoked:
            consumer.poll(0.05)
        assert kafka.history("g")[-1].causes[0].kind == "requested"


def test_a_transaction_times_out(kafka: LocalKafka, kafka_clock: LocalKafka) -> None:
    producer = ConfluentProducer(
        {"bootstrap.servers": kafka.address, "transactional.id": "t", "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush()
    kafka.put("t", ["after"])
    assert kafka.records("t") == []
    kafka_clock.advance(minutes=2)
    assert [each.value for each in kafka.records("t")] == [b"after"]


def test_a_topic_is_compacted_with_its_newest_segment(kafka: LocalKafka) -> None:
    kafka.create_topic("t", config={"cleanup.policy": "compact"})
    kafka.put("t", [("k", "1"), ("l", "1"), ("k", "2")])
    kafka.compact("t")
    assert [(each.key, each.value) for each in kafka.records("t")] == [(b"l", b"1"), (b"k", b"2")]
    kafka.create_topic("u")
    with pytest.raises(KafkaError, match="does not have cleanup"):
        kafka.compact("u")


def test_a_clock_never_goes_back(kafka_clock: LocalKafka, kafka_factory: Callable[..., LocalKafka]) -> None:
    with pytest.raises(Unavailable, match="never goes back"):
        kafka_clock.advance(hours=-1)


def test_what_a_test_puts_in_has_the_time_of_its_clock(kafka: LocalKafka, kafka_clock: LocalKafka) -> None:
    kafka.create_topic("t", config={"retention.ms": 3_600_000})
    kafka_clock.advance(hours=7)
    kafka.put("t", ["new"])
    kafka.apply_retention("t")
    assert [each.value for each in kafka.records("t")] == [b"new"]


def test_a_request_that_waits_is_answered_when_the_clock_passes_its_time(
    kafka: LocalKafka, kafka_clock: LocalKafka
) -> None:
    kafka.create_topic("t")
    with kafka.requests() as seen:
        options = {"bootstrap.servers": kafka.address, "group.id": "g"}
        consumer = ConfluentConsumer({**options, "fetch.wait.max.ms": 290_000, "socket.timeout.ms": 300_000})
        consumer.assign([TopicPartition("t", 0, 0)])
        while not seen.of("Fetch"):
            consumer.poll(0.05)
        kafka_clock.advance(minutes=6)
        while len(seen.of("Fetch")) < 2:
            consumer.poll(0.05)
        assert seen.of("Fetch")[0].answer is not None
        consumer.close()
