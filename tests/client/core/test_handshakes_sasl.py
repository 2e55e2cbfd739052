"""SASL: OAUTHBEARER against the example of its RFC, and the authentication of a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.client import Admin, Consumer, Producer
from odradek.client.core.connection import Connection
from odradek.client.core.exchange import Identity
from odradek.client.core.handshakes import Token, ask_for_token_now, oauthbearer
from odradek.client.core.security import SecurityOptions
from odradek.client.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DeliveryTimedOut,
    ErrorCode,
    KafkaError,
    NoBrokerReachable,
    Outcome,
    ValueOutOfRange,
)
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.sasl import advance
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_sasl import FakeSasl
from odradek.tests.support.fakes.wire import Call, Silence
from odradek.tests.support.waiting import until


def test_oauthbearer_is_that_of_rfc_7628() -> None:
    machine = oauthbearer(Token("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", {"traceId": "123"}))
    assert next(machine) == b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01traceId=123\x01\x01"
    assert advance(machine, b"") is None


def test_a_rejected_token_is_named_with_the_status() -> None:
    machine = oauthbearer(Token("abc", {}))
    next(machine)
    assert machine.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="status invalid_token"):
        machine.send(b"")


@pytest.mark.parametrize(
    "token",
    [Token("", {}), Token("a b", {}), Token("a\x01auth=x", {}), Token("a", {"x": "y\x01z"}), Token("a", {"auth": "b"})],
)
def test_what_could_change_the_message_of_oauthbearer_is_rejected(token: Token) -> None:
    with pytest.raises(AuthenticationFailed, match="OAuth"):
        next(oauthbearer(token))


USERS = {"alice": "secret", "a=b,c": "x"}


def password(mechanism: str, user: str = "alice", secret: str = "secret") -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": secret,
    }


def bearer(provider: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


async def topics(cluster: FakeCluster, **options: Any) -> list[str]:
    async with Admin(cluster.address, default_api_timeout_ms=2_000, **options) as admin:
        return await admin.list_topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_right_password_comes_in_and_a_wrong_one_does_not(cluster: FakeCluster, mechanism: str) -> None:
    FakeSasl(cluster, users=USERS)
    assert await topics(cluster, **password(mechanism)) == ["t"]
    assert await topics(cluster, **password(mechanism, "a=b,c", "x")) == ["t"]
    for user, secret in (("alice", "Secret"), ("bob", "secret")):
        with pytest.raises(AuthenticationFailed, match=f"rejects the user '{user}' or the password") as caught:
            await topics(cluster, **password(mechanism, user, secret))
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED and not caught.value.retriable
        assert "secret" not in str(caught.value)


async def test_a_broker_is_asked_which_one_it_is_behind_the_login() -> None:
    async with FakeCluster() as cluster:
        FakeSasl(cluster, users=USERS)
        host, _, port = cluster.address.rpartition(":")
        connection = await Connection.open(
            host,
            int(port),
            client_id="t",
            security=SecurityOptions(**password("PLAIN")),
            identity=Identity("fake", 1),
        )
        asked = [(call.request.cluster_id, call.request.node_id) for call in cluster.calls(ApiKey.API_VERSIONS)]
        # No broker says before it who it is.
        assert asked == [(None, -1), ("fake", 1)]
        await connection.close()


async def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    async with FakeCluster() as cluster:
        FakeSasl(cluster, users=USERS, mechanisms=("PLAIN", "SCRAM-SHA-512"))
        with pytest.raises(AuthenticationFailed, match=r"does not offer SCRAM-SHA-256.*\(PLAIN, SCRAM-SHA-512\)"):
            await topics(cluster, **password("SCRAM-SHA-256"))


async def test_a_listener_without_sasl_and_a_client_without_it_are_told_what_to_set() -> None:
    async with FakeCluster() as cluster:
        del cluster.versions[ApiKey.SASL_HANDSHAKE], cluster.versions[ApiKey.SASL_AUTHENTICATE]
        with pytest.raises(AuthenticationFailed, match="offers no SASL: set security_protocol to PLAINTEXT"):
            await topics(cluster, **password("PLAIN"))
    async with FakeCluster() as cluster:
        FakeSasl(cluster)
        with pytest.raises(ConnectionLost, match="at the first request: if the listener asks for SASL") as lost:
            await topics(cluster)
        assert "odradek serve" not in str(lost.value)


class Provider:
    def __init__(self, token: Any) -> None:
        self._token = token

    def token(self) -> Any:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {"tenant": "one"}


async def coroutine() -> str:
    return "good"


@pytest.mark.parametrize("provider", [lambda: "good", coroutine, Provider("good")])
async def test_a_token_comes_from_a_function_a_coroutine_or_an_object(cluster: FakeCluster, provider: Any) -> None:
    FakeSasl(cluster, tokens={"good"})
    assert await topics(cluster, **bearer(provider)) == ["t"]


def test_a_token_is_there_without_a_loop_too() -> None:
    assert ask_for_token_now(SecurityOptions(**bearer(Provider("good")))) == Token("good", {"tenant": "one"})
    assert ask_for_token_now(SecurityOptions(**bearer(coroutine))) == Token("good", {})
    assert ask_for_token_now(SecurityOptions(**password("PLAIN"))) is None


async def test_a_rejected_token_and_a_provider_that_fails_are_told_apart() -> None:
    def fail() -> str:
        raise OSError("the identity service is away")

    async with FakeCluster() as cluster:
        FakeSasl(cluster, tokens={"good"})
        with pytest.raises(AuthenticationFailed, match="rejects the OAuth token"):
            await topics(cluster, **bearer(lambda: "bad"))
        with pytest.raises(AuthenticationFailed, match="must return a text, not int"):
            await topics(cluster, **bearer(lambda: 7))
        with pytest.raises(NoBrokerReachable, match="the identity service is away") as caught:
            await topics(cluster, **bearer(fail))
        assert "odradek serve" not in str(caught.value)


async def test_a_connection_authenticates_again_before_its_session_ends_and_loses_nothing(cluster: FakeCluster) -> None:
    sasl = FakeSasl(cluster, users=USERS, lifetime_ms=40)
    async with Producer(cluster.address, linger_ms=0, **password("SCRAM-SHA-256")) as producer:
        sent = 0
        while sasl.authentications < 12:
            await producer.send_and_wait("t", b"%d" % sent)
            sent += 1
    assert cluster.values("t") == [b"%d" % number for number in range(sent)]
    assert len({call.peer for call in cluster.calls(ApiKey.SASL_HANDSHAKE)}) < sasl.authentications


async def test_requests_of_that_moment_are_held_and_sent_behind_it(cluster: FakeCluster) -> None:
    held = asyncio.Event()
    sasl = FakeSasl(cluster, users=USERS, lifetime_ms=20)
    security = SecurityOptions(**password("PLAIN"))
    connection = await Connection.open("127.0.0.1", cluster.nodes[1].port, client_id="test", security=security)

    async def slow(call: Call) -> Any:
        await held.wait()
        return await call.default()

    cluster.on(ApiKey.SASL_HANDSHAKE, slow)
    await until(lambda: len(cluster.calls(ApiKey.SASL_HANDSHAKE)) > 1)
    sasl.lifetime_ms = 0
    waiting = [connection.send(MetadataRequest(), MetadataResponse)]
    too_large = MetadataRequest(topics=[MetadataRequestTopic(name="t" * 40_000)])
    failing = connection.send(too_large, MetadataResponse, version=0)
    connection.send_without_response(ProduceRequest("t" * 40_000, acks=0), version=3)
    connection.send_without_response(ProduceRequest(acks=0))
    taken = asyncio.create_task(connection.drained())
    waiting += [connection.send(MetadataRequest(), MetadataResponse) for _ in range(2)]
    await asyncio.sleep(0)
    assert not (cluster.calls(ApiKey.METADATA) or cluster.calls(ApiKey.PRODUCE) or taken.done())
    held.set()
    assert [len((await each).topics) for each in waiting] == [0, 0, 0]
    with pytest.raises(ValueOutOfRange):
        await failing
    await taken
    keys = [call.key for call in cluster.nodes[1].calls[-4:]]
    assert keys == [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.METADATA]
    await connection.close()


async def test_a_password_that_was_changed_ends_the_connection_with_its_reason(cluster: FakeCluster) -> None:
    sasl = FakeSasl(cluster, users=dict(USERS), lifetime_ms=20)
    security = SecurityOptions(**password("PLAIN"))
    connection = await Connection.open("127.0.0.1", cluster.nodes[1].port, client_id="test", security=security)
    sasl.users["alice"] = "changed"
    await until(lambda: connection.closed)
    with pytest.raises(AuthenticationFailed, match="rejects the user 'alice'"):
        await connection.request(MetadataRequest(), MetadataResponse)
    await connection.close()


QUICK: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 5, "retry_backoff_max_ms": 10}


@pytest.mark.parametrize("sent", [True, False], ids=["in flight", "not sent"])
async def test_records_that_wait_for_a_password_fail_with_its_reason_and_with_their_outcome(sent: bool) -> None:
    async with FakeCluster({"t": 1}) as cluster:
        sasl = FakeSasl(cluster, users=dict(USERS), lifetime_ms=60)

        async def change_password(call: Call) -> Any:
            sasl.users["alice"] = "changed"
            return Silence()

        limits = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 250}
        async with Producer(cluster.address, **QUICK, **limits, **password("PLAIN")) as producer:
            await producer.send_and_wait("t", b"first")
            if sent:
                cluster.on(ApiKey.PRODUCE, change_password)
            else:
                sasl.users["alice"] = "changed"
                await until(lambda: not producer.is_connected)
            with pytest.raises(DeliveryTimedOut, match=r"last attempt failed: .*rejects the user 'alice'") as caught:
                await producer.send_and_wait("t", b"second")
            assert caught.value.outcome is (Outcome.UNKNOWN if sent else Outcome.NOT_WRITTEN)
            assert isinstance(caught.value.__cause__, AuthenticationFailed)


async def test_records_that_wait_for_a_password_are_sent_when_it_is_right_again(cluster: FakeCluster) -> None:
    sasl = FakeSasl(cluster, users=dict(USERS), lifetime_ms=20)
    async with Producer(cluster.address, **QUICK, **password("PLAIN")) as producer:
        await producer.send_and_wait("t", b"first")
        sasl.users["alice"] = "changed"
        await until(lambda: not producer.is_connected)
        sent = await producer.send("t", b"second")
        attempts = len(cluster.calls(ApiKey.SASL_HANDSHAKE))
        await until(lambda: len(cluster.calls(ApiKey.SASL_HANDSHAKE)) >= attempts + 3)
        sasl.users["alice"] = "secret"
        assert (await sent).offset == 1
    assert cluster.values("t") == [b"first", b"second"]


async def test_a_poll_raises_that_the_password_is_not_right_any_more(cluster: FakeCluster) -> None:
    sasl = FakeSasl(cluster, users=dict(USERS), lifetime_ms=20)
    async with Consumer("t", bootstrap_servers=cluster.address, group_id="g", **password("PLAIN")) as consumer:
        while not consumer.assignment():
            await consumer.getmany(timeout_ms=1)
        sasl.users["alice"] = "changed"
        with pytest.raises(AuthenticationFailed, match="rejects the user 'alice'"):
            while True:
                await consumer.getmany(timeout_ms=100)


async def test_closing_in_the_middle_of_it_leaves_nothing_behind(cluster: FakeCluster) -> None:
    async def silent(call: Call) -> Any:
        return Silence()

    FakeSasl(cluster, users=USERS, lifetime_ms=20)
    security = SecurityOptions(**password("PLAIN"))
    connection = await Connection.open("127.0.0.1", cluster.nodes[1].port, client_id="test", security=security)
    cluster.on(ApiKey.SASL_HANDSHAKE, silent)
    await until(lambda: len(cluster.calls(ApiKey.SASL_HANDSHAKE)) > 1)
    waiting = connection.send(MetadataRequest(), MetadataResponse)
    await connection.close()
    with pytest.raises(KafkaError, match="was closed by this client"):
        await waiting
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("authenticate")] == []


async def test_a_consumer_whose_password_is_wrong_raises_at_its_start(cluster: FakeCluster) -> None:
    FakeSasl(cluster, users=USERS)
    options = password("PLAIN", secret="no")
    consumer = Consumer("t", bootstrap_servers=cluster.address, group_id="g", **options)
    with pytest.raises(AuthenticationFailed):
        await consumer.start()
