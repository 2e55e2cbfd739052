"""Messages and tokens of any shape end an exchange as a failure of the client, and never as an error of the broker."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.broker.security.sasl.exchange import Exchange, Failed, Identity, Work, plain
from odradek.broker.security.sasl.oauthbearer import BadToken, UnsecuredTokens, oauthbearer
from odradek.broker.security.sasl.scram import Strangers, scram
from odradek.broker.security.sasl.signed_tokens import SignedTokens
from odradek.tests.support.security.sasl import bearer, token

jwt = pytest.importorskip("jwt", reason="signed tokens need PyJWT (extra `oauth`)")

STRANGER = Strangers(bytes(32), {})
NOW_MS = 1_800_000_000_000
UNSECURED = UnsecuredTokens({"unsecuredValidatorRequiredScope": "read"}, lambda: NOW_MS)
SEEDS = [
    b"\0alice\0secret",
    b"n,,n=alice,r=nonce",
    b"n,a=alice,m=x,n=alice,r=nonce,tokenauth=true",
    b"c=biws,r=noncenonce,p=AAAA",
    bearer(token()),
    bearer("e30.e30."),
    b"\x01",
]
# What JSON has, numbers without an end among them, and texts that are none elsewhere.
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=8,
)
CLAIMS = st.dictionaries(
    st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "iss", "jti", "scope", "other"]),
    VALUES | st.sampled_from([NOW_MS // 1000 + 60, 2**63, -1, "alice", ["read"], "read"]),
)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), VALUES | st.just("none"))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message of some mechanism, with a few bytes replaced, removed or repeated; or any bytes."""
    data = bytearray(draw(st.sampled_from(SEEDS) | st.binary(max_size=200)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from([b"\0", b",", b"=", b"\x01", b"=2C", b"\xff", b"."]) | st.binary(max_size=8))
        data[at : at + draw(st.integers(0, 4))] = change * draw(st.sampled_from([1, 1, 500]))
    return bytes(data)


def run(exchange: Exchange, following: list[bytes]) -> Identity | Failed:
    """Drive an exchange as a login does, with work in place."""
    replies = iter(following)
    try:
        said = next(exchange)
        while True:
            if isinstance(said, Work):
                try:
                    result = said.run()
                except BadToken as error:
                    said = exchange.throw(error)
                else:
                    said = exchange.send(result)
            else:
                assert len(said) < 4_096
                said = exchange.send(next(replies, b""))
    except StopIteration as end:
        return end.value
    except Failed as failure:
        return failure


@given(first=messages(), following=st.lists(messages(), max_size=2))
def test_any_messages(first: bytes, following: list[bytes]) -> None:
    for exchange in (
        plain(first, {"bob": "b"}),
        scram(first, "SCRAM-SHA-256", lambda name: None, STRANGER),
        oauthbearer(first, UNSECURED),
    ):
        assert isinstance(run(exchange, following), Failed)


def part(fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@given(header=HEADERS, claims=CLAIMS)
def test_any_claims_of_a_token_without_a_signature(header: dict[str, Any], claims: dict[str, Any]) -> None:
    for first in (header, header | {"alg": "none"}):
        run(oauthbearer(bearer(f"{part(first)}.{part(claims)}."), UNSECURED), [])


class Issuer:
    """Keys in a file, and the broker's validator for them."""

    def __init__(self, folder: Path) -> None:
        secret = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
        from cryptography.hazmat.primitives.asymmetric import ec

        self.key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(secret.to_jwk(self.key.public_key())) | {"kid": "k", "use": "sig", "alg": "ES256"}
        (folder / "keys.json").write_text(json.dumps({"keys": [public]}))
        config: Any = type("Config", (), CONFIG)()
        config.sasl_oauthbearer_jwks_endpoint_url = f"file://{folder}/keys.json"
        self.validate = SignedTokens(config, lambda: 0)


CONFIG = {
    "sasl_oauthbearer_expected_audience": (),
    "sasl_oauthbearer_expected_issuer": None,
    "sasl_oauthbearer_allow_unverified_audience": True,
    "sasl_oauthbearer_allow_unverified_issuer": True,
    "sasl_oauthbearer_clock_skew_seconds": 30,
    "sasl_oauthbearer_sub_claim_name": "sub",
    "sasl_oauthbearer_scope_claim_name": "scope",
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": 3_600_000,
}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, -(10**30), 10**30, True, "9" * 5_000, []])
def test_a_time_that_is_none(issuer: Issuer, name: str, value: object) -> None:
    claims = {"sub": "alice", "exp": 2**33, "iat": 1} | {name: value}
    text = json.dumps(claims).encode()
    signed = jwt.api_jws.encode(text, issuer.key, "ES256", headers={"kid": "k"})
    run(oauthbearer(bearer(signed), issuer.validate), [])
    run(oauthbearer(bearer(f"{part({'alg': 'none'})}.{part(claims)}."), UNSECURED), [])


def test_a_name_of_any_length_makes_no_long_line() -> None:
    for exchange in (
        plain(b"\0" + b"a" * 500_000 + b"\0x", {}),
        oauthbearer(b"n,a=bob,\x01auth=Bearer " + of_subject("s" * 300_000) + b"\x01\x01", UNSECURED),
    ):
        failure = run(exchange, [])
        assert isinstance(failure, Failed) and len(failure.why) < 300


@pytest.mark.parametrize(("head", "tail"), [(b"n,a=bob,", b""), (b"n,,", b"auth=v\x01")])
def test_a_token_for_another_name_or_with_a_second_scheme_fails_at_once(head: bytes, tail: bytes) -> None:
    # As in Kafka: the client need not end the exchange first, as it does where the token is refused.
    exchange = oauthbearer(head + b"\x01auth=Bearer " + of_subject("alice") + b"\x01" + tail + b"\x01", UNSECURED)
    with pytest.raises(Failed):
        exchange.send(next(exchange).run())


def of_subject(subject: str) -> bytes:
    claims = {"sub": subject, "exp": NOW_MS // 1000 + 60, "scope": "read"}
    return f"{part({'alg': 'none'})}.{part(claims)}.".encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=HEADERS, claims=CLAIMS, signature=st.binary(max_size=80))
def test_any_claims_of_a_token_with_a_signature(
    issuer: Issuer, header: dict[str, Any], claims: dict[str, Any], signature: bytes
) -> None:
    """Also with the issuer's own signature: an issuer makes mistakes, too."""
    end = base64.urlsafe_b64encode(signature).decode().rstrip("=") or "AA"
    for given_header in (header, header | {"kid": "k", "alg": "ES256"}):
        run(oauthbearer(bearer(f"{part(given_header)}.{part(claims)}.{end}"), issuer.validate), [])
    signed = jwt.api_jws.encode(json.dumps(claims).encode(), issuer.key, "ES256", headers={"kid": "k"})
    run(oauthbearer(bearer(signed), issuer.validate), [])
