"""Faults at the door: what clients get, and what the broker has done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient
from odradek import testing
from odradek.client import KafkaError, Producer
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record as OneRecord
from odradek.testing import LocalKafka, Record
from odradek.testing.errors import NeverFired, Unavailable


def produce(kafka: LocalKafka, topic: str, value: bytes, **options: object) -> ConfluentError | None:
    """Produce one record with librdkafka; return the error of its delivery."""
    outcomes: list[ConfluentError | None] = []
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, "retry.backoff.ms": 1, **options})
    producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(20) == 0
    return outcomes[0]


def test_a_producer_tries_again_after_an_error(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    with kafka.requests() as seen, kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, must_fire=True) as fault:
        assert produce(kafka, "orders", b"v") is None
    assert (fault.fired, len(seen.of("Produce"))) == (2, 3)
    assert [each.value for each in kafka.records("orders")] == [b"v"]


def test_a_lost_acknowledgement_makes_a_duplicate_of_a_plain_producer(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, topic="orders", after_append=True, must_fire=True):
        assert produce(kafka, "orders", b"v", **{"enable.idempotence": False}) is None
    assert [each.value for each in kafka.records("orders")] == [b"v", b"v"]


def test_a_lost_acknowledgement_makes_no_duplicate_of_an_idempotent_producer(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, after_append=True, must_fire=True):
        assert produce(kafka, "orders", b"v", **{"enable.idempotence": True}) is None
    assert [each.value for each in kafka.records("orders")] == [b"v"]


def test_a_final_error_reaches_the_program(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="orders")
    error = produce(kafka, "orders", b"v")
    assert error is not None and error.code() == ConfluentError.TOPIC_AUTHORIZATION_FAILED
    assert kafka.records("orders") == []
    kafka.end_faults()
    assert produce(kafka, "orders", b"v") is None


def test_a_fault_of_one_topic_leaves_the_others_alone(kafka: LocalKafka) -> None:
    for name in ("good", "bad"):
        kafka.create_topic(name)
    kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="bad")
    assert produce(kafka, "good", b"v") is None
    assert produce(kafka, "bad", b"v") is not None


def test_a_request_cut_in_its_answer_was_carried_out(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    kafka.cut("Produce", in_answer=True, must_fire=True)
    assert produce(kafka, "orders", b"v", **{"enable.idempotence": False}) is None
    assert [each.value for each in kafka.records("orders")] == [b"v", b"v"]
    kafka.end_faults()


def test_a_request_that_is_cut_was_not_carried_out(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    kafka.cut("Produce", must_fire=True)
    assert produce(kafka, "orders", b"v", **{"enable.idempotence": False}) is None
    assert [each.value for each in kafka.records("orders")] == [b"v"]
    kafka.end_faults()


async def test_the_connections_of_a_client_are_cut(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    async with Producer(kafka.address, client_id="mine") as producer:
        await (await producer.send("t", b"1"))
        kafka.cut(client_id="mine")
        await (await producer.send("t", b"2"))
    assert [each.value for each in kafka.records("t")] == [b"1", b"2"]


def test_a_stall_ends_with_resume(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    kafka.stall("Produce")
    producer = ConfluentProducer({"bootstrap.servers": kafka.address})
    producer.produce("t", b"v")
    assert producer.flush(0.1) == 1
    kafka.resume()
    assert producer.flush(10) == 0


def test_a_delay_lets_a_request_wait(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    with kafka.delay("Produce", 0.01, times=1) as delay:
        assert produce(kafka, "t", b"v") is None
    assert delay.fired == 1


def test_a_fetch_can_fail_and_go_on(kafka: LocalKafka) -> None:
    kafka.put("t", ["v"])
    kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, must_fire=True)
    consumer = ConfluentConsumer({"bootstrap.servers": kafka.address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = []
    while not found:
        found = consumer.consume(1, 0.1)
    assert found[0].value() == b"v"
    consumer.close()
    kafka.end_faults()


def test_a_function_of_the_test_answers(kafka: LocalKafka) -> None:
    kafka.create_topic("t")

    @kafka.on("Metadata")
    def answer(request: Any, proceed: Callable[[], Any]) -> Any:
        response = proceed()
        for topic in response.topics:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    admin = AdminClient({"bootstrap.servers": kafka.address})
    assert admin.list_topics(timeout=10).topics["t"].error.code() == ConfluentError.TOPIC_AUTHORIZATION_FAILED
    answer.end(answer)
    assert admin.list_topics(timeout=10).topics["t"].error is None


def test_a_function_of_the_test_raises_or_passes_on(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    errors = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER])

    @kafka.on("Produce")
    def answer(request: Any, proceed: Callable[[], Any]) -> None:
        code = next(errors, None)
        if code is not None:
            raise KafkaError(code)

    assert produce(kafka, "t", b"v") is None
    assert answer.fired == 3


@pytest.mark.parametrize("returns", [True, False])
def test_a_function_that_proceeds_has_a_request_without_an_answer_carried_out_once(
    kafka: LocalKafka, returns: bool
) -> None:
    kafka.create_topic("t")

    @kafka.on("Produce")
    def answer(request: Any, proceed: Callable[[], Any]) -> Any:
        answered = proceed()
        return answered if returns else None

    # Of one connection: the second record comes when the first is done with.
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, "acks": 0, "linger.ms": 0})
    for value in (b"1", b"2"):
        producer.produce("t", value)
        assert producer.flush(20) == 0
    assert [each.value for each in kafka.wait_for(records=2, topic="t", within=20)] == [b"1", b"2"]


async def test_a_function_that_raises_closes_the_connection_of_a_producer_without_answers(kafka: LocalKafka) -> None:
    kafka.create_topic("t")

    @kafka.on("Produce", times=1)
    def answer(request: Any, proceed: Callable[[], Any]) -> None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    partition = PartitionProduceData(0, encode_batch([OneRecord(offset=0, timestamp_ms=0, value=b"v")]))
    request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[TopicProduceData("t", [partition])])
    host, _, port = kafka.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.writelines(map(bytes, frame.encode_request(ApiKey.PRODUCE, 7, 1, "mine", request)))
    assert await reader.read() == b""
    writer.close()


def test_a_function_that_fails_a_test_closes_the_connection_and_is_reported(kafka: LocalKafka) -> None:
    kafka.create_topic("t")

    @kafka.on("Produce", times=1)
    def answer(request: Any, proceed: Callable[[], Any]) -> None:
        pytest.fail("no order may be sent")

    assert produce(kafka, "t", b"v") is None
    assert any("no order may be sent" in each for each in kafka.handler_failures())


def test_a_function_that_never_returns_does_not_hold_the_broker_up() -> None:
    waiting = threading.Event()
    with testing.kafka() as kafka:

        @kafka.on("Metadata")
        def answer(request: Any, proceed: Callable[[], Any]) -> None:
            waiting.set()
            threading.Event().wait()

        producer = ConfluentProducer({"bootstrap.servers": kafka.address})
        producer.produce("t", b"v")
        assert waiting.wait(20)
        producer.purge()
        producer.flush(1)


def test_a_stall_outlasts_a_restart(kafka_factory: Callable[..., LocalKafka]) -> None:
    kafka = kafka_factory()
    kafka.create_topic("t")
    kafka.stall("Produce")
    producer = ConfluentProducer({"bootstrap.servers": kafka.address})
    producer.produce("t", b"v")
    assert producer.flush(0.5) == 1
    kafka.restart()
    assert producer.flush(0.5) == 1
    kafka.resume()
    assert producer.flush(20) == 0


def test_faults_of_several_threads_end_with_their_blocks(kafka: LocalKafka) -> None:
    def make() -> None:
        for _ in range(50):
            with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER"), kafka.requests():
                pass

    threads = [threading.Thread(target=make) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert produce(kafka, "t", b"v") is None


def test_a_recording_has_bodies_and_answers(kafka: LocalKafka) -> None:
    kafka.create_topic("t")
    with kafka.requests() as seen:
        assert produce(kafka, "t", b"v", **{"client.id": "mine"}) is None
    (sent,) = seen.of("Produce")
    body: Any = sent.body
    answer: Any = sent.answer
    assert (sent.client_id, body.topic_data[0].partition_data[0].index) == ("mine", 0)
    assert answer.responses[0].partition_responses[0].base_offset == 0
    assert "Metadata" in seen.apis()


def test_a_fault_that_met_nothing_fails_the_test_if_it_must(kafka: LocalKafka) -> None:
    with pytest.raises(NeverFired, match=r"fail\('Produce', 'NOT_LEADER_OR_FOLLOWER'\) never fired"):
        with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True):
            pass


@pytest.mark.parametrize(
    ("api", "error", "said"),
    [
        ("Produse", "NONE", "no API 'Produse': did you mean Produce?"),
        ("Produce", "NOT_LEADER", "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ("Produce", 9_999, "no error 9999"),
        ("Produce", 0, "0 is no error"),
        ("Produce", None, "None is no error"),
    ],
)
def test_a_misspelt_fault_names_the_nearest(kafka: LocalKafka, api: str, error: Any, said: str) -> None:
    with pytest.raises(Unavailable) as raised:
        kafka.fail(api, error)
    assert said in str(raised.value)


@pytest.fixture(autouse=True)
def no_fault_is_left(kafka: LocalKafka) -> Iterator[None]:
    yield
    kafka.reset()
    assert produce(kafka, "t", b"v") is None


def test_a_fault_that_must_fire_is_checked_at_a_reset_and_at_the_end_of_with() -> None:
    with pytest.raises(NeverFired), LocalKafka() as kafka:
        kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True)
    with LocalKafka() as kafka:
        kafka.create_topic("t")
        kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True)
        with pytest.raises(NeverFired):
            kafka.reset()
        assert kafka.topics() == []


def test_another_error_goes_before_a_fault_that_never_fired() -> None:
    with pytest.raises(KeyError), LocalKafka() as kafka:
        kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", must_fire=True)
        raise KeyError


def test_a_fault_that_can_meet_nothing_is_refused(kafka: LocalKafka) -> None:
    for times in (0, -1):
        with pytest.raises(Unavailable, match="times is 1 or more"):
            kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=times)
    for seconds in (-1, float("inf"), float("nan"), "1"):
        with pytest.raises(Unavailable, match="a delay is a number of seconds"):
            kafka.delay("Produce", cast(Any, seconds))
    for api in ("Heartbeat", "JoinGroup", "FindCoordinator", "ApiVersions"):
        for place in ({"topic": "t"}, {"partition": 0}):  # type: dict[str, Any]
            with pytest.raises(Unavailable, match=f"would meet no request: {api} names no topic"):
                kafka.fail(api, "REBALANCE_IN_PROGRESS", **place)
    for api in ("Fetch", "ListOffsets", "Metadata", "OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe"):
        with pytest.raises(Unavailable, match=f"would lose no acknowledgement: {api} changes nothing"):
            kafka.fail(api, "REQUEST_TIMED_OUT", after_append=True)
    kafka.fail("OffsetCommit", "REQUEST_TIMED_OUT", after_append=True)
    for api in ("SaslHandshake", "SaslAuthenticate"):
        with pytest.raises(Unavailable, match="would meet no request: the broker's connections handle logins"):
            kafka.fail(api, "SASL_AUTHENTICATION_FAILED")


def test_one_value_in_the_place_of_records_is_refused(kafka: LocalKafka) -> None:
    for value in ("abc", b"abc", Record(b"abc")):
        with pytest.raises(TypeError, match="put takes a list of records"):
            kafka.put("orders", value)  # pyright: ignore[reportArgumentType]
    assert kafka.topics() == []
