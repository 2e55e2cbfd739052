"""Avro by a registry, through our producer and consumer, and against confluent-kafka's serializers."""

from __future__ import annotations

import asyncio
import datetime
import pickle
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.core.serialization import SchemaMissing
from odradek.client.errors import (
    DeserializationFailed,
    InvalidOption,
    SchemaRegistryRefused,
    SchemaRegistryUnavailable,
    SerializationFailed,
)
from odradek.client.schemas import Avro, Reference, SchemaRegistry, record_name, topic_record_name
from odradek.client.schemas.avro import BadAvro
from odradek.registry import Registry
from odradek.tests.registry.conftest import Client

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [{"name": "number", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
LATER = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "delay", "type": "long", "default": 0}]}


async def read(broker: Broker, topic: str, count: int, **options: Any) -> list[Any]:
    """Return the values of a topic."""
    async with Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", **options) as consumer:
        return [(await anext(consumer)).value for _ in range(count)]


async def test_records_go_there_and_back(broker: Broker, registry: Registry, ask: Client) -> None:
    avro = Avro(registry.url, FLIGHT)
    async with Producer(
        broker.address, value_serializer=avro, key_serializer=Avro(registry.url, '"string"')
    ) as producer:
        await producer.send_and_wait("flights", {"number": 1}, key="UA")
        await producer.send_many("flights", [("UA", {"number": number, "note": "x"}) for number in range(2, 50)])
        await producer.send_nowait("flights", {"number": 50}, key="UA")
        await producer.send_and_wait("flights", None, key="UA")
    assert (await ask("GET", "/subjects"))[1] == ["flights-key", "flights-value"]
    found = await read(broker, "flights", 51, value_deserializer=Avro(registry.url))
    assert found[0] == {"number": 1, "note": None} and found[1]["note"] == "x"
    assert [each["number"] for each in found[:50]] == list(range(1, 51)) and found[50] is None


async def test_a_reader_with_a_schema_of_its_own_sees_every_record_so(broker: Broker, registry: Registry) -> None:
    for schema in (FLIGHT, LATER):
        async with Producer(broker.address, value_serializer=Avro(registry.url, schema)) as producer:
            await producer.send_and_wait("flights", {"number": 1})
    old = {"number": 1, "note": None}
    assert await read(broker, "flights", 2, value_deserializer=Avro(registry.url)) == [old, {**old, "delay": 0}]
    assert await read(broker, "flights", 2, value_deserializer=Avro(registry.url, FLIGHT)) == [old] * 2
    latest = Avro(registry.url, use_latest=True)
    assert await read(broker, "flights", 2, value_deserializer=latest) == [{**old, "delay": 0}] * 2


async def test_the_latest_version_is_written_where_no_schema_is_given(
    broker: Broker, registry: Registry, ask: Client
) -> None:
    async with Producer(broker.address, value_serializer=Avro(registry.url)) as producer:
        with pytest.raises(SchemaRegistryRefused) as refused:
            await producer.send("flights", {"number": 1})
        assert refused.value.registry_code == 40401
    await asyncio.to_thread(Avro(registry.url, LATER).encode, {"number": 1}, "flights")
    async with Producer(broker.address, value_serializer=Avro(registry.url)) as producer:
        await producer.send_and_wait("flights", {"number": 7, "delay": 3})
    found = await read(broker, "flights", 1, value_deserializer=Avro(registry.url))
    assert found == [{"number": 7, "note": None, "delay": 3}]


async def test_what_the_schema_does_not_allow_is_not_sent(broker: Broker, registry: Registry) -> None:
    async with Producer(broker.address, value_serializer=Avro(registry.url, FLIGHT)) as producer:
        for value in ({"number": "x"}, {"number": 2**40}, {"number": 1, "other": 2}, {}, [1], "text"):
            with pytest.raises(SerializationFailed):
                await producer.send("flights", value)


async def test_a_change_that_the_registry_refuses_is_told(broker: Broker, registry: Registry) -> None:
    await asyncio.to_thread(Avro(registry.url, FLIGHT).encode, {"number": 1}, "flights")
    wrong = {**FLIGHT, "fields": [{"name": "number", "type": "string"}]}
    async with Producer(broker.address, value_serializer=Avro(registry.url, wrong)) as producer:
        with pytest.raises(SchemaRegistryRefused, match="incompatible") as refused:
            await producer.send("flights", {"number": "1"})
        assert (refused.value.status, refused.value.registry_code) == (409, 409)
    careful = Avro(registry.url, LATER, auto_register=False)
    async with Producer(broker.address, value_serializer=careful) as producer:
        with pytest.raises(SchemaRegistryRefused) as refused:
            await producer.send("flights", {"number": 1})
        assert refused.value.registry_code == 40403


