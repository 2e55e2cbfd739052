"""Our clients at secure listeners of Kafka and of our broker: TLS, client certificates, SASL, sessions that end."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka.admin as confluent
import pytest
from odradek.client import Admin, Consumer, KafkaError, NewTopic, Producer
from odradek.client.errors import AuthenticationFailed, ConnectionLost
from odradek.tests.support.clients.others import require
from odradek.tests.support.security.certificates import Certificates
from odradek.tests.support.security.secure_kafka import PASSWORD, REAUTH_MS, USER, SecureBroker, SecureKafka

Secure = SecureKafka | SecureBroker
SASL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.fixture(scope="module", params=["kafka", "odradek"])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    kind = SecureKafka if request.param == "kafka" else SecureBroker
    if kind is SecureKafka:
        require("java")
    folder = tmp_path_factory.mktemp(request.param)
    process = kind(folder, Certificates(folder / "tls"))
    try:
        process.start()
        add_users(process.address)
        yield process
    finally:
        process.close()


def add_users(address: str) -> None:
    """Store the user's passwords with another client than ours."""
    admin = confluent.AdminClient({"bootstrap.servers": address})
    mechanisms = (confluent.ScramMechanism.SCRAM_SHA_256, confluent.ScramMechanism.SCRAM_SHA_512)
    for mechanism in mechanisms:
        info = confluent.ScramCredentialInfo(mechanism, 4096)
        wanted = confluent.UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        for each in admin.alter_user_scram_credentials([wanted]).values():
            each.result(30)


def token(subject: str = USER, lives_s: float = 60) -> str:
    """A token without a signature, as a test server takes it."""

    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + lives_s})}."


def trusting(kafka: Secure) -> dict[str, Any]:
    return {"ssl_cafile": str(kafka.certificates.authority)}


def sasl(mechanism: str) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": token}
    return {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}


async def write_and_read(address: str, topic: str, **options: Any) -> list[bytes | None]:
    """Two records through a topic of their own, with all three clients."""
    async with Admin(address, **options) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
    async with Producer(address, **options) as producer:
        await producer.send_many(topic, [(b"k", b"one"), (b"k", b"x" * 200_000)])
    found = Consumer(topic, bootstrap_servers=address, group_id=topic, auto_offset_reset="earliest", **options)
    async with found as consumer:
        return [(await consumer.getone()).value for _ in range(2)]


async def test_tls(kafka: Secure) -> None:
    options = trusting(kafka) | {"security_protocol": "SSL"}
    assert await write_and_read(kafka.at("TLS"), f"tls-{uuid4().hex}", **options) == [b"one", b"x" * 200_000]
    of = kafka.certificates
    options |= {"ssl_certfile": str(of.client), "ssl_keyfile": str(of.key(of.client))}
    assert await write_and_read(kafka.at("MTLS"), f"mtls-{uuid4().hex}", **options) == [b"one", b"x" * 200_000]


@pytest.mark.parametrize("mechanism", SASL)
async def test_sasl_over_tls(kafka: Secure, mechanism: str) -> None:
    options = trusting(kafka) | sasl(mechanism) | {"security_protocol": "SASL_SSL"}
    topic = f"tls-{uuid4().hex}"
    assert await write_and_read(kafka.at("AUTHTLS"), topic, **options) == [b"one", b"x" * 200_000]


@pytest.mark.parametrize("mechanism", SASL)
async def test_a_session_that_ends_is_renewed_and_no_record_is_lost(kafka: Secure, mechanism: str) -> None:
    options = sasl(mechanism) | {"security_protocol": "SASL_PLAINTEXT"}
    address, topic = kafka.at("AUTH"), f"again-{uuid4().hex}"
    async with Admin(address, **options) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
    async with Producer(address, **options) as producer:
        await producer.send_and_wait(topic, b"0")
        connections = open_connections(producer)
        sent = 1
        ends = time.monotonic() + 2.5 * REAUTH_MS / 1000
        while time.monotonic() < ends:
            await producer.send_many(topic, [(None, b"%d" % number) for number in range(sent, sent + 50)])
            sent += 50
            await asyncio.sleep(0.005)  # records are under way all the time, not as many as possible
        assert connections == open_connections(producer)
    consumer = Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", **options)
    async with consumer:
        got = [(await consumer.getone()).value for _ in range(sent)]
    assert got == [b"%d" % number for number in range(sent)]


