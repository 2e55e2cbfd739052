"""Which requests a fault meets: how many, of which broker and topic id; and what the report of a failed test says."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from odradek.client.core.connection import Connection
from odradek.client.core.exchange import Identity
from odradek.client.errors import ConnectionLost
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.primitives import uuid_to_text
from odradek.testing import KafkaCluster, KafkaProcess, LocalKafka
from odradek.testing.errors import Unavailable

QUICK = {"retry.backoff.ms": 1, "linger.ms": 0}


async def ask_at_once(address: str, count: int) -> list[MetadataResponse]:
    """Ask for metadata on so many connections at once."""
    host, _, port = address.rpartition(":")
    opened = [await Connection.open(host, int(port), client_id="mine") for _ in range(count)]
    try:
        return await asyncio.gather(*(each.request(MetadataRequest(topics=[]), MetadataResponse) for each in opened))
    finally:
        for each in opened:
            await each.close()


def produce(kafka: Any, topic: str, value: bytes = b"v", **options: Any) -> Any:
    """Produce one record with librdkafka; return the error of its delivery."""
    outcomes: list[Any] = []
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, **QUICK, **options})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(20) == 0
    return outcomes[0]


async def test_a_fault_that_is_met_by_two_requests_at_once_ends(kafka: LocalKafka) -> None:
    delay = kafka.delay("Metadata", 0.05, times=1)
    await ask_at_once(kafka.address, 3)
    assert (delay.fired, delay.left) == (1, 0)
    await ask_at_once(kafka.address, 1)
    assert (delay.fired, delay.left) == (1, 0)


async def test_a_fault_that_has_ended_meets_no_request_that_waits(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    failure = kafka.fail("Metadata", "INVALID_REQUEST")
    stall = kafka.stall("Metadata")
    asked = asyncio.create_task(ask_at_once(kafka.address, 1))
    async with asyncio.timeout(20):
        while not stall.fired:
            await asyncio.sleep(0.001)
    kafka.end_faults()
    await asked
    assert failure.fired == 0


def test_the_first_requests_pass(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    fault = kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", skip=2, times=1, must_fire=True)
    outcomes = [produce(kafka, "orders", b"%d" % number) for number in range(4)]
    assert [each is None for each in outcomes] == [True, True, False, True]
    assert fault.fired == 1
    assert [each.value for each in kafka.records("orders")] == [b"0", b"1", b"3"]
    with pytest.raises(Unavailable, match="skip is 0 or more"):
        kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", skip=-1)


def id_of(kafka: LocalKafka, topic: str) -> bytes:
    """The id of a topic."""

    async def find() -> bytes:
        found = kafka.broker.topics.get(topic)
        assert found is not None
        return found.id

    return kafka.broker.call(find)


def test_a_fault_of_a_topic_id_leaves_the_topic_alone_that_is_made_again(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    old = id_of(kafka, "orders")
    fault = kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic_id=uuid_to_text(old))
    assert produce(kafka, "orders") is not None
    kafka.reset()
    kafka.create_topic("orders")
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic_id=old)
    assert produce(kafka, "orders") is None
    assert fault.fired == 1


def test_an_id_that_is_none_is_refused(kafka: LocalKafka) -> None:
    for wrong in ("orders", b"orders"):
        with pytest.raises(Unavailable, match="no topic has the id"):
            kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic_id=wrong)
    with pytest.raises(Unavailable, match="two names of one thing"):
        kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="t", topic_id=bytes(16))
    with pytest.raises(Unavailable, match=r"a fault of broker 7 would meet no request: there are \[1\]"):
        kafka.stall(broker=7)


async def test_a_fault_of_one_broker_leaves_the_others_alone(kafka_cluster: KafkaCluster) -> None:
    first, second, _ = kafka_cluster.address.split(",")
    fault = kafka_cluster.delay("Metadata", 0.001, broker=2)
    await ask_at_once(first, 2)
    assert fault.fired == 0
    await ask_at_once(second, 2)
    assert fault.fired == 2


def test_a_handler_that_fails_a_thousand_times_is_reported_once(
    kafka: LocalKafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t")

    @kafka.on("Produce", times=20)
    def answer(request: Any, proceed: Callable[[], Any]) -> None:
        raise ValueError("not this")

    with caplog.at_level(logging.ERROR, "odradek.testing"):
        assert produce(kafka, "t", **{"reconnect.backoff.ms": 0, "retry.backoff.max.ms": 1}) is None
    (said,) = kafka.handler_failures()
    # A client that goes while its request is handled leaves no failure.
    assert re.fullmatch(r"the handler on\('Produce'\): ValueError: not this \((1\d|20) times\)", said)
    assert caplog.text.count("Traceback") == 1


def test_the_last_requests_have_topics_and_outcomes(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, topic="orders")
    assert produce(kafka, "orders", b"v" * 100_000) is None
    kafka.stall("Produce")
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, **QUICK})
    producer.produce("orders", b"v")
    assert producer.flush(0.2) == 1
    lines = [each for each in kafka.recent_requests() if " Produce v" in each]
    ends = [each.partition("client id 'rdkafka', ")[2] for each in lines]
    assert ends == ["orders-0: NOT_LEADER_OR_FOLLOWER", "orders-0: ok", "orders-0: no answer"]
    assert any("Metadata" in each and "orders: ok" in each for each in kafka.recent_requests())
    kafka.end_faults()
    assert producer.flush(20) == 0


async def test_a_client_of_an_earlier_broker_is_among_the_last_requests(kafka: LocalKafka) -> None:
    host, _, port = kafka.address.rpartition(":")
    earlier = Identity("of-an-earlier-broker", kafka.broker.node_id)
    with pytest.raises(ConnectionLost, match="is no longer broker"):
        await Connection.open(host, int(port), client_id="late", identity=earlier)
    (line,) = [each for each in kafka.recent_requests() if "client id 'late'" in each]
    assert line.endswith("REBOOTSTRAP_REQUIRED")


@pytest.mark.parametrize("kind", [LocalKafka, KafkaProcess, KafkaCluster])
def test_a_forked_child_that_ends_leaves_the_broker_alone(kind: Callable[[], Any]) -> None:
    with kind() as kafka:
        child = os.fork()
        if child == 0:
            try:
                kafka.close()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert produce(kafka, "t") is None
        assert len(kafka.records("t")) == 1
