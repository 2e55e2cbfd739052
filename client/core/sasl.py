"""SASL mechanisms as pure machines: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, 7677), OAUTHBEARER (RFC 7628).

A machine is a generator. It yields the bytes for the broker, takes the broker's bytes, and ends when the broker has
said enough. It raises AuthenticationFailed if the broker proves not to know the password, or says what no broker says.
The broker's error codes are left to the caller.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from ..errors import AuthenticationFailed

Mechanism = Generator[bytes, bytes, None]

# The mechanisms of SCRAM and their hashes.
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *SCRAM_HASHES, "OAUTHBEARER")

# Kafka's brokers take 4,096 to 16,384 iterations. Fewer would let a false broker guess the password faster, and very
# many would hold this client up.
_MIN_ITERATIONS = 4_096
_MAX_ITERATIONS = 1_000_000

_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


@dataclass(frozen=True, slots=True)
class Token:
    """An OAuth token, with the extensions that go with it (KIP-342)."""

    value: str
    extensions: Mapping[str, str]


def plain(username: str, password: str) -> Mechanism:
    """Send a user's name and password as they are."""
    yield b"\0".join((b"", username.encode(), password.encode()))


def scram(mechanism: str, username: str, password: str, nonce: str | None = None) -> Mechanism:
    """Prove that this client knows the password, and check that the broker knows it too. `nonce` is for tests."""
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24) if nonce is None else nonce
    first = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    salt, iterations, both_nonces = _server_first(server_first, nonce)
    salted = salted_password(mechanism, password, salt, iterations)
    without_proof = f"c=biws,r={both_nonces}"  # biws: "n,,", the client has no channel binding
    said = f"{first},{server_first},{without_proof}".encode()
    proof = _proof(SCRAM_HASHES[mechanism], salted, said)
    server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    _check_server(SCRAM_HASHES[mechanism], salted, said, server_final.decode(errors="replace"))


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what a SCRAM broker keeps of a password before the last hashes, as AlterUserScramCredentials sends it."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def _server_first(text: str, nonce: str) -> tuple[bytes, int, str]:
    """Return the salt, the iterations and the nonce of both from a broker's first message."""
    fields = _fields(text)
    if "e" in fields:
        raise AuthenticationFailed(f"the broker ends the SCRAM exchange: {fields['e']}")
    try:
        salt, iterations, both = base64.b64decode(fields["s"], validate=True), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        raise AuthenticationFailed("the broker's first SCRAM message makes no sense") from None
    if "m" in fields or not both.startswith(nonce) or both == nonce:
        raise AuthenticationFailed("the broker's first SCRAM message does not answer this client's")
    if not _MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise AuthenticationFailed(
            f"the broker asks for {iterations} SCRAM iterations ({_MIN_ITERATIONS} to {_MAX_ITERATIONS} are safe): "
            "store the user's password with another number"
        )
    return salt, iterations, both


def _fields(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs}


def _proof(name: str, salted: bytes, said: bytes) -> bytes:
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
    return bytes(one ^ other for one, other in zip(client_key, signature, strict=True))


def _check_server(name: str, salted: bytes, said: bytes, final: str) -> None:
    fields = _fields(final)
    if "e" in fields:
        raise AuthenticationFailed(f"the broker ends the SCRAM exchange: {fields['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), said, name)
    if not hmac.compare_digest(base64.b64encode(expected), fields.get("v", "").encode()):
        raise AuthenticationFailed("the broker does not know this user's password: is it the broker that you mean?")


def oauthbearer(token: Token) -> Mechanism:
    """Send an OAuth token. Where the broker rejects it, raise with the status that it names."""
    if not _TOKEN.fullmatch(token.value):
        raise AuthenticationFailed("the OAuth token is empty, or has characters that no bearer token has")
    if bad := [name for name, value in token.extensions.items() if not _is_extension(name, value)]:
        raise AuthenticationFailed(f"no extension of an OAuth token can be called {bad[0]!r}, or have this value")
    fields = [f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in token.extensions.items())]
    rejection = yield f"n,,{_SEPARATOR}{_SEPARATOR.join(fields)}{_SEPARATOR}{_SEPARATOR}".encode()
    if rejection:
        yield _SEPARATOR.encode()  # the broker ends the exchange with an error code after this
        raise AuthenticationFailed(f"the broker rejects the OAuth token: {_status(rejection)}")


def _is_extension(name: str, value: str) -> bool:
    return name.isascii() and name.isalpha() and name != "auth" and value.isascii() and value.isprintable()


def _status(rejection: bytes) -> str:
    try:
        said = json.loads(rejection)
        return ", ".join(f"{name} {value}" for name, value in said.items()) or "it does not say why"
    except (ValueError, AttributeError):
        return repr(rejection[:200])


def advance(machine: Mechanism, challenge: bytes) -> bytes | None:
    """Give a machine the broker's bytes. Return its next bytes, None when it has ended."""
    try:
        return machine.send(challenge)
    except StopIteration:
        return None
