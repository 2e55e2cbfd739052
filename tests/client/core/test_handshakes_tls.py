"""Connections over TLS, to a cluster with a certificate of its own: trust, names, client certificates, new files."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer
from odradek.client.core.connection import Connection
from odradek.client.core.exchange import no_frame
from odradek.client.core.handshakes import TlsContexts, handshake_error
from odradek.client.core.security import SecurityOptions
from odradek.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidOption,
    KafkaError,
    NoBrokerReachable,
    NotConnected,
)
from odradek.tests.client.core.test_handshakes_sasl import topics
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.security.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of another authority, and for another host."""
    return Certificates(tmp_path_factory.mktemp("others"), "DNS:elsewhere.example")


def tls_cluster(certificates: Certificates, needs_client: bool = False) -> FakeCluster:
    cluster = FakeCluster({"t": 1})
    cluster.tls = certificates.server_context(needs_client)
    return cluster


def trusting(certificates: Certificates, **options: Any) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_cafile": str(certificates.authority), **options}


async def test_records_go_there_and_back_over_tls(certificates: Certificates) -> None:
    value = b"x" * 300_000
    async with tls_cluster(certificates) as cluster:
        async with Producer(cluster.address, **trusting(certificates)) as producer:
            await producer.send_many("t", [(None, value), (b"k", b"v")])
        consumer = Consumer(
            "t", bootstrap_servers=cluster.address, auto_offset_reset="earliest", **trusting(certificates)
        )
        async with consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [value, b"v"]


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    certificates: Certificates, others: Certificates
) -> None:
    async with tls_cluster(certificates) as cluster:
        with pytest.raises(AuthenticationFailed, match=r"not trusted.*set ssl_cafile"):
            await topics(cluster, security_protocol="SSL")
        with pytest.raises(AuthenticationFailed, match=r"not trusted.*set ssl_cafile"):
            await topics(cluster, **trusting(others))


async def test_a_certificate_that_python_3_13_finds_too_lax_is_named_as_such(tmp_path: Path) -> None:
    lax = Certificates(tmp_path, strict=False)
    context = ssl.create_default_context(cafile=str(lax.authority))
    async with tls_cluster(lax) as cluster:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        with pytest.raises(AuthenticationFailed, match=r"breaks RFC 5280 .*without ssl.VERIFY_X509_STRICT"):
            await topics(cluster, security_protocol="SSL", ssl_context=context)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        assert await topics(cluster, security_protocol="SSL", ssl_context=context) == ["t"]


async def test_the_certificate_must_name_the_host(others: Certificates) -> None:
    async with tls_cluster(others) as cluster:
        with pytest.raises(AuthenticationFailed, match=r"is for another host.*ssl_check_hostname"):
            await topics(cluster, **trusting(others))
        assert await topics(cluster, **trusting(others, ssl_check_hostname=False)) == ["t"]


async def test_a_text_or_a_context_of_the_users_replaces_the_file(certificates: Certificates) -> None:
    async with tls_cluster(certificates) as cluster:
        assert await topics(cluster, security_protocol="SSL", ssl_cadata=certificates.authority.read_text()) == ["t"]
        context = ssl.create_default_context(cafile=str(certificates.authority))
        assert await topics(cluster, security_protocol="SSL", ssl_context=context) == ["t"]


async def test_a_client_certificate_lets_the_client_in(certificates: Certificates, others: Certificates) -> None:
    def shown(of: Certificates) -> dict[str, Any]:
        return trusting(certificates, ssl_certfile=str(of.client), ssl_keyfile=str(of.key(of.client)))

    async with tls_cluster(certificates, needs_client=True) as cluster:
        assert await topics(cluster, **shown(certificates)) == ["t"]
        # asyncio's server hangs up without an alert. A real Kafka sends one: AuthenticationFailed.
        for wrong in (trusting(certificates), shown(others)):
            with pytest.raises(KafkaError, match="set ssl_certfile and ssl_keyfile"):
                await topics(cluster, **wrong)


async def test_tls_against_a_listener_without_and_the_reverse_say_what_to_set(certificates: Certificates) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        with pytest.raises(NoBrokerReachable, match=r"cannot use .*set security_protocol to PLAINTEXT") as caught:
            await topics(cluster, **trusting(certificates))
        assert "odradek serve" not in str(caught.value)
    async with tls_cluster(certificates) as cluster:
        with pytest.raises(NoBrokerReachable, match=r"cannot use .*set security_protocol to SSL") as caught:
            await topics(cluster)
        assert "odradek serve" not in str(caught.value)
    assert "set security_protocol to SSL" in no_frame(0x15030300)  # an alert, as Java's brokers send it
    assert "not a Kafka broker?" in no_frame(int.from_bytes(b"HTTP", "big"))


@pytest.mark.parametrize(
    "closed", [ConnectionResetError, ConnectionAbortedError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError]
)
def test_a_peer_that_closes_in_the_handshake_is_told_so(closed: type[OSError]) -> None:
    told = handshake_error("h:1", closed())
    assert isinstance(told, ConnectionLost)
    assert told.message.startswith("h:1 closed the connection during the TLS handshake: if the listener speaks no TLS")


async def test_the_next_connection_uses_a_certificate_that_was_replaced(
    certificates: Certificates, others: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text(others.authority.read_text())
    contexts = TlsContexts(SecurityOptions(security_protocol="SSL", ssl_cafile=str(authority)))
    first = contexts.current()
    assert contexts.current() is first
    authority.write_text("half a fi")
    with caplog.at_level(logging.WARNING):
        assert contexts.current() is first
    assert "new connections use what was read before" in caplog.text
    authority.write_text(certificates.authority.read_text())
    assert contexts.current() is not first

    async with tls_cluster(certificates) as cluster:
        authority.write_text(others.authority.read_text())
        admin = Admin(cluster.address, security_protocol="SSL", ssl_cafile=str(authority))
        with pytest.raises(AuthenticationFailed):
            await admin.start()
        authority.write_text(certificates.authority.read_text())
        async with admin:
            assert await admin.list_topics() == ["t"]


def test_files_that_cannot_be_used_are_named(certificates: Certificates, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    for options, words in (
        ({"ssl_cafile": "/nowhere/ca.pem"}, "ssl_cafile=/nowhere/ca.pem: no such file"),
        ({"ssl_cafile": str(bad)}, "ssl_cafile=.*bad.pem: .*PEM is expected"),
        ({"ssl_certfile": str(certificates.client)}, "ssl_certfile=.*PEM is expected"),
    ):
        with pytest.raises(InvalidOption, match=words):
            TlsContexts(SecurityOptions(security_protocol="SSL", **options))


async def test_a_peer_that_says_nothing_in_the_handshake_is_given_up_in_time(certificates: Certificates) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    context = TlsContexts(SecurityOptions(**trusting(certificates))).current()
    with pytest.raises(ConnectionLost, match="takes no TLS connection within 50 ms"):
        await Connection.open(
            "127.0.0.1", server.sockets[0].getsockname()[1], client_id="test", connect_timeout_ms=50, tls=context
        )
    server.close()


@pytest.mark.parametrize(("host", "port"), [(".leading", 9092), ("a\0b", 9092), ("127.0.0.1", 70_000), ("a..b", 9092)])
@pytest.mark.parametrize("uses_tls", [False, True])
async def test_an_advertised_address_that_is_none_is_a_failed_connection(host: str, port: int, uses_tls: bool) -> None:
    tls = ssl.create_default_context() if uses_tls else None
    with pytest.raises(NotConnected, match="cannot connect to "):
        await Connection.open(host, port, client_id="test", tls=tls)