async def test_nobody_waits_in_send_nowait(broker: Broker, registry: Registry) -> None:
    avro = Avro(registry.url, FLIGHT)
    async with Producer(broker.address, value_serializer=avro) as producer:
        await producer.partitions_for("flights")
        with pytest.raises(SerializationFailed, match="use a method that waits"):
            producer.send_nowait("flights", {"number": 1})
        await producer.send("flights", {"number": 1})
        producer.send_nowait("flights", {"number": 1})


BAD = [b"", b"{}", b"\0\0\0\0", b"\0\0\0\0\x63x", b"\1\0\0\0\1\2", b"\0\0\0\0\1\2", b"\0\0\0\0\1\2\0\0"]


async def test_a_bad_record_holds_its_partition_until_somebody_seeks(broker: Broker, registry: Registry) -> None:
    good = await asyncio.to_thread(Avro(registry.url, FLIGHT).encode, {"number": 1}, "flights")
    async with Producer(broker.address) as producer:
        await producer.send_many("flights", [(None, value) for bad in BAD for value in (good, bad)])
    options = {"auto_offset_reset": "earliest", "value_deserializer": Avro(registry.url)}
    async with Consumer("flights", bootstrap_servers=broker.address, **options) as consumer:
        for offset in range(0, 2 * len(BAD), 2):
            record = await anext(consumer)
            assert (record.offset, record.value["number"]) == (offset, 1)
            for _ in range(2):
                with pytest.raises(DeserializationFailed) as failed:
                    await anext(consumer)
                assert failed.value.offset == offset + 1
            consumer.seek(TopicPartition("flights", 0), offset + 2)


async def test_a_registry_that_is_away_makes_no_record_bad(broker: Broker, registry: Registry) -> None:
    away = SchemaRegistry("http://127.0.0.1:1", timeout_ms=50)
    content = await asyncio.to_thread(Avro(registry.url, FLIGHT).encode, {"number": 1}, "flights")
    async with Producer(broker.address, value_serializer=Avro(away, FLIGHT)) as producer:
        with pytest.raises(SchemaRegistryUnavailable):
            await producer.send("flights", {"number": 1})
    async with Producer(broker.address) as producer:
        await producer.send_and_wait("flights", content)
    avro = Avro(away)
    options = {"auto_offset_reset": "earliest", "value_deserializer": avro, "group_id": "g"}
    async with Consumer("flights", bootstrap_servers=broker.address, **options) as consumer:
        with pytest.raises(SchemaRegistryUnavailable) as failed:
            await consumer.getmany(timeout_ms=10_000)
        assert failed.value.retriable
        with pytest.raises(SchemaRegistryUnavailable):
            await consumer.consume(lambda record: asyncio.sleep(0))
        avro.registry = SchemaRegistry(registry.url)
        found = await consumer.getmany(timeout_ms=10_000)
        assert [each.value["number"] for each in found[TopicPartition("flights", 0)]] == [1]


async def test_handlers_and_streams_wait_for_schemas(broker: Broker, registry: Registry) -> None:
    async with Producer(broker.address, value_serializer=Avro(registry.url, FLIGHT)) as producer:
        await producer.send_many("flights", [(None, {"number": number}) for number in range(3)])
    options = {"bootstrap_servers": broker.address, "auto_offset_reset": "earliest"}
    seen: list[int] = []
    async with Consumer("flights", value_deserializer=Avro(registry.url), group_id="a", **options) as consumer:

        async def handle(record: Any) -> None:
            seen.append(record.value["number"])
            if len(seen) == 3:
                await consumer.drain()

        await consumer.consume(handle)
    assert seen == [0, 1, 2]
    avro = Avro(SchemaRegistry("http://127.0.0.1:1", timeout_ms=50))
    async with Consumer(value_deserializer=avro, group_id="b", **options) as consumer:
        (stream,) = consumer.streams({"flights": 1})["flights"]
        with pytest.raises(SchemaRegistryUnavailable):
            await anext(stream)
        avro.registry = SchemaRegistry(registry.url)
        assert [(await anext(stream)).value["number"] for _ in range(3)] == [0, 1, 2]


async def test_many_senders_ask_the_registry_once(broker: Broker, registry: Registry, monkeypatch: Any) -> None:
    avro, asked = Avro(registry.url, FLIGHT), list[str]()
    door = type(avro.registry._door)  # pyright: ignore[reportPrivateUsage]
    ask = door.ask

    def counting(self: Any, method: str, path: str, body: object = None) -> Any:
        asked.append(path)
        return ask(self, method, path, body)

    monkeypatch.setattr(door, "ask", counting)
    async with Producer(broker.address, value_serializer=avro) as producer:
        await asyncio.gather(*(producer.send_and_wait("flights", {"number": number}) for number in range(100)))
    assert asked == ["/subjects/flights-value/versions"]


async def test_subjects_are_named_as_the_user_wants(registry: Registry, ask: Client) -> None:
    for name in (record_name, topic_record_name):
        await asyncio.to_thread(Avro(registry.url, FLIGHT, subject=name).encode, {"number": 1}, "flights")
    assert (await ask("GET", "/subjects"))[1] == ["air.Flight", "flights-air.Flight"]
    with pytest.raises(InvalidOption, match="needs a schema that has a name"):
        Avro(registry.url, '"int"', subject=record_name).encode(1, "flights")


