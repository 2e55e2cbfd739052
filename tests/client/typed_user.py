"""Code of a user who checks types strictly: `make lint` reads it with the client's types, and nobody runs it.

`assert_type` holds what a type checker must infer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_type

from odradek.client import (
    Admin,
    BulkMetadata,
    ConfigResource,
    Consumer,
    ConsumerRecord,
    DeadLetterTopic,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    ShareConsumer,
    ShareRecord,
    SimpleConsumer,
    TopicPartition,
    blocking,
    read_topic,
    wait_for_broker,
)  # fmt: skip
from odradek.client.errors import DeliveryFailed, ItemsFailed, Outcome
from odradek.client.schemas import Avro, JsonSchema, SchemaRegistry, record_name


def by_airline(key: object, partitions: Sequence[int], available: Sequence[int]) -> int:
    return partitions[0] if key else available[-1]


class Source(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, ("source", b"tower")))


async def main() -> None:
    nodes = await wait_for_broker("127.0.0.1:9092", timeout_ms=1)
    print(nodes[0].host)
    async with Admin("127.0.0.1:9092") as admin:
        try:
            await admin.create_topics([NewTopic("a", 1)])
        except ItemsFailed as error:
            for name, failed in error.failures.items():
                print(name, failed.code.name)
        await admin.create_topics(NewTopic("b"), NewTopic("c"), validate_only=True)
        described = await admin.describe_topics(name for name in ["a", "b"])
        print(described["a"].partitions[0].leader)
        configs = await admin.describe_configs([ConfigResource.topic("a")])
        print({name: entry.value for each in configs.values() for name, entry in each.items()})
    producer: Producer[str, dict[str, int]] = Producer(
        "x:1", key_serializer="str", value_serializer="json", partitioner=by_airline, interceptors=[Source()]
    )
    async with producer:
        assert_type(await producer.send_and_wait("t", {"a": 1}, key="k"), RecordMetadata)
        future = await producer.send("t", {"a": 1})
        try:
            assert_type(await future, RecordMetadata)
        except DeliveryFailed as error:
            assert error.outcome is Outcome.UNKNOWN
        done = await producer.send_many("t", ((None, {"a": n}) for n in range(3)))
        assert_type(done, BulkMetadata)
        async with producer.transaction():
            await producer.send_offsets({TopicPartition("t", 0): 1}, "g")
        for metric in producer.metrics():
            print(metric.name, metric.value)
    consumer: Consumer[str, dict[str, int]] = Consumer(
        "t", group_id="g", key_deserializer="str", value_deserializer="json"
    )

    async def handle(record: ConsumerRecord[str, dict[str, int]]) -> None:
        print(record.value)

    async with consumer:
        found = await consumer.getmany(timeout_ms=1)
        assert_type(found, dict[TopicPartition, list[ConsumerRecord[str, dict[str, int]]]])
        async for record in consumer:
            assert_type(record, ConsumerRecord[str, dict[str, int]])
            assert_type(record.value, dict[str, int] | None)
        await consumer.commit({TopicPartition("t", 0): OffsetAndMetadata(1, "x")})
        committed = await consumer.committed(TopicPartition("t", 0))
        assert_type(committed, dict[TopicPartition, OffsetAndMetadata | None])
        await consumer.consume(handle, dead_letters=DeadLetterTopic(Producer(), "dead"))
        for stream in consumer.streams({"t": 2})["t"]:
            print((await anext(stream)).offset)
        async for columns in consumer.batches():
            print(columns.values[0])
        print(consumer.explain(), consumer.group_metadata())
    async with SimpleConsumer("127.0.0.1", 1) as simple:
        print((await simple.fetch("t", 0, offset=0)).next_offset)
    table = await read_topic("t", format="pandas", progress=lambda done, total: None)
    print(table)


def plain() -> None:
    with blocking.Producer("x:1") as producer:
        assert_type(producer.send("t", b"x").result(), RecordMetadata)
        assert_type(producer.send_and_wait("t", b"x"), RecordMetadata)
        with producer.transaction():
            producer.send("t", b"y")
    with blocking.Consumer("t", group_id="g") as consumer:
        for records in consumer.getmany(timeout_ms=1).values():
            print(records[0].value)
        for record in consumer:
            print(record.value)
        consumer.consume(lambda record: print(record.value), concurrency=2)
    with blocking.Admin() as admin:
        assert_type(admin.list_topics(), list[str])
        print(admin.describe_topics("t")["t"].partitions)


async def deserialized() -> None:
    """A deserializer says what records have. A name does not, and without one they keep their bytes."""
    async with Consumer("t", key_deserializer=bytes.decode, value_deserializer=json.loads) as read:
        assert_type(await read.getone(), ConsumerRecord[str, Any])
    async with Consumer("t", value_deserializer="json") as named:
        assert_type(await named.getone(), ConsumerRecord[bytes, Any])
    async with Consumer("t") as plainly:
        assert_type((await plainly.getone()).value, bytes | None)
    async with ShareConsumer("t", group_id="g", value_deserializer="json") as shared:
        assert_type(await shared.getone(), ShareRecord[bytes, Any])
    with blocking.Consumer("t", value_deserializer="json") as blocked:
        assert_type(next(blocked), ConsumerRecord[Any, Any])


async def share_typed() -> None:
    async with ShareConsumer[str, dict[str, int]](
        "jobs", group_id="g", key_deserializer="str", value_deserializer="json"
    ) as consumer:
        record = await consumer.getone()
        assert_type(record, ShareRecord[str, dict[str, int]])
        assert_type(record.delivery_count, int)
        consumer.accept(record)
        assert_type(await consumer.getmany(), dict[TopicPartition, list[ShareRecord[str, dict[str, int]]]])
        assert_type(await consumer.commit(), None)


def share_typed_blocking() -> None:
    with blocking.ShareConsumer[str, bytes]("jobs", group_id="g") as consumer:
        for record in consumer:
            assert_type(record, ShareRecord[str, bytes])
            consumer.release(record)
            assert_type(consumer.lock_left_ms(record), float)


async def by_schemas() -> None:
    registry = SchemaRegistry("https://registry:8081", login="ann:secret", ca_file="ca.pem")
    flight = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "int"}]}
    avro, checked = Avro(registry, flight, subject=record_name), JsonSchema(registry, {"type": "object"})
    async with Producer[str, dict[str, int]](key_serializer="str", value_serializer=avro) as producer:
        assert_type(await producer.send_and_wait("flights", {"number": 1}, key="UA"), RecordMetadata)
    async with Consumer[str, dict[str, int]]("flights", key_deserializer="str", value_deserializer=checked) as consumer:
        assert_type((await consumer.getone()).value, dict[str, int] | None)
    assert_type(registry.latest("flights-value").version, int)
