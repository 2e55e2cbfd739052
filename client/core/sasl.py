"""SASL: the mechanisms PLAIN (RFC 4616), SCRAM (RFC 5802, 7677) and OAUTHBEARER (RFC 7628), and how a client uses them.

    conversation = authentication(options, version_for, token)
    request, response_type, version = next(conversation)
    ... = conversation.send(response)     # until it ends; its value is how long the session lives, in ms (0: for ever)

A mechanism is a generator. It yields the bytes for the broker, takes the broker's bytes, and ends when the broker has
said enough. A conversation puts them into requests (KIP-43, KIP-152). The asyncio connection and the blocking one drive
the same conversation, also to authenticate again before the session ends (KIP-368). AuthenticationFailed says what to
do where the broker rejects the client, proves not to know the password, or says what no broker says.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import json
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.schema import Message
from ..errors import AuthenticationFailed, ConnectionLost, UnsupportedVersion
from .lifetime import of_the_user
from .security import SecurityOptions

Mechanism = Generator[bytes, bytes, None]

# The mechanisms of SCRAM and their hashes.
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

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


Request = tuple[Message, type[Message], int]
Conversation = Generator[Request, Any, int]

# Tokens of a mechanism travel in SaslAuthenticate from this version on.
_HANDSHAKE_VERSION = 1


def authentication(
    options: SecurityOptions, version_for: Callable[[type[Message]], int], token: Token | None
) -> Conversation:
    """Return the conversation that authenticates a connection. `token` is for OAUTHBEARER."""
    try:
        version = version_for(SaslAuthenticateRequest)
    except UnsupportedVersion:
        raise AuthenticationFailed(f"the broker offers no SASL: {_without_sasl(options)}") from None
    assert options.sasl_mechanism is not None
    request = SaslHandshakeRequest(mechanism=options.sasl_mechanism)
    _check_handshake(options, (yield request, SaslHandshakeResponse, _HANDSHAKE_VERSION))
    machine = _machine(options, token)
    said: bytes | None = next(machine)
    lifetime_ms = 0
    while said is not None:
        response = yield SaslAuthenticateRequest(auth_bytes=said), SaslAuthenticateResponse, version
        if response.error_code:
            why = response.error_message or ErrorCode.of(response.error_code).text
            raise AuthenticationFailed(f"the broker rejects {_who(options)}: {why}")
        said, lifetime_ms = advance(machine, response.auth_bytes), response.session_lifetime_ms
    return lifetime_ms


def _machine(options: SecurityOptions, token: Token | None) -> Mechanism:
    mechanism, name, password = options.sasl_mechanism, options.sasl_plain_username, options.sasl_plain_password
    if token is not None:
        return oauthbearer(token)
    assert mechanism is not None and name is not None and password is not None  # the options were checked
    return plain(name, password) if mechanism == "PLAIN" else scram(mechanism, name, password)


def _check_handshake(options: SecurityOptions, response: SaslHandshakeResponse) -> None:
    code = ErrorCode.of(response.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        text = f"the broker does not offer {options.sasl_mechanism}: set sasl_mechanism to what it offers ({offered})"
        raise AuthenticationFailed(text, code)
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(f"this listener asks for no SASL: {_without_sasl(options)}", code)
    if code is not ErrorCode.NONE:
        raise AuthenticationFailed(f"the broker rejects the SASL handshake: {code.text}", code)


def _without_sasl(options: SecurityOptions) -> str:
    other = "SSL" if options.uses_tls else "PLAINTEXT"
    return f"set security_protocol to {other}, or connect to the port of a SASL listener"


def _who(options: SecurityOptions) -> str:
    if options.sasl_plain_username is None:
        return "the OAuth token"
    return f"the user {options.sasl_plain_username!r} or the password ({options.sasl_mechanism})"


# -- Tokens


async def ask_for_token(options: SecurityOptions) -> Token | None:
    """Return a token for OAUTHBEARER, None for other mechanisms. A provider that is no coroutine runs in a thread."""
    provider = options.sasl_oauth_token_provider
    if provider is None:
        return None
    ask = _method(provider, "token") or provider
    extensions = _method(provider, "extensions")
    value = await _answer(ask)
    return _token(value, None if extensions is None else await _answer(extensions))


def ask_for_token_now(options: SecurityOptions) -> Token | None:
    """Return what `ask_for_token` does, in a thread without an event loop."""
    return None if options.sasl_oauth_token_provider is None else asyncio.run(ask_for_token(options))


def _method(provider: Any, name: str) -> Callable[[], Any] | None:
    found = getattr(provider, name, None)
    return found if callable(found) else None


async def _answer(function: Any) -> Any:
    try:
        if inspect.iscoroutinefunction(function):
            return await of_the_user(function())
        found = await asyncio.to_thread(function)
        return await of_the_user(found) if inspect.isawaitable(found) else found
    except Exception as error:  # of the user's code: where it asks, nobody may answer for a while
        raise ConnectionLost(f"sasl_oauth_token_provider gave no token: {error!r}") from error


def _token(value: Any, extensions: Any) -> Token:
    if not isinstance(value, str):
        kind = type(cast("object", value)).__name__
        raise AuthenticationFailed(f"sasl_oauth_token_provider must return a text, not {kind}")
    return Token(value, cast("Mapping[str, str]", extensions or {}))
