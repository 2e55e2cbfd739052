"""Logins by SASL: what each state takes, what each failure is answered, and sessions that end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from odradek.broker import Broker, BrokerConfig
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.network import login
from odradek.broker.quotas.entities import REQUEST_PERCENTAGE, Entity
from odradek.broker.security.principals import user
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.sasl import (
    PASSWORD,
    PLAIN,
    authenticate,
    bearer,
    handshake,
    log_in,
    sasl_config,
    set_password,
    token,
)

METADATA = MetadataRequest(topics=[])


@pytest.fixture
async def secure(config: BrokerConfig) -> AsyncIterator[Broker]:
    async with Broker(sasl_config(config)) as broker:
        yield broker


@pytest.fixture
async def client(secure: Broker) -> AsyncIterator[Raw]:
    async with await Raw.connect(secure.addresses[1]) as raw:
        yield raw


def _tagged_fields(count: int) -> bytes:
    """Tagged fields without a value, with numbers of two bytes."""

    def two_bytes(number: int) -> bytes:
        return bytes([number & 0x7F | 0x80, number >> 7])

    return two_bytes(count) + b"".join(two_bytes(128 + tag) + b"\0" for tag in range(count))


async def works(raw: Raw) -> bool:
    return bool((await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers)


async def test_a_user_logs_in_and_is_the_principal(secure: Broker, client: Raw) -> None:
    await client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("tests", "1.0"))
    assert set((await handshake(client, "PLAIN")).mechanisms) == set(secure.config.sasl_enabled_mechanisms)
    response = await authenticate(client, PLAIN)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert await works(client)
    assert connections(secure)[0].principal == user("alice")


async def test_raw_tokens_follow_handshake_0(client: Raw) -> None:
    await handshake(client, "PLAIN", 0)
    client.send_bytes(pack(">i", len(PLAIN)) + PLAIN)
    assert await client.receive_bytes() == b""
    assert await works(client)


async def test_a_raw_token_that_is_wrong_closes_without_an_answer(client: Raw) -> None:
    await handshake(client, "PLAIN", 0)
    client.send_bytes(pack(">i", 8) + b"\0alice\0x")
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
    ],
)
async def test_a_wrong_password_has_kafkas_text_and_closes(client: Raw, sent: bytes, text: str) -> None:
    response = await log_in(client, sent)
    assert (response.error_code, response.error_message) == (58, text)
    assert await client.is_closed()


async def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled(client: Raw) -> None:
    response = await handshake(client, "GSSAPI")
    assert (response.error_code, sorted(response.mechanisms)) == (
        33,
        ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    )
    assert await client.is_closed()


async def test_a_request_before_the_login_closes_without_an_answer(
    client: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(ApiKey.METADATA, 12, METADATA)
    assert await client.is_closed()
    assert "Unexpected Kafka request of type METADATA during SASL handshake." in caplog.text


async def test_api_versions_may_be_asked_again_after_an_error_and_not_after_an_answer(client: Raw) -> None:
    client.send_bytes(pack(">ihhih", 12, 18, 99, 77, 1) + b"x\0")
    assert (await client.receive(ApiKey.API_VERSIONS, 0)).error_code == 35
    assert (await client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("", ""))).error_code == 42
    assert (await client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("tests", "1"))).error_code == 0
    client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("tests", "1"))
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("key", "request_"),
    [(ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m")), (ApiKey.API_VERSIONS, ApiVersionsRequest("tests", "1"))],
)
async def test_a_request_during_the_login_gets_its_own_error(client: Raw, key: ApiKey, request_: Any) -> None:
    await handshake(client, "PLAIN")
    assert (await client.ask(key, 3, request_)).error_code == 34
    assert await client.is_closed()


async def test_after_the_login_both_requests_are_rejected_and_the_connection_stays(client: Raw) -> None:
    await log_in(client)
    assert (await handshake(client, "PLAIN")).error_code == 34
    response = await authenticate(client, PLAIN)
    assert response.error_code == 34
    assert response.error_message == "SaslAuthenticate request received after successful authentication"
    assert await works(client)


async def test_a_plain_listener_rejects_both_and_stays_open(raw: Raw) -> None:
    response = await handshake(raw, "PLAIN")
    assert (response.error_code, response.mechanisms) == (34, [])
    assert (await authenticate(raw, PLAIN)).error_code == 34
    assert await works(raw)


async def test_a_frame_before_the_login_may_not_be_large(config: BrokerConfig) -> None:
    made = sasl_config(config, sasl_server_max_receive_size=1000)
    async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
        raw.send_bytes(pack(">i", 1001))
        assert await raw.is_closed()
        async with await Raw.connect(broker.addresses[1]) as other:
            await log_in(other)
            other.send_bytes(pack(">i", 1001))
            async with await Raw.connect(broker.addresses[1]) as third:
                await log_in(third)
                assert await works(third)


async def test_who_does_not_log_in_is_closed_in_time(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login, "LOGIN_MS", 1)
    async with Broker(sasl_config(config)) as broker, await Raw.connect(broker.addresses[1]) as raw:
        assert await raw.is_closed()
    assert "did not log in within 1 ms" in caplog.text


async def test_the_answer_to_a_failure_is_held_back(config: BrokerConfig) -> None:
    made = sasl_config(config, connection_failed_authentication_delay_ms=60_000)
    async with Broker(made) as broker, await Raw.connect(broker.addresses[1], wait_s=0.1) as raw:
        await handshake(raw, "PLAIN")
        with pytest.raises(TimeoutError):
            await authenticate(raw, b"\0alice\0wrong")


async def test_nothing_behind_a_failure_is_read(client: Raw) -> None:
    await handshake(client, "PLAIN")
    client.send(ApiKey.SASL_AUTHENTICATE, 2, sasl_token(b"\0alice\0wrong"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, sasl_token(PLAIN))
    client.send(ApiKey.METADATA, 12, METADATA)
    assert (await client.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 58
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (pack(">hhih", 3, 12, 1, 99), "a request header that cannot be read"),
        (pack(">hhihb", 36, 2, 1, -1, 0) + b"\x02x" + _tagged_fields(1_001), "tagged fields announces 1001"),
    ],
    ids=["a header that is cut off", "many tagged fields"],
)
async def test_a_request_that_cannot_be_read_closes_with_a_line(
    client: Raw, caplog: pytest.LogCaptureFixture, sent: bytes, said: str
) -> None:
    await handshake(client, "PLAIN")
    client.send_bytes(pack(">i", len(sent)) + sent)
    assert await client.is_closed()
    assert said in caplog.text
    assert "Traceback" not in caplog.text


async def test_nothing_secret_is_logged(secure: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for sent in (PLAIN, b"\0alice\0hunter2", b"hunter2"):
        async with await Raw.connect(secure.addresses[1]) as raw:
            await log_in(raw, sent)
    async with await Raw.connect(secure.addresses[1]) as raw:
        await log_in(raw, bearer(token(lives_s=-5)), "OAUTHBEARER")
        await authenticate(raw, b"\x01")
    assert "hunter2" not in caplog.text and PASSWORD not in caplog.text and "eyJ" not in caplog.text


# Signed tokens, of which neither the audience nor the issuer is checked.
UNVERIFIED: dict[str, Any] = {
    "sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    ),
    "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
}


class TestTokens:
    async def test_a_token_that_is_right(self, secure: Broker, client: Raw) -> None:
        response = await log_in(client, bearer(token("carol")), "OAUTHBEARER")
        assert response.error_code == 0
        assert 50_000 < response.session_lifetime_ms <= 60_000
        assert connections(secure)[0].principal == user("carol")

    @pytest.mark.parametrize(
        "claims",
        [{"lives_s": -1}, {"algorithm": "HS256"}, {"subject": ""}, {"exp": None}, {"exp": 1e300}, {"iat": 9e10}, None],
        ids=str,
    )
    async def test_a_token_that_is_not_gets_a_status_and_then_the_error(
        self, client: Raw, claims: dict[str, Any] | None
    ) -> None:
        sent = "a.b.c" if claims is None else token(**claims)
        response = await log_in(client, bearer(sent), "OAUTHBEARER")
        assert (response.error_code, response.auth_bytes) == (0, b'{"status":"invalid_token"}')
        response = await authenticate(client, b"\x01")
        assert (response.error_code, response.error_message) == (58, '{"status":"invalid_token"}')
        assert await client.is_closed()

    @pytest.mark.parametrize(
        ("claims", "is_right"),
        [
            ({}, True),
            ({"aud": "other"}, False),
            ({"iss": "other"}, False),
            ({"who": ""}, False),
            ({"scopes": 7}, False),
            ({"exp": 1}, False),
            ({"exp": -20}, True),  # seconds from now: within the skew
            (None, False),
        ],
        ids=str,
    )
    async def test_a_signed_token_is_checked_by_the_keys_of_its_issuer(
        self, config: BrokerConfig, tmp_path: Path, claims: dict[str, Any] | None, is_right: bool
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": "1", "use": "sig"}
        (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        own = {
            "sasl.server.callback.handler.class": handler,
            "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": ("kafka",),
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.sub.claim.name": "who",
            "sasl.oauthbearer.scope.claim.name": "scopes",
            "sasl.oauthbearer.clock.skew.seconds": 40,
        }
        now_s = int(time.time())
        right = {"who": "alice", "aud": "kafka", "iss": "us", "iat": now_s - 60, "exp": now_s + 60, "scopes": "a b"}
        if claims is not None and claims.get("exp") == -20:
            claims = {"exp": now_s - 20}
        signer = ec.generate_private_key(ec.SECP256R1()) if claims is None else key
        sent = jwt.encode(right | (claims or {}), signer, "ES256", {"kid": "1"})
        async with Broker(sasl_config(config, own)) as broker, await Raw.connect(broker.addresses[1]) as raw:
            response = await log_in(raw, bearer(sent), "OAUTHBEARER")
            assert (response.auth_bytes == b"") is is_right
            async with await Raw.connect(broker.addresses[1]) as unsigned:
                assert (await log_in(unsigned, bearer(token()), "OAUTHBEARER")).auth_bytes

    async def test_a_message_of_another_form_is_refused(self, client: Raw) -> None:
        assert (await log_in(client, b"n,,\x01auth=Bearer \x01\x01", "OAUTHBEARER")).error_code == 58

    @pytest.mark.parametrize(
        "sent",
        [b"n,a=" + b"a" * 1_001 + b",\x01auth=Bearer a\x01\x01", bearer(token())[:-1] + b"a=b\x01" * 101 + b"\x01"],
    )
    async def test_a_message_of_many_parts_is_refused(self, client: Raw, sent: bytes) -> None:
        assert (await log_in(client, sent, "OAUTHBEARER")).error_code == 58


class TestSessions:
    async def test_a_session_is_renewed_in_time_or_closed(self, config: BrokerConfig) -> None:
        made = sasl_config(config, connections_max_reauth_ms=400)
        async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
            assert (await log_in(raw)).session_lifetime_ms == 400
            response = await log_in(raw)
            assert (response.error_code, response.session_lifetime_ms) == (0, 400)
            assert (await handshake(raw, "PLAIN")).error_code == 34  # too soon again
            while not await is_over(raw):
                pass

    async def test_a_frame_may_not_be_large_while_a_session_is_renewed(self, config: BrokerConfig) -> None:
        made = sasl_config(config, connections_max_reauth_ms=60_000, sasl_server_max_receive_size=1_000)
        async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
            await log_in(raw)
            await handshake(raw, "PLAIN")
            raw.send_bytes(pack(">i", 1_001))
            assert await raw.is_closed()

    async def test_nobody_becomes_another_user(self, config: BrokerConfig) -> None:
        made = sasl_config(config, connections_max_reauth_ms=60_000)
        async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
            await log_in(raw)
            response = await log_in(raw, b"\0bob\0b")
            assert response.error_message == (
                "Cannot change principals during re-authentication from User.alice: User.bob"
            )
            assert await raw.is_closed()

    async def test_nobody_changes_the_mechanism(self, config: BrokerConfig) -> None:
        made = sasl_config(config, connections_max_reauth_ms=60_000)
        async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
            await log_in(raw)
            assert (await handshake(raw, "SCRAM-SHA-256")).error_code == 0
            raw.send(ApiKey.SASL_AUTHENTICATE, 2, sasl_token(b"n,,n=alice,r=x"))
            assert await raw.is_closed()

    async def test_a_mechanism_may_have_its_own_limit(self, config: BrokerConfig) -> None:
        made = sasl_config(config, {"plain.connections.max.reauth.ms": 7_000}, connections_max_reauth_ms=9_000)
        async with Broker(made) as broker, await Raw.connect(broker.addresses[1]) as raw:
            assert (await log_in(raw)).session_lifetime_ms == 7_000


def sasl_token(data: bytes) -> Any:
    from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

    return SaslAuthenticateRequest(data)


async def is_over(raw: Raw) -> bool:
    raw.send(ApiKey.METADATA, 12, METADATA)
    try:
        await raw.receive(ApiKey.METADATA, 12)
    except (EOFError, ConnectionError):
        return True
    return False


class TestStart:
    # It depends on no loop.
    @pytest.mark.asyncio(loop_factories=["uvloop"])
    @pytest.mark.parametrize(
        ("own", "configs", "said"),
        [
            ({}, {"sasl_enabled_mechanisms": ("GSSAPI",)}, "must name mechanisms other than GSSAPI"),
            ({"plain.sasl.jaas.config": None}, {}, "PLAIN has no users"),
            ({"plain.sasl.jaas.config": "nonsense hunter2"}, {}, "must be CLASS required"),
            ({"plain.sasl.jaas.config": 'X required username="hunter2" password="hunter2";'}, {}, "PLAIN has no users"),
            ({"oauthbearer.sasl.jaas.config": None}, {}, "OAUTHBEARER needs sasl.server.callback.handler.class"),
            (
                {
                    "sasl.server.callback.handler.class": (
                        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                    )
                },
                {},
                "jwks.endpoint.url must be set",
            ),
            (UNVERIFIED | {"sasl.oauthbearer.expected.issuer": "us"}, {}, "oauthbearer.expected.audience"),
            (UNVERIFIED | {"sasl.oauthbearer.expected.audience": ("kafka",)}, {}, "oauthbearer.expected.issuer"),
            (UNVERIFIED | {"sasl.oauthbearer.allow.unverified.issuer": True}, {}, "allow.unverified.audience"),
            (UNVERIFIED | {"sasl.oauthbearer.allow.unverified.audience": True}, {}, "allow.unverified.issuer"),
        ],
    )
    async def test_what_cannot_work_is_refused_in_one_line(
        self, config: BrokerConfig, own: dict[str, Any], configs: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(StartError) as caught:
            await Broker(sasl_config(config, own, **configs)).start()
        text = str(caught.value)
        assert text.startswith("listener AUTH: ") and said in text and "\n" not in text and "hunter2" not in text


async def test_a_password_survives_a_restart_and_a_deleted_user_is_out(config: BrokerConfig) -> None:
    import scramp

    async def outcome(broker: Broker, password: str) -> int:
        mine = scramp.ScramClient(["SCRAM-SHA-256"], "alice", password)
        async with await Raw.connect(broker.addresses[1]) as raw:
            first = await log_in(raw, mine.get_client_first().encode(), "SCRAM-SHA-256")
            mine.set_server_first(first.auth_bytes.decode())
            last = await authenticate(raw, mine.get_client_final().encode())
            if last.error_code == 0:
                mine.set_server_final(last.auth_bytes.decode())
            return last.error_code

    made = sasl_config(config)
    async with Broker(made) as broker, await Raw.connect(broker.address) as admin:
        assert await outcome(broker, "secret") == 58
        assert await set_password(admin) == 0
        assert await outcome(broker, "secret") == 0
        assert await outcome(broker, "wrong") == 58
    async with Broker(replace(made)) as broker:
        assert await outcome(broker, "secret") == 0


class Scram:
    """A client that logs in by SCRAM-SHA-256, message by message."""

    def __init__(self, name: str = "alice") -> None:
        import scramp

        self._client = scramp.ScramClient(["SCRAM-SHA-256"], name, PASSWORD)

    async def begin(self, raw: Raw) -> None:
        first = await log_in(raw, self._client.get_client_first().encode(), "SCRAM-SHA-256")
        self._client.set_server_first(first.auth_bytes.decode())

    async def end(self, raw: Raw) -> int:
        return (await authenticate(raw, self._client.get_client_final().encode())).error_code


async def delete_password(raw: Raw, name: str) -> None:
    request_ = AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, 1)], [])
    assert (await raw.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request_)).results[0].error_code == 0


async def test_sessions_end_with_the_password_that_they_began_with(secure: Broker) -> None:
    at = secure.addresses[1]
    async with await Raw.connect(secure.address) as admin:
        for name in ("alice", "bob"):
            assert await set_password(admin, name) == 0
        async with await Raw.connect(at) as mine, await Raw.connect(at) as others, await Raw.connect(at) as plain:
            for raw, who in ((mine, Scram()), (others, Scram("bob"))):
                await who.begin(raw)
                assert await who.end(raw) == 0
            await log_in(plain)
            await delete_password(admin, "alice")
            assert await mine.is_closed()
            # Another user goes on, and so does the same one by another mechanism.
            assert await works(others) and await works(plain)


async def test_a_user_that_deletes_itself_gets_the_answer(secure: Broker) -> None:
    async with await Raw.connect(secure.address) as admin, await Raw.connect(secure.addresses[1]) as mine:
        assert await set_password(admin) == 0
        who = Scram()
        await who.begin(mine)
        assert await who.end(mine) == 0
        await delete_password(mine, "alice")
        assert await mine.is_closed()


async def test_a_request_that_waits_for_long_does_not_keep_a_deleted_user(secure: Broker) -> None:
    async with await Raw.connect(secure.address) as admin, await Raw.connect(secure.addresses[1]) as mine:
        assert await set_password(admin) == 0
        await admin.create_topic("t")
        who = Scram()
        await who.begin(mine)
        assert await who.end(mine) == 0
        waits = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
        mine.send(ApiKey.FETCH, 11, waits)
        await delete_password(admin, "alice")
        assert await mine.is_closed()


async def test_a_login_that_was_under_way_when_its_user_was_deleted_fails(secure: Broker) -> None:
    async with await Raw.connect(secure.address) as admin, await Raw.connect(secure.addresses[1]) as mine:
        assert await set_password(admin) == 0
        who = Scram()
        await who.begin(mine)
        await delete_password(admin, "alice")
        assert await who.end(mine) == 58


async def test_what_comes_before_a_login_counts_against_nobodys_quota(config: BrokerConfig) -> None:
    async with Broker(sasl_config(config)) as broker:
        # Every request takes more than that.
        limit = {REQUEST_PERCENTAGE: 1e-6}
        quota = {Entity(user="ANONYMOUS"): limit, Entity(user=""): limit}
        await broker.services.security.put_quotas(list(quota.items()))
        for _ in range(3):
            async with await Raw.connect(broker.addresses[1]) as raw:
                answer = await raw.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("name", "1"))
                assert (answer.error_code, answer.throttle_time_ms) == (0, 0)


async def test_an_unknown_user_is_told_the_same_at_every_listener_and_after_each_start(config: BrokerConfig) -> None:
    secure = sasl_config(config)
    two = replace(
        secure,
        listeners=(*secure.listeners, "OTHER://127.0.0.1:0"),
        listener_security_protocol_map=f"{secure.listener_security_protocol_map},OTHER:SASL_PLAINTEXT",
        sasl_enabled_mechanisms=("SCRAM-SHA-256",),
    )
    told: set[bytes] = set()
    for _ in range(2):
        async with Broker(two) as broker:
            for address in broker.addresses[1:]:
                async with await Raw.connect(address) as raw:
                    first = await log_in(raw, b"n,,n=nobody,r=nonce", "SCRAM-SHA-256")
                    told.add(first.auth_bytes.partition(b",")[2])
    assert len(told) == 1


async def test_a_data_directory_of_an_earlier_version_gets_a_secret(config: BrokerConfig) -> None:
    async with Broker(config) as broker:
        metadata = broker.services.metadata
        metadata._commit({"type": "cluster", "id": metadata.cluster_id, "directories": metadata.directories})
        assert metadata.stranger_secret == b""
    async with Broker(config) as broker:
        secret = broker.services.metadata.stranger_secret
        assert len(secret) == 32
    async with Broker(config) as broker:
        assert broker.services.metadata.stranger_secret == secret
