"""SASL as the side that logs in speaks it: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677).

Clients log in to brokers, and brokers to each other.

A mechanism is a generator. It yields the bytes for the broker, takes the broker's bytes, and ends when the broker has
said enough. LoginFailed says what is wrong where the broker proves not to know the password, or says what no broker
says.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from .errors import ErrorCode, KafkaError

Mechanism = Generator[bytes, bytes, None]

# The mechanisms of SCRAM and their hashes.
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

# Kafka's brokers take 4,096 to 16,384 iterations. Fewer would let a false broker guess the password faster, and very
# many would hold this client up.
_MIN_ITERATIONS = 4_096
_MAX_ITERATIONS = 1_000_000


class LoginFailed(KafkaError):
    """The other side of a login says what no broker says, or does not know the password."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


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
        raise LoginFailed(f"the broker ends the SCRAM exchange: {fields['e']}")
    try:
        salt, iterations, both = base64.b64decode(fields["s"], validate=True), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        raise LoginFailed("the broker's first SCRAM message makes no sense") from None
    if "m" in fields or not both.startswith(nonce) or both == nonce:
        raise LoginFailed("the broker's first SCRAM message does not answer this client's")
    if not _MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise LoginFailed(
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
        raise LoginFailed(f"the broker ends the SCRAM exchange: {fields['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), said, name)
    if not hmac.compare_digest(base64.b64encode(expected), fields.get("v", "").encode()):
        raise LoginFailed("the broker does not know this user's password: is it the broker that you mean?")


def advance(machine: Mechanism, challenge: bytes) -> bytes | None:
    """Give a machine the broker's bytes. Return its next bytes, None when it has ended."""
    try:
        return machine.send(challenge)
    except StopIteration:
        return None
