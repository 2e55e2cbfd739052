"""The kit with every client: what a test puts in and sees, and faults that clients get over, blocking and asyncio."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import confluent_kafka
import pytest
from odradek.client import Consumer, Producer
from odradek.client import blocking as odradek_blocking
from odradek.testing import Kafka, KafkaCluster, KafkaProcess, LocalKafka, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Other people's packages may use what Python deprecates.
    import aiokafka
    import kafka as kafka_python

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "odradek", "odradek-blocking")
LIBRARIES = {"odradek-blocking": "odradek"}
client = pytest.mark.parametrize("client", CLIENTS)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:unclosed:ResourceWarning")


async def produce(kafka: Kafka, client: str, value: bytes) -> None:
    """Produce one record to `orders`, and wait for its acknowledgement."""
    await _PRODUCE[client](kafka.options(LIBRARIES.get(client, client)), value)


async def consume(kafka: Kafka, client: str) -> bytes | None:
    """Read one record of `orders` as the group `readers`, and commit it."""
    return await _CONSUME[client](kafka.options(LIBRARIES.get(client, client)))


@client
async def test_what_a_client_writes_is_seen(kafka: LocalKafka, client: str) -> None:
    kafka.create_topic("orders")
    with kafka.requests() as seen:
        await produce(kafka, client, b"v")
    assert [each.value for each in kafka.wait_for(records=1, topic="orders", within=5)] == [b"v"]
    assert {"Produce", "Metadata"} <= seen.apis()


@client
async def test_what_is_put_in_is_read_and_committed(kafka: LocalKafka, client: str) -> None:
    kafka.put("orders", [("k", "v")])
    assert await consume(kafka, client) == b"v"
    assert kafka.committed("readers") == {("orders", 0): 1}
    assert kafka.lag("readers") == {("orders", 0): 0}


@client
@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION"])
async def test_a_producer_gets_over_errors(kafka: LocalKafka, client: str, error: str) -> None:
    kafka.create_topic("orders")
    with kafka.fail("Produce", error, times=2, topic="orders", must_fire=True):
        await produce(kafka, client, b"v")
    assert [each.value for each in kafka.records("orders")] == [b"v"]


@client
async def test_an_idempotent_producer_gets_over_a_lost_acknowledgement(kafka: LocalKafka, client: str) -> None:
    kafka.create_topic("orders")
    with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, after_append=True, must_fire=True):
        await produce(kafka, client, b"v")
    assert [each.value for each in kafka.records("orders")] == [b"v"]


@client
async def test_a_producer_gets_over_a_cut(kafka: LocalKafka, client: str) -> None:
    kafka.create_topic("orders")
    with kafka.cut("Produce", in_answer=True, must_fire=True) as cut:  # type: ignore[union-attr]
        await produce(kafka, client, b"v")
    assert (cut.fired, [each.value for each in kafka.records("orders")]) == (1, [b"v"])


@client
async def test_a_consumer_gets_over_errors(kafka: LocalKafka, client: str) -> None:
    kafka.put("orders", ["v"])
    with (
        kafka.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, must_fire=True),
        kafka.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=1, must_fire=True),
        # Not NOT_COORDINATOR: librdkafka then looks for the coordinator until its session has timed out.
        kafka.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1, must_fire=True),
    ):
        assert await consume(kafka, client) == b"v"
    assert kafka.lag("readers") == {("orders", 0): 0}


@client
async def test_a_client_waits_out_a_delay_a_stall_and_a_cut(kafka: LocalKafka, client: str) -> None:
    kafka.create_topic("orders")
    kafka.delay("Metadata", 0.02)
    kafka.cut("Produce", times=1, must_fire=True)
    with kafka.requests() as seen:
        stalled = kafka.stall("InitProducerId")
        waiting = threading.Thread(target=resume_when, args=(kafka, lambda: seen.of("InitProducerId")))
        waiting.start()
        await produce(kafka, client, b"v")
        waiting.join()
    assert stalled.fired
    assert [each.value for each in kafka.records("orders")] == [b"v"]


def resume_when(kafka: LocalKafka, true: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 60
    while not true() and time.monotonic() < deadline_s:
        time.sleep(0.005)
    kafka.resume()


@client
async def test_a_function_of_the_test_answers_a_client(kafka: LocalKafka, client: str) -> None:
    kafka.create_topic("orders")
    asked: list[Any] = []

    @kafka.on("Produce")
    def answer(request: Any, proceed: Callable[[], Any]) -> Any:
        asked.append(request.acks)
        return proceed()

    await produce(kafka, client, b"v")
    assert asked == [-1] and answer.fired == 1
    assert [each.value for each in kafka.records("orders")] == [b"v"]


@client
async def test_what_a_client_wrote_grows_old(kafka: LocalKafka, kafka_clock: LocalKafka, client: str) -> None:
    kafka.create_topic("orders", config={"retention.ms": 3_600_000})
    await produce(kafka, client, b"v")
    kafka_clock.advance(hours=7)
    assert kafka.records("orders") == []
    kafka.put("orders", [Record(key=b"k", value=None), ("k", "new")])
    assert [each.value for each in kafka.records("orders")] == [None, b"new"]


@client
async def test_a_client_goes_on_after_a_snapshot_is_restored(
    kafka_factory: Callable[..., LocalKafka], client: str
) -> None:
    kafka = kafka_factory()
    await produce(kafka, client, b"prepared")
    snapshot = kafka.snapshot()
    await produce(kafka, client, b"gone")
    kafka.restore(snapshot)
    assert await consume(kafka, client) == b"prepared"
    assert kafka.lag("readers") == {("orders", 0): 0}


@client
@pytest.mark.kafka(topics=["orders"])
async def test_a_client_gets_over_the_death_of_a_leader(kafka_cluster: KafkaCluster, client: str) -> None:
    await produce(kafka_cluster, client, b"v")
    leader = kafka_cluster.leader("orders")
    kafka_cluster.kill(leader)
    # The topics of the coordinators are there, though no client has asked for one before.
    assert await consume(kafka_cluster, client) == b"v"
    kafka_cluster.restart(leader)
    kafka_cluster.move_leader("orders", to=leader)
    await produce(kafka_cluster, client, b"w")
    assert [each.value for each in kafka_cluster.records("orders")] == [b"v", b"w"]


@pytest.mark.kafka(config={"log.flush.interval.messages": 1}, topics=["orders"])
async def test_what_a_client_wrote_survives_kills_and_power_cuts(kafka_process: KafkaProcess) -> None:
    written = [f"{moment} {name}".encode() for moment in "vw" for name in _PRODUCE]
    for name, value in zip(_PRODUCE, written, strict=False):
        await produce(kafka_process, name, value)
    kafka_process.kill()
    kafka_process.restart()
    for name, value in zip(_PRODUCE, written[len(_PRODUCE) :], strict=True):
        await produce(kafka_process, name, value)
    kafka_process.lose_power(seed=1)
    kafka_process.restart()
    assert [each.value for each in kafka_process.records("orders")] == written
    # Each goes on where the one before has committed.
    assert [await consume(kafka_process, name) for name in _CONSUME] == written[: len(_CONSUME)]


# -- One record in and out, with each client


async def _confluent_produce(options: dict[str, Any], value: bytes) -> None:
    producer = confluent_kafka.Producer({**options, "enable.idempotence": True, "retry.backoff.ms": 10})
    producer.produce("orders", value)
    assert producer.flush(30) == 0


async def _python_produce(options: dict[str, Any], value: bytes) -> None:
    producer = kafka_python.KafkaProducer(**options, enable_idempotence=True, retry_backoff_ms=10)
    producer.send("orders", value).get(30)
    producer.close()
    gc.collect()  # kafka-python leaves sockets that could not connect, and their warnings belong to this test


async def _aiokafka_produce(options: dict[str, Any], value: bytes) -> None:
    async with aiokafka.AIOKafkaProducer(**options, enable_idempotence=True, retry_backoff_ms=10) as producer:
        await producer.send_and_wait("orders", value)


async def _odradek_produce(options: dict[str, Any], value: bytes) -> None:
    async with Producer(**options, retry_backoff_ms=10) as producer:
        await producer.send_and_wait("orders", value)


async def _blocking_produce(options: dict[str, Any], value: bytes) -> None:
    with odradek_blocking.Producer(**options, retry_backoff_ms=10) as producer:
        producer.send_and_wait("orders", value)


async def _confluent_consume(options: dict[str, Any]) -> bytes | None:
    consumer = confluent_kafka.Consumer({**options, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    record = None
    while record is None or record.error():
        record = consumer.poll(0.1)
    consumer.commit(record, asynchronous=False)
    consumer.close()
    return record.value()


async def _python_consume(options: dict[str, Any]) -> bytes | None:
    consumer = kafka_python.KafkaConsumer("orders", **options, group_id="readers", auto_offset_reset="earliest")
    record = next(consumer)
    consumer.commit()
    consumer.close()
    gc.collect()
    return record.value


async def _aiokafka_consume(options: dict[str, Any]) -> bytes | None:
    usual = {"group_id": "readers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with aiokafka.AIOKafkaConsumer("orders", **options, **usual) as consumer:
        record = await consumer.getone()
        await consumer.commit()
    return record.value


async def _odradek_consume(options: dict[str, Any]) -> bytes | None:
    async with Consumer("orders", **options, group_id="readers", auto_offset_reset="earliest") as consumer:
        record = await consumer.getone()
        await consumer.commit()
    return record.value


async def _blocking_consume(options: dict[str, Any]) -> bytes | None:
    usual: dict[str, Any] = {"group_id": "readers", "auto_offset_reset": "earliest"}
    with odradek_blocking.Consumer("orders", **options, **usual) as consumer:
        record = consumer.getone()
        consumer.commit()
    return record.value


_PRODUCE: dict[str, Callable[[dict[str, Any], bytes], Awaitable[None]]] = {
    "confluent-kafka": _confluent_produce,
    "kafka-python": _python_produce,
    "aiokafka": _aiokafka_produce,
    "odradek": _odradek_produce,
    "odradek-blocking": _blocking_produce,
}
_CONSUME: dict[str, Callable[[dict[str, Any]], Awaitable[bytes | None]]] = {
    "confluent-kafka": _confluent_consume,
    "kafka-python": _python_consume,
    "aiokafka": _aiokafka_consume,
    "odradek": _odradek_consume,
    "odradek-blocking": _blocking_consume,
}
