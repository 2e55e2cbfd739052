"""Every client through our SASL_SSL listener with each mechanism: records, transactions, groups, administration."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiokafka.abc
import aiokafka.helpers
import confluent_kafka
import pytest
from odradek.tests.conformance.test_security import add_users, configs_of_java, sasl, token
from odradek.tests.support.brokers.process import java, javac
from odradek.tests.support.clients.others import require
from odradek.tests.support.clients.secure_walks import ASYNCIO, BLOCKING, FOUND
from odradek.tests.support.documents.command import completed
from odradek.tests.support.security.certificates import Certificates
from odradek.tests.support.security.secure_kafka import PASSWORD, USER, SecureBroker

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# Groups that each client reads in: classic, and where it has them the new protocol and share groups.
GROUPS = {"confluent-kafka": 2, "kafka-python": 1, "aiokafka": 1, "odradek.client": 3, "odradek.client.blocking": 3}


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
        return configs | {"oauth_cb": a_token}
    return configs | {"sasl.username": USER, "sasl.password": PASSWORD}


def a_token(_: object) -> tuple[str, float]:
    """What librdkafka asks for: a token and its end."""
    return token(), 2e9


class Tokens(aiokafka.abc.AbstractTokenProvider):
    """What aiokafka asks."""

    async def token(self) -> str:
        return token()


def kafka_python(broker: SecureBroker, mechanism: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": broker.at("AUTHTLS"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.certificates.authority),
        "sasl_mechanism": mechanism,
    }
    if mechanism != "OAUTHBEARER":
        return found | {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class KafkaPythonTokens(AbstractTokenProvider):
        def token(self) -> str:
            return token()

    return found | {"sasl_oauth_token_provider": KafkaPythonTokens()}


def of_aiokafka(broker: SecureBroker, mechanism: str) -> dict[str, Any]:
    found = kafka_python(broker, mechanism)
    found["ssl_context"] = aiokafka.helpers.create_ssl_context(cafile=found.pop("ssl_cafile"))
    return found | ({"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else {})


def ours(broker: SecureBroker, mechanism: str) -> dict[str, Any]:
    tls = {"security_protocol": "SASL_SSL", "ssl_cafile": str(broker.certificates.authority)}
    return {"bootstrap_servers": broker.at("AUTHTLS")} | tls | sasl(mechanism)


OPTIONS = {
    "confluent-kafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": of_aiokafka,
    "odradek.client": ours,
    "odradek.client.blocking": ours,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", BLOCKING)
def test_a_blocking_client(broker: SecureBroker, client: str, mechanism: str) -> None:
    found = BLOCKING[client](OPTIONS[client](broker, mechanism), f"t-{uuid4().hex}")
    assert found == [FOUND] * GROUPS[client]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", ASYNCIO)
async def test_an_asyncio_client(broker: SecureBroker, client: str, mechanism: str) -> None:
    found = await ASYNCIO[client](OPTIONS[client](broker, mechanism), f"t-{uuid4().hex}")
    assert found == [FOUND] * GROUPS[client]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs SecureWalk."""
    require("javac")
    return [*java(javac("SecureWalk", tmp_path_factory.mktemp("classes"))), "SecureWalk"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(broker: SecureBroker, walk: list[str], tmp_path: Path, mechanism: str) -> None:
    configs = tmp_path / "client.properties"
    lines = of_java(broker, mechanism) | {"bootstrap.servers": broker.at("AUTHTLS")}
    configs.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    done = subprocess.run([*walk, str(configs), f"t-{uuid4().hex}"], capture_output=True, timeout=300, check=False)
    assert done.stdout.decode().splitlines() == ["classic [100000, 9]", "consumer [100000, 9]"], done.stderr[-3000:]
    assert done.returncode == 0


def of_java(broker: SecureBroker, mechanism: str) -> dict[str, str]:
    """Configs of a Java client; a file of properties takes a backslash as the beginning of something."""
    found = configs_of_java(broker) | {"sasl.mechanism": mechanism}
    line = found["sasl.jaas.config"].replace("\\", "\\\\")
    if mechanism == "PLAIN":
        line = line.replace("scram.ScramLoginModule", "plain.PlainLoginModule")
    if mechanism == "OAUTHBEARER":
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        line = f'{module} required unsecuredLoginStringClaim_sub="{USER}";'
    return found | {"sasl.jaas.config": line}


def test_a_wrong_password_is_told_to_librdkafka(broker: SecureBroker) -> None:
    said: list[confluent_kafka.KafkaError] = []
    configs = librdkafka(broker, "SCRAM-SHA-256") | {"sasl.password": "wrong", "error_cb": said.append}
    producer = confluent_kafka.Producer(configs)
    while not said:
        producer.poll(1)
    assert said[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in said[0].str()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat(broker: SecureBroker, mechanism: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    given = librdkafka(broker, mechanism)
    if given.pop("oauth_cb", None) is not None:
        given |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={USER}"}
    command = ["kcat", *(f"-X{name}={value}" for name, value in given.items())]
    topic = f"t-{uuid4().hex}"
    subprocess.run([*command, "-P", "-t", topic], input=b"one\n", check=True, timeout=60)
    of_a_group = ["-X", "auto.offset.reset=earliest", "-c", "1", "-G", topic, topic]
    for how in (["-C", "-t", topic, "-e"], of_a_group):
        read = subprocess.run([*command, *how], check=True, capture_output=True, timeout=60)
        assert read.stdout == b"one\n"


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_our_commands(broker: SecureBroker, tmp_path: Path, mechanism: str) -> None:
    """The command line with Java's names: topics, records, groups and SQL."""
    pytest.importorskip("duckdb", reason="SQL needs duckdb (extra `sql`)")
    given = configs_of_java(broker) | {"sasl.mechanism": mechanism}
    if mechanism == "PLAIN":
        given["sasl.jaas.config"] = given["sasl.jaas.config"].replace("scram.Scram", "plain.Plain")
    topic = f"t-{uuid4().hex}"
    where = ["-b", broker.at("AUTHTLS"), *(part for name, value in given.items() for part in ("-X", f"{name}={value}"))]
    for words, sent, printed in (
        (["topics", "create", topic], b"", ""),
        (["produce", topic], b'{"a": 1}\n{"a": 2}\n', ""),
        (["consume", topic, "--group", topic, "--until-end"], b"", '{"a": 1}\n{"a": 2}\n'),
        (["sql", f'select sum(a) from "{topic}"', "--schema", "a int"], b"", "3\n"),
    ):
        done = completed(*words, *where, stdin=sent)
        assert (done.returncode, done.stdout) == (0, printed), done.stderr


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas", "ignore::ResourceWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_spark(broker: SecureBroker, tmp_path: Path, spark: Any, mechanism: str) -> None:
    """The sink writes exactly once, and the source reads it; one mechanism goes through a stream, too."""
    source, target = f"s-{uuid4().hex}", f"t-{uuid4().hex}"
    given = {f"kafka.{name}": value for name, value in of_spark(broker, tmp_path, mechanism).items()}
    frame = spark.range(20).selectExpr("cast(id as string) as value")
    frame.write.format("odradek").options(**given).option("topic", source).mode("append").save()
    if mechanism == MECHANISMS[1]:
        stream = spark.readStream.format("odradek").options(**given, subscribe=source, startingOffsets="earliest")
        sink = stream.load().selectExpr("value").writeStream.format("odradek").options(**given, topic=target)
        query = sink.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        source = target
    read = spark.read.format("odradek").options(
        **given, subscribe=source, **{"kafka.isolation.level": "read_committed"}
    )
    assert sorted(int(row.value) for row in read.load().select("value").collect()) == list(range(20))


def of_spark(broker: SecureBroker, folder: Path, mechanism: str) -> dict[str, str]:
    found = of_java(broker, mechanism) | {"bootstrap.servers": broker.at("AUTHTLS")}
    found["sasl.jaas.config"] = found["sasl.jaas.config"].replace("\\\\", "\\")
    if mechanism == "OAUTHBEARER":
        (folder / "token").write_text(token())
        module = found.pop("sasl.jaas.config").split(" unsecured")[0]
        found |= {"sasl.jaas.config": f"{module};", "sasl.oauthbearer.token.endpoint.url": f"file://{folder}/token"}
    return found
