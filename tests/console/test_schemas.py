"""Records in Avro and by JSON Schema, by the schemas of a registry."""

from __future__ import annotations

from dataclasses import replace

from odradek.broker import Broker
from odradek.client import Producer
from odradek.client.schemas import Avro, JsonSchema, SchemaRegistry
from odradek.console import Console, ConsoleConfig
from odradek.console.reading.schemas import Schemas
from odradek.registry import LogOptions, Registry, RegistryConfig
from odradek.tests.console.conftest import Browser

SCHEMA = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "int"}]}


async def test_records_are_shown_and_filtered_by_their_schema(broker: Broker, config: ConsoleConfig) -> None:
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        async with Producer(broker.address, value_serializer=Avro(registry.url, SCHEMA)) as producer:
            for number in range(20):
                await producer.send("t", {"number": number})
        async with Console(replace(config, schemas=Schemas(registry.url))) as console:
            browser = Browser(console.url)
            page = await browser.get("/topics/t/records?filter=value.number+%3E%3D+18")
            one = await browser.get("/topics/t/records/0/3?as=avro")
    assert page.text.count("data-new") == 2 and "{&#34;number&#34;: 19}" in page.text and "avro" in page.visible
    assert "&#34;number&#34;: 3" in one.text


async def test_json_is_shown_as_consume_prints_it(broker: Broker, config: ConsoleConfig) -> None:
    """Also bytes of Avro, which have no form in JSON."""
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
        async with Producer(broker.address, value_serializer=JsonSchema(registry.url, schema)) as producer:
            await producer.send("t", {"number": 19})
        async with Producer(broker.address, value_serializer=Avro(registry.url, '"bytes"')) as producer:
            await producer.send("t2", b"abc")
        async with Console(replace(config, schemas=Schemas(registry.url))) as console:
            browser = Browser(console.url)
            page = await browser.get("/topics/t/records?filter=value.number+%3D%3D+19")
            one = await browser.get("/topics/t/records/0/0?as=avro")
            other = await browser.get("/topics/t2/records")
    assert page.text.count("data-new") == 1 and "{&#34;number&#34;: 19}" in page.text and "json-schema" in page.visible
    assert "not avro: its schema makes it json-schema" in one.visible
    assert "{&#34;base64&#34;: &#34;YWJj&#34;}" in other.text


async def test_without_an_answer_of_the_registry_the_bytes_are_shown(broker: Broker, config: ConsoleConfig) -> None:
    async with Producer(broker.address) as producer:
        await producer.send("t", b"\x00\x00\x00\x00\x07\x54")
    schemas = Schemas(SchemaRegistry("http://127.0.0.1:1", timeout_ms=500))
    async with Console(replace(config, schemas=schemas)) as console:
        browser = Browser(console.url)
        guessed, chosen = await browser.get("/topics/t/records"), await browser.get("/topics/t/records?as=avro")
    assert "00 00 00 00 07 54" in guessed.text
    assert "not avro: the registry has not said what the schema is" in chosen.visible
