"""SASL: how a client uses the mechanisms of `protocol/sasl.py`, and OAUTHBEARER (RFC 7628), which needs a token.

    conversation = authentication(options, version_for, token)
    request, response_type, version = next(conversation)
    ... = conversation.send(response)     # until it ends; its value is how long the session lives, in ms (0: for ever)

A conversation puts the bytes of a mechanism into requests (KIP-43, KIP-152). The asyncio connection and the blocking
one drive the same conversation, also to authenticate again before the session ends (KIP-368). AuthenticationFailed says
what to do where the broker rejects the client, proves not to know the password, or says what no broker says.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.sasl import LoginFailed, Mechanism, advance, plain, scram
from ...protocol.schema import Message
from ..errors import AuthenticationFailed, ConnectionLost, UnsupportedVersion
from .exchange import Conversation
from .lifetime import of_the_user
from .security import SecurityOptions

_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


@dataclass(frozen=True, slots=True)
class Token:
    """An OAuth token, with the extensions that go with it (KIP-342)."""

    value: str
    extensions: Mapping[str, str]


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
    return _checked(plain(name, password) if mechanism == "PLAIN" else scram(mechanism, name, password))


def _checked(machine: Mechanism) -> Mechanism:
    try:
        yield from machine
    except LoginFailed as error:
        raise AuthenticationFailed(error.message) from None


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