async def test_references_are_followed(registry: Registry, ask: Client) -> None:
    await ask("POST", "/subjects/code/versions", {"schema": '{"type":"enum","name":"air.Code","symbols":["UA","DL"]}'})
    outer = {
        "schema": '{"type":"record","name":"F","fields":[{"name":"c","type":"air.Code"}]}',
        "references": [{"name": "air.Code", "subject": "code", "version": 1}],
    }
    assert (await ask("POST", "/subjects/flights-value/versions", outer))[0] == 200
    avro = Avro(registry.url)
    written = await asyncio.to_thread(avro.encode, {"c": "DL"}, "flights")
    assert written == b"\0\0\0\0\2\2"
    with pytest.raises(SchemaMissing):
        Avro(registry.url).decode_at_once(written, "flights", "value")
    assert await asyncio.to_thread(avro.decode, written, "flights") == {"c": "DL"}
    assert avro.decode_at_once(written, "flights", "value") == {"c": "DL"}
    again = pickle.loads(pickle.dumps(avro))
    assert await asyncio.to_thread(again.decode, written) == {"c": "DL"}


async def test_values_that_are_deeper_than_a_stack_are_bad_records(registry: Registry) -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    avro = Avro(registry.url, node)
    written = await asyncio.to_thread(avro.encode, {"next": None}, "t")
    assert await asyncio.to_thread(avro.decode, written, "t") == {"next": None}
    assert avro.decode_at_once(b"\0\0\0\0\1" + b"\2" * 50 + b"\0", "t", "value")["next"] is not None
    with pytest.raises(BadAvro, match="RecursionError"):
        avro.decode_at_once(b"\0\0\0\0\1" + b"\2" * 100_000 + b"\0", "t", "value")


async def test_items_of_no_bytes_are_not_read(registry: Registry) -> None:
    avro = Avro(registry.url, {"type": "array", "items": "null"})
    written = await asyncio.to_thread(avro.encode, [None], "t")
    with pytest.raises(InvalidOption, match="items that take no bytes"):
        await asyncio.to_thread(avro.decode, written, "t")


async def test_confluents_serializers_understand_ours(registry: Registry) -> None:
    pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is missing")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    def work() -> None:
        import json

        context = SerializationContext("flights", MessageField.VALUE)
        client = SchemaRegistryClient({"url": registry.url})
        ours = Avro(registry.url, FLIGHT)
        value = {"number": 1, "note": "a"}
        theirs = AvroSerializer(client, json.dumps(FLIGHT))(value, context)
        assert theirs == ours.encode(value, "flights")
        assert AvroDeserializer(client)(ours.encode(value, "flights"), context) == value
        assert ours.decode(theirs, "flights") == value
        client.__exit__(None, None, None)

    await asyncio.to_thread(work)


async def test_a_schema_with_references_is_registered_with_them(registry: Registry, ask: Client) -> None:
    await ask("POST", "/subjects/code/versions", {"schema": '{"type":"enum","name":"air.Code","symbols":["UA","DL"]}'})
    outer = {"type": "record", "name": "F", "fields": [{"name": "c", "type": "air.Code"}]}
    avro = Avro(registry.url, outer, references=(Reference("air.Code", "code", 1),), subject=record_name)
    assert await asyncio.to_thread(avro.encode, {"c": "UA"}, "flights") == b"\0\0\0\0\2\0"
    assert (await ask("GET", "/subjects/code/versions/1/referencedby"))[1] == [2]
    assert (await ask("GET", "/subjects/F/versions"))[1] == [1]


TIMES = {
    "timestamp-millis": "long", "timestamp-micros": "long", "local-timestamp-millis": "long",
    "local-timestamp-micros": "long", "date": "int", "time-millis": "int", "time-micros": "long",
}  # fmt: skip


async def test_a_time_that_python_does_not_have_is_the_number_that_was_written(
    broker: Broker, registry: Registry
) -> None:
    kinds = {name: {"type": kind, "logicalType": name} for name, kind in TIMES.items()}
    fields = [{"name": name.replace("-", "_"), "type": ["null", kind]} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "Times", "fields": fields}
    far = {each["name"]: (1 << 62) if "long" in str(each["type"]) else (1 << 31) - 1 for each in fields}
    before = {name: -number for name, number in far.items()}
    mixed = {**far, "date": datetime.date(2026, 11, 24), "timestamp_millis": None}
    avro = Avro(registry.url, schema)
    async with Producer(broker.address, value_serializer=avro) as producer:
        for value in (far, before, mixed):
            await producer.send_and_wait("times", value)
    assert await read(broker, "times", 3, value_deserializer=Avro(registry.url)) == [far, before, mixed]
    assert await read(broker, "times", 3, value_deserializer=Avro(registry.url, schema)) == [far, before, mixed]
