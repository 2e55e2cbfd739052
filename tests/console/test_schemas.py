"""Records in Avro and by JSON Schema, by the schemas of a registry, and the page of those schemas."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from odradek.broker import Broker
from odradek.client import Producer
from odradek.client.schemas import Avro, JsonSchema, Reference, Schema, SchemaRegistry
from odradek.console import Console, ConsoleConfig
from odradek.console.reading.schemas import Schemas
from odradek.registry import LogOptions, Registry, RegistryConfig
from odradek.tests.console.conftest import Browser
from odradek.tests.console.pages import faults

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


FIRST = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "number", "type": "int"}, {"name": "<b>", "type": "int"}],
}


async def test_subjects_have_a_page_with_versions_differences_and_compatibility(
    broker: Broker, config: ConsoleConfig
) -> None:
    changed = json.loads(
        json.dumps(FIRST).replace('"<b>", "type": "int"', '"other", "type": "int"').replace("<b>", "b")
    )
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        client = SchemaRegistry(registry.url)

        def fill() -> None:
            first = json.dumps({**FIRST, "fields": FIRST["fields"][:1]})
            for text in (first, json.dumps(changed)):
                client.register("flights-value", Schema(text))
                client.set_compatibility("NONE", "flights-value")
            client.set_compatibility("BACKWARD", "flights-value")
            client.register("<script>/?&", Schema("message A {}", "PROTOBUF"))
            client.register(
                "refers", Schema('import "a"; message B {}', "PROTOBUF", (Reference("a", "<script>/?&", 1),))
            )

        async with Console(replace(config, schemas=Schemas(client), read_only=True)) as console:
            browser = Browser(console.url)
            empty = await browser.get("/schemas")
            await asyncio.to_thread(fill)
            listed, found = await browser.get("/schemas"), await browser.get("/schemas?q=fl")
            one = await browser.get("/schemas?subject=flights-value")
            turned = await browser.get("/schemas?subject=flights-value&version=1&against=2")
            odd = await browser.get("/schemas?subject=%3Cscript%3E%2F%3F%26")
            refers = await browser.get("/schemas?subject=refers")
            missing = [await browser.get(f"/schemas?subject={each}") for each in ("x", "refers&version=7")]
            wrong = await browser.get("/schemas?subject=refers&version=x")
    pages = [empty, listed, found, one, turned, odd, refers]
    assert [faults(each.text) for each in pages] == [[]] * len(pages)
    assert "There are no schemas yet" in empty.visible
    assert "flights-value AVRO 2 2 BACKWARD" in listed.visible and "PROTOBUF" in listed.visible
    assert "flights-value" in found.visible and "PROTOBUF" not in found.visible
    assert "No : BACKWARD does not allow it" in one.visible and "READER_FIELD_MISSING_DEFAULT_VALUE" in one.visible
    assert "+ &#34;name&#34;: &#34;other&#34;" in one.visible
    assert "Yes , by BACKWARD" in turned.visible and "- &#34;name&#34;: &#34;other&#34;" in turned.visible
    assert "message A {}" in odd.visible and "Differences" not in odd.visible
    assert "subject=%3Cscript%3E" in refers.text
    assert [each.status for each in missing] == [404, 404] and wrong.status == 400


async def test_without_a_registry_the_page_of_schemas_says_so(config: ConsoleConfig) -> None:
    away = Schemas(SchemaRegistry("http://127.0.0.1:1", timeout_ms=500))
    for schemas, text in ((None, "start it with --registry"), (away, "127.0.0.1:1")):
        async with Console(replace(config, schemas=schemas)) as console:
            page = await Browser(console.url).get("/schemas")
        assert page.status == 200 and text in page.visible and faults(page.text) == []
    async with Console(replace(config, login="a:b")) as console:
        assert (await Browser(console.url).get("/schemas")).status == 401