def open_connections(producer: Producer[bytes, bytes]) -> list[object]:
    """The connections of a producer that are open: a session that was not renewed ends with its connection."""
    cluster = producer._session.cluster
    assert cluster is not None
    return [each for each in cluster._connections._connections.values() if not each.closed]


async def failure(address: str, **options: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        async with Admin(address, default_api_timeout_ms=1_000, **options) as admin:
            await admin.list_topics()
    return caught.value


async def test_what_is_wrong_is_told_with_what_to_set(kafka: Secure, tmp_path: Path) -> None:
    plain = {"security_protocol": "SASL_PLAINTEXT"} | sasl("PLAIN")
    wrong = plain | {"sasl_plain_password": "wrong"}
    scram = wrong | {"sasl_mechanism": "SCRAM-SHA-256"}
    bearer = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    tls = trusting(kafka) | {"security_protocol": "SSL"}
    other = Certificates(tmp_path / "other")
    # asyncio's server closes such a connection without the alert that Kafka sends: what to set is the same.
    no_entry = (AuthenticationFailed, ConnectionLost)
    shown = tls | {"ssl_certfile": str(other.client), "ssl_keyfile": str(other.key(other.client))}
    for listener, options, kind, words in (
        ("AUTH", wrong, AuthenticationFailed, f"rejects the user '{USER}'"),
        ("AUTH", scram, AuthenticationFailed, f"rejects the user '{USER}'"),
        ("AUTH", bearer | {"sasl_oauth_token_provider": lambda: "x.y."}, AuthenticationFailed, "rejects the OAuth"),
        ("AUTH", {}, ConnectionLost, "if the listener asks for SASL"),
        ("TLS", {}, ConnectionLost, "set security_protocol to SSL"),
        ("TLS", {"security_protocol": "SSL"}, AuthenticationFailed, "set ssl_cafile"),
        ("AUTH", tls, ConnectionLost, "set security_protocol to PLAINTEXT"),
        ("MTLS", tls, no_entry, "set ssl_certfile"),
        ("MTLS", shown, no_entry, "set ssl_certfile"),
        ("TLS", trusting(kafka) | sasl("PLAIN") | {"security_protocol": "SASL_SSL"}, AuthenticationFailed, "no SASL"),
    ):
        error = await failure(kafka.at(listener), **options)
        assert isinstance(error, kind) and words in str(error), (listener, options, error)


def configs_of_java(kafka: Secure) -> dict[str, str]:
    """The configs of a Java client for the listener AUTHTLS."""
    quoted = PASSWORD.replace('"', '\\"')
    jaas = f'ScramLoginModule required username="{USER}" password="{quoted}";'
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.certificates.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"org.apache.kafka.common.security.scram.{jaas}",
    }


def test_tasks_of_spark_write_and_read_by_the_names_of_javas_clients(kafka: Secure) -> None:
    pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
    pyarrow: Any = pytest.importorskip("pyarrow", reason="the Spark source needs pyarrow (extra `spark`)")
    from odradek.client.spark import sink, source, writers
    from odradek.client.spark.columns import Column
    from odradek.client.spark.options import parse_sink_options
    from pyspark.sql.types import BinaryType

    given = {f"kafka.{name}": text for name, text in configs_of_java(kafka).items()}
    given |= {"kafka.bootstrap.servers": kafka.at("AUTHTLS"), "kafka.retry.backoff.ms": "10"}
    rows = iter([pyarrow.record_batch({"value": ["a", "b"]})])
    columns = sink.SinkColumns(frozenset({"value"}), frozenset({"value"}))
    place = writers.TaskPlace("query", "run", 0, "0.0")
    # A Kafka has no transactions over tasks.
    to = parse_sink_options(given | {"topic": "by-spark", "transactional": "never"})
    written = writers.write_task(rows, columns, to, place)
    assert (written.rows, written.transaction) == (2, None)
    options = source.parse_options(given | {"subscribe": "by-spark"})
    ranges = source.plan(options, source.Brokers(options.client))
    batches = source.read_ranges(tuple(ranges), options, [Column("value", BinaryType())])
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == [b"a", b"b"]


def test_commands_take_the_names_of_javas_clients(kafka: Secure) -> None:
    configs = configs_of_java(kafka)
    given = [part for name, value in configs.items() for part in ("-X", f"{name}={value}")]
    command = [sys.executable, "-m", "odradek", "topics", "create", "by-command", "-b", kafka.at("AUTHTLS"), *given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
