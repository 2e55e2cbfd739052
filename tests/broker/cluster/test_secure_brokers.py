"""Brokers of a cluster that reach each other by TLS and SASL: data, moves and transactions go through it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.log_dirs.data_dir import StartError
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clusters.secure_members import SecureMembers, secure_members
from odradek.tests.support.waiting import until

AUTHORIZER = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer", "super_users": "User:broker"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureMembers]:
    async with secure_members(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SSL", "PLAIN"), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "PLAIN")]
)
async def test_brokers_replicate_through_tls_and_sasl(cluster: SecureMembers, protocol: str, mechanism: str) -> None:
    first = await cluster.start(1, protocol, mechanism)
    second = await cluster.start(2, protocol, mechanism)
    raw = await cluster.raw(first)
    assert (await raw.create_topic("t", 2, 2)).error_code == 0
    leaders = {index: first if led == 1 else second for index, led in (await leaders_of(raw)).items()}
    assert set(leaders.values()) == {first, second}
    for index, leader in leaders.items():
        answer = await (await cluster.raw(leader)).produce("t", batch_of(b"x"), index, acks=-1)
        assert answer.error_code == 0
    for broker in (first, second):
        topic = broker.topics.get("t")
        assert topic is not None
        await until(lambda topic=topic: all(each.log.log_end_offset == 1 for each in topic.partitions))


async def leaders_of(raw: Raw, topic: str = "t") -> dict[int, int]:
    found = await raw.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=topic)]))
    return {each.partition_index: each.leader_id for each in found.topics[0].partitions}


async def test_the_registration_has_every_endpoint_as_kafka_writes_it(cluster: SecureMembers) -> None:
    broker = await cluster.start(1, "SASL_SSL")
    found: dict[str, Any] = json.loads(cluster.ensemble.get("/brokers/ids/1") or b"")
    ports = [int(each.rpartition(":")[2]) for each in broker.addresses]
    assert found["endpoints"] == [f"PLAINTEXT://127.0.0.1:{ports[0]}", f"INNER://127.0.0.1:{ports[1]}"]
    assert found["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT", "INNER": "SASL_SSL"}
    assert (found["host"], found["port"]) == ("127.0.0.1", ports[0])


async def test_clients_are_told_of_the_listener_that_they_use(cluster: SecureMembers) -> None:
    """A broker without it is left out, and what it leads has LISTENER_NOT_FOUND."""
    first = await cluster.start(1, "PLAINTEXT")
    second = await cluster.start(
        2, "PLAINTEXT", listeners=("INNER://127.0.0.1:0",), listener_security_protocol_map="INNER:PLAINTEXT"
    )
    plain, inner = [await cluster.stack.enter_async_context(await Raw.connect(each)) for each in first.addresses]
    await until(lambda: len(first.services.replicas.view.brokers) == 2)  # type: ignore[union-attr]
    assert (await inner.create_topic("t", 2, 1)).error_code == 0
    told = await inner.ask(ApiKey.METADATA, 9, MetadataRequest(None))
    assert [(each.node_id, each.port) for each in told.brokers] == [
        (node, int(broker.addresses[-1].rpartition(":")[2])) for node, broker in ((1, first), (2, second))
    ]
    told = await plain.ask(ApiKey.METADATA, 9, MetadataRequest(None))
    assert [each.node_id for each in told.brokers] == [1]
    states = {(each.error_code, each.leader_id) for each in told.topics[0].partitions}
    assert states == {(0, 1), (int(ErrorCode.LISTENER_NOT_FOUND), -1)}
    old = await plain.ask(ApiKey.METADATA, 5, MetadataRequest(None))
    states = {(each.error_code, each.leader_id) for each in old.topics[0].partitions}
    assert states == {(0, 1), (int(ErrorCode.LEADER_NOT_AVAILABLE), -1)}
    assert (await plain.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g"))).error_code in (0, 15)


@pytest.mark.parametrize(
    ("protocol", "configs", "why"),
    [
        ("PLAINTEXT", {}, r"brokers are User:ANONYMOUS to each other, which is not in super\.users"),
        ("SASL_SSL", {"super_users": "User:ops"}, r"brokers are User:broker to each other"),
        ("SSL", {}, r"brokers are User:.*OU=broker.* to each other"),
    ],
)
async def test_brokers_that_are_no_super_users_do_not_start(
    cluster: SecureMembers, protocol: str, configs: dict[str, Any], why: str
) -> None:
    with pytest.raises(StartError, match=why):
        await cluster.start(1, protocol, **{**AUTHORIZER, **configs})


async def test_a_broker_without_a_login_of_its_own_does_not_start(cluster: SecureMembers) -> None:
    line = 'PlainLoginModule required user_alice="secret";'
    with pytest.raises(StartError, match=r"set listener\.name\.inner\.plain\.sasl\.jaas\.config to PlainLoginModule"):
        await cluster.start(1, "SASL_SSL", listener_configs={"listener.name.inner.plain.sasl.jaas.config": line})


async def test_a_broker_with_another_password_is_told_nothing(
    cluster: SecureMembers, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does its own word count: its requests are rejected as those of any stranger."""
    await cluster.start(1, "SASL_PLAINTEXT", **AUTHORIZER)
    line = 'PlainLoginModule required username="broker" password="guessed" user_broker="guessed";'
    configs = {**AUTHORIZER, "listener_configs": {"listener.name.inner.plain.sasl.jaas.config": line}}
    stranger = Broker(cluster.config(2, "SASL_PLAINTEXT", **configs))
    starting = asyncio.ensure_future(stranger.start())
    await until(lambda: "broker 2 cannot be told: " in caplog.text)
    assert "rejects the login of this broker as 'broker'" in caplog.text
    assert "between brokers" not in caplog.text and "guessed" not in caplog.text
    starting.cancel()
    await asyncio.wait([starting])


