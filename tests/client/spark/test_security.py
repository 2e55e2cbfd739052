"""Source and sink over TLS and SASL: the same options and the same machines as the asyncio client's."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")
pytest.importorskip("pyarrow", reason="the source needs pyarrow (extra `spark`)")

from odradek.client.arrow.brokers import Brokers
from odradek.client.arrow.connection import BlockingConnection
from odradek.client.errors import AuthenticationFailed, ConnectionLost, NoBrokerReachable
from odradek.client.record import LATEST, TopicPartition
from odradek.client.spark.columns import OptionError
from odradek.client.spark.options import SourceOptions, parse_options, parse_sink_options
from odradek.client.spark.writers import TaskPlace, write_task
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_sasl import FakeSasl
from odradek.tests.support.security.certificates import Certificates

T0 = TopicPartition("t", 0)
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def options(cluster: FakeCluster, **texts: str) -> SourceOptions:
    given = {f"kafka.{name.replace('_', '.')}": text for name, text in texts.items()}
    parsed = parse_options({"kafka.bootstrap.servers": cluster.address, "subscribe": "t"} | given)
    return pickle.loads(pickle.dumps(parsed))  # as a task gets them


async def end_of(cluster: FakeCluster, **texts: str) -> int:
    brokers = Brokers(options(cluster, **texts).client)
    return (await asyncio.to_thread(brokers.offsets, [T0], LATEST))[T0]


def trusting(certificates: Certificates) -> dict[str, str]:
    # Java's names: a trust store in PEM.
    return {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.authority)}


async def test_connections_are_encrypted(certificates: Certificates) -> None:
    cluster = FakeCluster({"t": 1})
    cluster.tls = certificates.server_context(False)
    async with cluster:
        assert await end_of(cluster, **trusting(certificates)) == 0
        with pytest.raises((AuthenticationFailed, NoBrokerReachable), match="not trusted"):
            await end_of(cluster, security_protocol="SSL")
        with pytest.raises((ConnectionLost, NoBrokerReachable)):
            await end_of(cluster)


async def test_a_listener_without_tls_is_named(certificates: Certificates) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        with pytest.raises(NoBrokerReachable, match="TLS"):
            await end_of(cluster, **trusting(certificates))


async def test_users_are_authenticated() -> None:
    cluster = FakeCluster({"t": 1})
    FakeSasl(cluster, users={"alice": "secret"})
    async with cluster:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            texts = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_jaas_config": JAAS}
            assert await end_of(cluster, **texts) == 0
            with pytest.raises(AuthenticationFailed, match="rejects the user 'alice'"):
                await end_of(cluster, **texts | {"sasl_jaas_config": JAAS.replace("secret", "wrong")})


async def test_a_connection_is_made_again_before_its_session_ends() -> None:
    cluster = FakeCluster({"t": 1})
    sasl = FakeSasl(cluster, users={"alice": "secret"}, lifetime_ms=1)
    given: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": JAAS,
    }  # fmt: skip
    async with cluster:
        client = options(cluster, **given).client

        def connect() -> bool:
            with BlockingConnection(client.bootstrap[0], client) as connection:
                connection.request(MetadataRequest(topics=[]), MetadataResponse)
                while not connection.is_expiring:
                    pass
                return True

        assert await asyncio.to_thread(connect)
        sasl.lifetime_ms = 0
        with await asyncio.to_thread(BlockingConnection, client.bootstrap[0], client) as connection:
            assert not connection.is_expiring


# -- The sink


async def write(cluster: FakeCluster, **texts: str) -> int:
    """Write two rows as a task does, and return how many the sink counted."""
    pyarrow: Any = pytest.importorskip("pyarrow", reason="the sink needs pyarrow (extra `spark`)")
    sink = pytest.importorskip("odradek.client.spark.sink", reason="the sink needs pyspark (extra `spark`)")
    given = {f"kafka.{name.replace('_', '.')}": text for name, text in texts.items()}
    parsed = parse_sink_options({"kafka.bootstrap.servers": cluster.address, "topic": "t"} | given)
    rows = iter([pyarrow.record_batch({"value": ["a", "b"]})])
    columns = sink.SinkColumns(frozenset({"value"}), frozenset({"value"}))
    place = TaskPlace("query", "run", 0, "0.0")
    options = pickle.loads(pickle.dumps(parsed))
    return (await asyncio.to_thread(write_task, rows, columns, options, place)).rows


async def test_the_sink_writes_to_listeners_of_tls_and_sasl(certificates: Certificates) -> None:
    cluster = FakeCluster({"t": 1})
    cluster.tls = certificates.server_context(False)
    FakeSasl(cluster, users={"alice": "secret"})
    scram = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": JAAS}
    async with cluster:
        assert await write(cluster, **trusting(certificates) | scram) == 2
        assert cluster.log("t").end == 2
        for wrong, said in (
            ({"sasl_jaas_config": JAAS.replace("secret", "wrong")}, "rejects the user 'alice'"),
            ({"ssl_truststore_location": str(certificates.client)}, "not trusted"),
        ):
            with pytest.raises((AuthenticationFailed, NoBrokerReachable), match=said):
                await write(cluster, **trusting(certificates) | scram | wrong, max_block_ms="500")
        assert cluster.log("t").end == 2


def test_the_sink_reads_settings_of_security_as_the_source_does() -> None:
    base = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    plain = parse_sink_options(base | {"kafka.ssl.truststore.location": "/ca.pem"})
    assert plain.warnings == ("option 'kafka.ssl.truststore.location' has no effect: connections are PLAINTEXT",)
    secure = base | {"kafka.security.protocol": "sasl_ssl", "kafka.sasl.mechanism": "PLAIN"}
    secure |= {"kafka.ssl.cipher.suites": "x"}
    parsed = parse_sink_options(secure | {"kafka.sasl.jaas.config": JAAS.replace("scram.Scram", "plain.Plain")})
    assert [each.partition(" has")[0] for each in parsed.warnings] == ["option 'kafka.ssl.cipher.suites'"]
    assert parsed.security["security_protocol"] == "SASL_SSL"
    assert "secret" not in repr(parsed)
    with pytest.raises(OptionError, match="sasl_mechanism=PLAIN needs sasl_plain_username"):
        parse_sink_options(secure)


def test_what_security_does_not_use_is_said_and_what_it_needs_is_asked_for() -> None:
    base = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    plain = parse_options(base | {"kafka.ssl.truststore.location": "/ca.pem"})
    assert "'kafka.ssl.truststore.location' has no effect: connections are PLAINTEXT" in plain.warnings[0]
    secure = parse_options(base | {"kafka.security.protocol": "ssl", "kafka.ssl.cipher.suites": "x"})
    assert secure.client.security.uses_tls
    assert "'kafka.ssl.cipher.suites' has no effect: it is about TLS or SASL of the Java client" in secure.warnings[0]
    assert "secret" not in repr(parse_options(base | {
        "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS.replace("scram.Scram", "plain.Plain"),
    }).client)  # fmt: skip
    for texts, said in (
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl_mechanism must be one of"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        ({"kafka.security.protocol": "TLS"}, "security_protocol must be one of"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}, "only PEM can be read"),
    ):
        with pytest.raises(OptionError, match=said):
            parse_options(base | texts)
