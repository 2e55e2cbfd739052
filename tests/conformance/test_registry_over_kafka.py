"""Our registry over Apache Kafka, with TLS and a password, and what is there after kills of both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from odradek.client.blocking import Consumer, Producer
from odradek.client.schemas import Avro, Schema, SchemaRegistry
from odradek.tests.conformance.test_security import add_users
from odradek.tests.support.brokers.lines import first_line
from odradek.tests.support.clients.others import require
from odradek.tests.support.security.certificates import Certificates
from odradek.tests.support.security.secure_kafka import PASSWORD, USER, SecureKafka

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "int"}]}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    require("java")
    folder = tmp_path_factory.mktemp("kafka")
    process = SecureKafka(folder, Certificates(folder / "tls"))
    try:
        process.start()
        add_users(process.address)
        yield process
    finally:
        process.close()


@contextmanager
def registry(address: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], SchemaRegistry]]:
    command = [sys.executable, "-m", "odradek", "registry", "-b", address, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            word, _, url = first_line(process).strip().partition(" ")
            assert word == "ready", process.communicate(timeout=30)
            yield process, SchemaRegistry(url, timeout_ms=60_000)
        finally:
            process.kill()
            process.communicate(timeout=30)


def test_a_registry_over_kafka_keeps_what_it_answered(kafka: SecureKafka) -> None:
    with registry(kafka.address) as (process, client):
        assert client.register("s", Schema('"int"')) == 1
        process.kill()
    with registry(kafka.address) as (_, client), registry(kafka.address, "--read-only") as (_, other):
        assert json.loads(client.schema(1).text) == "int"
        avro = Avro(client, FLIGHT)
        with Producer(kafka.address, value_serializer=avro) as producer:
            producer.send_many("flights", [(None, {"number": number}) for number in range(10)])
        options = {"auto_offset_reset": "earliest", "value_deserializer": Avro(other)}
        with Consumer("flights", bootstrap_servers=kafka.address, **options) as consumer:
            assert [next(consumer).value["number"] for _ in range(10)] == list(range(10))
        kafka.kill()
        kafka.start()
        assert client.register("t", Schema('"long"')) == 3
        assert json.loads(other.schema(3).text) == "long"


def test_it_logs_in_as_every_client_of_kafka(kafka: SecureKafka) -> None:
    secure = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": kafka.certificates.authority,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    options = [each for name, value in secure.items() for each in ("-X", f"{name}={value}")]
    with registry(kafka.at("AUTHTLS"), "--topic", "secured", *options) as (_, client):
        assert client.register("s", Schema('"int"')) == 1
