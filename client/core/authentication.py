"""The authentication of one connection, without the connection: requests come out, responses go in (KIP-43, KIP-152).

    conversation = authentication(options, version_for, token)
    request, response_type, version = next(conversation)
    ... = conversation.send(response)     # until it ends; its value is how long the session lives, in ms (0: for ever)

The asyncio connection and the blocking one drive the same conversation, also to authenticate again before the session
ends (KIP-368). It raises AuthenticationFailed, whose text says what to do.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.schema import Message
from ..errors import AuthenticationFailed, ConnectionLost, UnsupportedVersion
from .sasl import Mechanism, Token, advance, oauthbearer, plain, scram
from .security import SecurityOptions
from .task_ends import of_the_user

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
