"""JSON Schema by a registry, through our producer and consumer, and against confluent-kafka's serializers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import blocking
from odradek.client.errors import DeserializationFailed, InvalidOption, SerializationFailed
from odradek.client.schemas import JsonSchema, Schema
from odradek.client.schemas.json_schema import BadJson, _validator  # pyright: ignore[reportPrivateUsage]
from odradek.registry import Registry
from odradek.tests.registry.conftest import Client

FLIGHT = {
    "title": "Flight",
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
    "additionalProperties": False,
}


def reader(broker: Broker, registry: Registry) -> blocking.Consumer[Any, Any]:
    options = {"auto_offset_reset": "earliest", "value_deserializer": JsonSchema(registry.url)}
    return blocking.Consumer("flights", bootstrap_servers=broker.address, **options)


async def test_blocking_clients_write_and_read(broker: Broker, registry: Registry) -> None:
    def work() -> list[Any]:
        with blocking.Producer(broker.address, value_serializer=JsonSchema(registry.url, FLIGHT)) as producer:
            producer.send_and_wait("flights", {"number": 1})
            producer.send_many("flights", ((None, {"number": number}) for number in range(2, 9)))
            for wrong in ({}, {"number": "1"}, {"number": 1, "other": 2}, {"number": float("nan")}):
                with pytest.raises(SerializationFailed):
                    producer.send("flights", wrong)
        with reader(broker, registry) as consumer:
            return [next(consumer).value["number"] for _ in range(8)]

    assert await asyncio.to_thread(work) == list(range(1, 9))


async def test_a_value_that_its_schema_does_not_allow_is_a_bad_record(broker: Broker, registry: Registry) -> None:
    def work() -> None:
        ours = JsonSchema(registry.url, FLIGHT)
        good = ours.encode({"number": 1}, "flights")
        with blocking.Producer(broker.address) as producer:
            producer.send_many("flights", [(None, good[:5] + b'{"number":"x"}'), (None, good[:5] + b"{")])
        with reader(broker, registry) as consumer:
            for offset in (0, 1):
                with pytest.raises(DeserializationFailed) as failed:
                    next(consumer)
                assert failed.value.offset == offset
                consumer.seek(failed.value.partition, offset + 1)

    await asyncio.to_thread(work)


async def test_references_are_those_that_the_registry_knows(registry: Registry, ask: Client) -> None:
    await ask("POST", "/subjects/code/versions", {"schemaType": "JSON", "schema": '{"enum":["UA","DL"]}'})
    outer = {
        "schemaType": "JSON",
        "schema": '{"type":"object","properties":{"c":{"$ref":"code.json"}}}',
        "references": [{"name": "code.json", "subject": "code", "version": 1}],
    }
    assert (await ask("POST", "/subjects/flights-value/versions", outer))[0] == 200
    ours = JsonSchema(registry.url)
    assert await asyncio.to_thread(ours.encode, {"c": "UA"}, "flights") == b'\0\0\0\0\2{"c":"UA"}'
    with pytest.raises(ValueError, match="is not one of"):
        await asyncio.to_thread(ours.encode, {"c": "XX"}, "flights")


def test_nothing_is_fetched_for_a_reference() -> None:
    check = _validator('{"$ref":"http://127.0.0.1:1/a.json"}', {})
    with pytest.raises(Exception, match="Unresolvable"):
        next(check.iter_errors(1))
    with pytest.raises(InvalidOption, match="is not valid"):
        _validator('{"type":"strange"}', {})


async def test_confluents_serializers_understand_ours(registry: Registry) -> None:
    pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is missing")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    def work() -> None:
        context = SerializationContext("flights", MessageField.VALUE)
        client = SchemaRegistryClient({"url": registry.url})
        ours = JsonSchema(registry.url, FLIGHT)
        theirs = JSONSerializer(json.dumps(FLIGHT), client)({"number": 1}, context)
        assert theirs is not None and theirs[:5] == ours.encode({"number": 1}, "flights")[:5]
        read = JSONDeserializer(None, schema_registry_client=client)
        assert read(ours.encode({"number": 1}, "flights"), context) == {"number": 1}
        assert ours.decode(theirs, "flights") == {"number": 1}
        client.__exit__(None, None, None)

    await asyncio.to_thread(work)


SLOW = "^(a+)+$"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, "a" * 40 + "b"),
        ({"patternProperties": {SLOW: {"type": "integer"}}, "additionalProperties": False}, {"a" * 40 + "b": 1}),
        ({"patternProperties": {SLOW: {}}, "unevaluatedProperties": False}, {"a" * 40 + "b": 1}),
        ({"propertyNames": {"pattern": SLOW}}, {"a" * 40 + "b": 1}),
        ({"$schema": DRAFT_7, "items": [{"pattern": SLOW}]}, ["a" * 40 + "b"]),
        ({"allOf": [{"$schema": DRAFT_7, "pattern": SLOW}]}, "a" * 40 + "b"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$schema": DRAFT_7, "not": {"pattern": SLOW}, "type": "null"}}},
         "a" * 40 + "b"),
    ],
)  # fmt: skip
def test_no_pattern_stops_a_reader(schema: dict[str, Any], value: Any) -> None:
    checks = JsonSchema("http://h", schema)
    given = Schema(json.dumps(schema), "JSON")
    begun_s = time.thread_time()
    with pytest.raises(BadJson):
        checks._encoder(checks.registry, given)(value)  # pyright: ignore[reportPrivateUsage]
    # Python's own would take years.
    assert time.thread_time() - begun_s < 5


def test_patterns_that_match_and_one_that_is_not_known() -> None:
    schema = {"patternProperties": {"^x-": {"type": "integer"}}, "properties": {"a": {"pattern": "^\\p{L}+$"}},
              "additionalProperties": False}  # fmt: skip
    checks = JsonSchema("http://h", schema)
    encode = checks._encoder(checks.registry, Schema(json.dumps(schema), "JSON"))  # pyright: ignore[reportPrivateUsage]
    assert encode({"x-a": 1, "a": "é\ud800"[:1]}) and encode({})
    for wrong in ({"x-a": "1"}, {"b": 1}, {"a": "1"}):
        with pytest.raises(BadJson):
            encode(wrong)
    ahead = {"pattern": "(?=a)b"}
    checks = JsonSchema("http://h", ahead)
    with pytest.raises(BadJson, match="RE2 does not know the pattern"):
        checks._encoder(checks.registry, Schema(json.dumps(ahead), "JSON"))("b")  # pyright: ignore[reportPrivateUsage]
