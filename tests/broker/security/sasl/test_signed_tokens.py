"""The keys of the issuer of tokens: when they are read, and what a bad source means."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from odradek.broker import BrokerConfig
from odradek.broker.security.sasl import signed_tokens
from odradek.broker.security.sasl.oauthbearer import BadToken
from odradek.broker.security.sasl.signed_tokens import MIN_REFRESH_MS, SignedTokens


class Issuer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = 0
        config, _ = BrokerConfig.parse(
            {
                "listeners": "SASL_PLAINTEXT://h:1",
                "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
                "sasl.oauthbearer.allow.unverified.audience": "true",
                "sasl.oauthbearer.allow.unverified.issuer": "true",
            }
        )
        self.tokens = SignedTokens(config.of_listener("SASL_PLAINTEXT"), lambda: self.now_ms)
        self.renew("1")

    def renew(self, key_id: str) -> None:
        self.key, self.key_id = ec.generate_private_key(ec.SECP256R1()), key_id
        public = json.loads(ECAlgorithm.to_jwk(self.key.public_key())) | {"kid": key_id}
        self.path.write_text(json.dumps({"keys": [public]}))

    def token(self, lifetime_s: float = 60) -> str:
        now_s = int(time.time())
        claims = {"sub": "a", "iat": now_s, "exp": now_s + lifetime_s}
        return jwt.encode(claims, self.key, "ES256", {"kid": self.key_id})


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "keys.json")


def test_keys_are_read_again_when_they_are_old(issuer: Issuer) -> None:
    assert issuer.tokens(issuer.token()).subject == "a"
    issuer.renew("1")
    with pytest.raises(BadToken, match="InvalidSignatureError"):
        issuer.tokens(issuer.token())
    issuer.now_ms = 3_600_000
    assert issuer.tokens(issuer.token()).subject == "a"


def test_an_unknown_key_has_the_keys_read_again_but_not_each_time(issuer: Issuer) -> None:
    issuer.tokens(issuer.token())
    issuer.renew("2")
    with pytest.raises(BadToken, match="no such key"):
        issuer.tokens(issuer.token())
    issuer.now_ms = MIN_REFRESH_MS
    assert issuer.tokens(issuer.token()).subject == "a"


def test_keys_that_cannot_be_read_are_those_of_before(issuer: Issuer) -> None:
    issuer.tokens(issuer.token())
    issuer.path.unlink()
    issuer.now_ms = 3_600_000
    assert issuer.tokens(issuer.token()).subject == "a"


@pytest.mark.parametrize("keys", ["nonsense", "[]", '{"keys": [{"kty": "oct", "k": "AA", "kid": []}]}', "[" * 9_999])
def test_without_any_keys_no_token_is_accepted(issuer: Issuer, keys: str) -> None:
    issuer.path.write_text(keys)
    with pytest.raises(BadToken, match="cannot be read"):
        issuer.tokens(issuer.token())


def test_a_time_that_no_response_can_hold_is_no_time(issuer: Issuer) -> None:
    year_9999_s = 253_402_300_799
    assert issuer.tokens(issuer.token(year_9999_s - int(time.time()))).expires_ms // 10_000 == year_9999_s // 10
    with pytest.raises(BadToken, match="exp is no time"):
        issuer.tokens(issuer.token(1e30))


@pytest.fixture
def hanging(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The issuer answers only when the event is set."""
    goes_on = threading.Event()
    fetch = signed_tokens._fetch

    def wait(url: str) -> str:
        assert goes_on.wait(60)
        return fetch(url)

    monkeypatch.setattr(signed_tokens, "_fetch", wait)
    yield goes_on
    goes_on.set()
    assert issuer.tokens._is_read.wait(60)


def test_an_issuer_that_hangs_keeps_nobody_out_whose_key_is_known(
    issuer: Issuer, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging.set()
    assert issuer.tokens(issuer.token()).subject == "a"
    hanging.clear()
    known = issuer.token()
    issuer.renew("2")
    issuer.now_ms = MIN_REFRESH_MS
    monkeypatch.setattr(signed_tokens, "MAX_WAIT_MS", 1)
    with pytest.raises(BadToken, match="takes long"):
        issuer.tokens(issuer.token())
    # The keys are old, and the issuer hangs still: a known key counts, and nobody waits any more.
    issuer.now_ms = 3_600_000
    monkeypatch.setattr(signed_tokens, "MAX_WAIT_MS", 60_000)
    issuer.tokens._began_ms = 0
    assert issuer.tokens(known).subject == "a"
    with pytest.raises(BadToken, match="takes long"):
        issuer.tokens(issuer.token())


def test_logins_share_one_reading_of_the_keys(issuer: Issuer, hanging: threading.Event) -> None:
    with ThreadPoolExecutor(4) as pool:
        logins = [pool.submit(issuer.tokens, issuer.token()) for _ in range(4)]
        hanging.set()
        assert [each.result(60).subject for each in logins] == ["a"] * 4


def test_a_server_that_sends_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def read1(self, size: int) -> bytes:
            return b"x"

    monkeypatch.setattr(signed_tokens, "_FETCH_TIMEOUT_S", -1)
    with pytest.raises(TimeoutError):
        signed_tokens._body(Slow())  # type: ignore[arg-type]
