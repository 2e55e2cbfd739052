"""confluent-kafka's registry client and its serializers, unmodified, against our registry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.registry import LogOptions, Registry, RegistryConfig

pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is missing")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

AVRO = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
JSON = '{"title":"T","type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}'
CONTEXT = SerializationContext("flights", MessageField.VALUE)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SchemaRegistryClient]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),))
    with Broker(config) as broker:
        async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
            client = SchemaRegistryClient({"url": registry.url})
            yield client
            await asyncio.to_thread(client.__exit__, None, None, None)


async def test_avro_goes_there_and_back(client: SchemaRegistryClient) -> None:
    def work() -> Any:
        written = AvroSerializer(client, AVRO)({"a": 1}, CONTEXT)
        assert written is not None and written[:5] == b"\0\0\0\0\1"
        return AvroDeserializer(client)(written, CONTEXT)

    assert await asyncio.to_thread(work) == {"a": 1}


async def test_json_goes_there_and_back(client: SchemaRegistryClient) -> None:
    def work() -> Any:
        written = JSONSerializer(JSON, client)({"a": 1}, CONTEXT)
        return JSONDeserializer(None, schema_registry_client=client)(written, CONTEXT)

    assert await asyncio.to_thread(work) == {"a": 1}


async def test_the_client_administers(client: SchemaRegistryClient) -> None:
    def work() -> None:
        first, other = Schema(AVRO, "AVRO"), Schema(json.dumps({"type": "long"}), "AVRO")
        assert client.register_schema("s", first) == 1
        assert client.lookup_schema("s", first).version == 1
        assert client.get_latest_version("s").schema.schema_str == AVRO
        assert client.get_schema(1).schema_str == AVRO
        assert client.get_subjects() == ["s"] and client.get_versions("s") == [1]
        assert client.test_compatibility("s", first) and not client.test_compatibility("s", other)
        assert client.get_compatibility() == "BACKWARD"
        assert client.set_compatibility("s", "NONE") == {"compatibility": "NONE"}
        assert client.register_schema("s", other) == 2
        assert client.delete_subject("s") == [1, 2] and client.delete_subject("s", permanent=True) == [1, 2]
        client.clear_latest_caches()
        with pytest.raises(SchemaRegistryError) as failed:
            client.get_latest_version("s")
        assert (failed.value.http_status_code, failed.value.error_code) == (404, 40401)

    await asyncio.to_thread(work)
