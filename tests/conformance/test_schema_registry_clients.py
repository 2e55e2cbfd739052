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
from odradek.tests.support.brokers.process import FEW_PARTITIONS

pytest.importorskip("authlib", reason="confluent-kafka[schemaregistry] is missing")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

AVRO = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
JSON = '{"title":"T","type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}'
CONTEXT = SerializationContext("flights", MessageField.VALUE)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SchemaRegistryClient]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),), **FEW_PARTITIONS)
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


def protobuf_class(kind: str) -> Any:
    """A message whose file imports one that imports another, as protoc makes it. `kind` is the type of a field."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    files = {"c": (f"int32 {kind}", ()), "b": ("c.C", ("c.proto",)),
             "a": ("b.B", ("b.proto", "google/protobuf/timestamp.proto"))}  # fmt: skip
    for name, (of, imports) in files.items():
        made = FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3", dependency=imports)
        field = made.message_type.add(name=name.upper()).field.add(name="value", number=1, label=1)
        if name == "c":
            field.type = 5 if kind == "number" else 9
        else:
            field.type, field.type_name = 11, f".{of}"
        pool.Add(made)
    return GetMessageClass(pool.FindMessageTypeByName("a.A"))


async def test_protobuf_goes_there_and_back_with_what_it_imports(client: SchemaRegistryClient) -> None:
    def work() -> Any:
        numbers, texts = protobuf_class("number"), protobuf_class("text")
        write = ProtobufSerializer(numbers, client)
        written = write(numbers(value={"value": {"value": 7}}), CONTEXT)
        assert sorted(client.get_subjects()) == ["b.proto", "c.proto", "flights-value"]
        with pytest.raises(SchemaRegistryError) as failed:
            ProtobufSerializer(texts, client)(texts(), CONTEXT)
        assert failed.value.http_status_code == 409
        # A text and a descriptor of the same file are one schema, and a client reads either.
        text = 'syntax = "proto3"; package a; import "b.proto"; import "google/protobuf/timestamp.proto";'
        same = Schema(f"{text} message A {{ b.B value = 1; }}", "PROTOBUF", client.get_schema(3).references)
        assert client.register_schema("texts-value", same) == 4
        other = SerializationContext("texts", MessageField.VALUE)
        by_text = ProtobufSerializer(numbers, client, {"auto.register.schemas": False, "use.latest.version": True})
        read = ProtobufDeserializer(numbers, schema_registry_client=client)
        return [read(each, CONTEXT).value.value.value for each in (written, by_text(read(written, CONTEXT), other))]

    assert await asyncio.to_thread(work) == [7, 7]


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
