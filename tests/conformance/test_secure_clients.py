"""Other people's clients through our SASL_SSL listener, with each mechanism that they have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from odradek.tests.conformance.test_security import add_users, token
from odradek.tests.support.certificates import Certificates
from odradek.tests.support.clients import require
from odradek.tests.support.process import java
from odradek.tests.support.secure_kafka import PASSWORD, USER, SecureBroker

PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("secure")
    process = SecureBroker(folder, Certificates(folder / "tls"))
    try:
        process.start()
        add_users(process.address)
        yield process
    finally:
        process.close()


def librdkafka(broker: SecureBroker, mechanism: str) -> dict[str, Any]:
    configs: dict[str, Any] = {
        "bootstrap.servers": broker.at("AUTHTLS"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.certificates.authority),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return configs | {"oauth_cb": lambda _: (token(), 2e9)}
    return configs | {"sasl.username": USER, "sasl.password": PASSWORD}


@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_confluent_kafka(broker: SecureBroker, mechanism: str) -> None:
    topic, configs = f"t-{uuid4().hex}", librdkafka(broker, mechanism)
    producer = confluent_kafka.Producer(configs)
    producer.produce(topic, b"x" * 100_000)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(configs | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = None
    while found is None:
        found = consumer.poll(30)
    assert found.value() == b"x" * 100_000
    consumer.close()


def test_a_wrong_password_is_told_to_librdkafka(broker: SecureBroker) -> None:
    said: list[confluent_kafka.KafkaError] = []
    configs = librdkafka(broker, "SCRAM-SHA-256") | {"sasl.password": "wrong", "error_cb": said.append}
    producer = confluent_kafka.Producer(configs)
    while not said:
        producer.poll(1)
    assert said[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in said[0].str()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_python(broker: SecureBroker, mechanism: str) -> None:
    import kafka

    configs = {
        "bootstrap_servers": broker.at("AUTHTLS"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.certificates.authority),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = f"t-{uuid4().hex}"
    producer = kafka.KafkaProducer(**configs)
    assert producer.send(topic, b"one").get(30).offset == 0
    producer.close()
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", **configs)
    assert next(consumer).value == b"one"
    consumer.close()


@pytest.mark.parametrize("mechanism", PASSWORDS)
async def test_aiokafka(broker: SecureBroker, mechanism: str) -> None:
    import aiokafka
    import aiokafka.helpers

    configs = {
        "bootstrap_servers": broker.at("AUTHTLS"),
        "security_protocol": "SASL_SSL",
        "ssl_context": aiokafka.helpers.create_ssl_context(cafile=str(broker.certificates.authority)),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = f"t-{uuid4().hex}"
    async with aiokafka.AIOKafkaProducer(**configs) as producer:
        assert (await producer.send_and_wait(topic, b"one")).offset == 0


def test_kcat(broker: SecureBroker) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    options = [f"{name}={value}" for name, value in librdkafka(broker, "SCRAM-SHA-512").items()]
    command = ["kcat", "-b", broker.at("AUTHTLS"), *(f"-X{each}" for each in options[1:])]
    topic = f"t-{uuid4().hex}"
    subprocess.run([*command, "-P", "-t", topic], input=b"one\n", check=True, timeout=60)
    read = subprocess.run([*command, "-C", "-t", topic, "-e"], check=True, capture_output=True, timeout=60)
    assert read.stdout == b"one\n"


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_java(broker: SecureBroker, tmp_path: Path, mechanism: str) -> None:
    require("java")
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    password = PASSWORD.replace('"', '\\\\"')
    lines = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.certificates.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="{USER}" password="{password}";',
    }
    configs = tmp_path / "client.properties"
    configs.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    topic = f"t-{uuid4().hex}"
    tools = ["--bootstrap-server", broker.at("AUTHTLS"), "--topic", topic]
    produce = [*java(), "org.apache.kafka.tools.ConsoleProducer", *tools, "--command-config", str(configs)]
    subprocess.run(produce, input=b"one\n", check=True, timeout=120, capture_output=True)
    consume = [*java(), "org.apache.kafka.tools.consumer.ConsoleConsumer", *tools, "--from-beginning"]
    consume += ["--max-messages", "1", "--command-config", str(configs)]
    assert subprocess.run(consume, check=True, timeout=120, capture_output=True).stdout == b"one\n"