@pytest.mark.parametrize(("algorithm", "is_trusted"), [("https", False), ("", True)])
async def test_a_certificate_of_another_host_is_not_trusted(
    cluster: SecureMembers, caplog: pytest.LogCaptureFixture, algorithm: str, is_trusted: bool
) -> None:
    """Unless ssl.endpoint.identification.algorithm is empty."""
    cluster.authority.store("broker.pem", "elsewhere.example")
    configs = {"ssl_endpoint_identification_algorithm": algorithm}
    await cluster.start(1, "SSL", **configs)
    second = Broker(cluster.config(2, "SSL", **configs))
    starting = asyncio.ensure_future(second.start())
    await until(lambda: starting.done() if is_trusted else "broker 2 cannot be told: " in caplog.text)
    assert ("its certificate is not trusted: " in caplog.text) == (not is_trusted)
    starting.cancel()
    await asyncio.wait([starting])
    await second.stop()


async def test_brokers_log_in_again_before_their_session_ends(cluster: SecureMembers) -> None:
    """A session that is not renewed closes the connection, and its requests are lost."""
    own = {"listener_configs": {"listener.name.inner.plain.connections.max.reauth.ms": 60_000}}
    first = await cluster.start(1, "SASL_PLAINTEXT", **own)
    replicas = first.services.replicas
    assert replicas is not None
    host, _, port = first.addresses[-1].rpartition(":")
    peer = replicas.inter_broker.peer(host, int(port), "test")
    ask = (ApiVersionsRequest("odradek", "1"), 3, ApiVersionsResponse, 20.0)
    await peer.request(*ask)
    wire = peer._wire
    assert wire is not None
    end_s = wire.session_end_s
    assert 0 < end_s - asyncio.get_running_loop().time() <= 60 * 0.85
    # The same connection, in a new session; the broker lets nobody renew one twice in a second.
    wire.session_end_s = 0.0
    await peer.request(*ask)
    assert peer._wire is wire and wire.session_end_s >= end_s
    peer.close()
