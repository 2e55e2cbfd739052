"""The handshakes of a new connection: TLS, and SASL behind it.

The context of TLS is made again when the files behind it change: a certificate that was replaced on disk is used by the
next connection. While new files cannot be read, the last good ones are used, and a warning says so.

SASL puts the bytes of a mechanism of `protocol/sasl.py` into requests (KIP-43, KIP-152), as a conversation:

    conversation = authentication(options, version_for, token)
    request, response_type, version = next(conversation)
    ... = conversation.send(response)     # until it ends; its value is how long the session lives, in ms (0: for ever)

The asyncio connection and the blocking one drive the same conversation, also to authenticate again before the session
ends (KIP-368). OAUTHBEARER (RFC 7628) needs a token. AuthenticationFailed says what to do where the two do not trust
each other, where the broker rejects the client, or says what no broker says.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.sasl import LoginFailed, Mechanism, advance, plain, scram
from ...protocol.schema import Message
from ..errors import AuthenticationFailed, ConnectionLost, InvalidOption, KafkaError, UnsupportedVersion
from .exchange import Conversation
from .lifetime import of_the_user
from .security import SecurityOptions

_log = logging.getLogger(__name__)

# OpenSSL's numbers of what is wrong with a certificate: the host name, the address, and the time.
_WRONG_HOST = (62, 64)
_NOT_YET_VALID, _EXPIRED = 9, 10
# What ssl.VERIFY_X509_STRICT finds: X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA to X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3.
_NOT_STRICT = range(80, 94)
# How a peer ends a connection before TLS is agreed on. Which one comes depends on the moment, and on OpenSSL.
_CLOSED = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
# How OpenSSL names an answer that is no TLS at all.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
# Alerts by which a broker rejects a client without a certificate, or with one that it does not trust. The second one
# may also mean that the two have no cipher in common.
_NEEDS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_REJECTS_CERTIFICATE = ("BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")
# Tokens of a mechanism travel in SaslAuthenticate from this version of SaslHandshake on.
_HANDSHAKE_VERSION = 1
_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class TlsContexts:
    """The TLS context of one client. Raises InvalidOption if a file cannot be read or is not what it should be."""

    def __init__(self, options: SecurityOptions) -> None:
        self._options = options
        self._stamps = self._stamp_files()
        self._context = options.ssl_context or self._load()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection, made again if a file has changed."""
        stamps = self._stamp_files()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = self._load()
            except InvalidOption as error:
                _log.warning("%s; new connections use what was read before", error.message)
        return self._context

    def _stamp_files(self) -> list[tuple[int, int, int] | None]:
        options = self._options
        names = (options.ssl_cafile, options.ssl_certfile, options.ssl_keyfile)
        return [_stamp(name) for name in names if name is not None]

    def _load(self) -> ssl.SSLContext:
        options = self._options
        what = f"ssl_cafile={options.ssl_cafile}"
        try:
            context = ssl.create_default_context(cafile=options.ssl_cafile, cadata=options.ssl_cadata)
            context.check_hostname = options.ssl_check_hostname
            if options.ssl_certfile is not None:
                what = f"ssl_certfile={options.ssl_certfile}, ssl_keyfile={options.ssl_keyfile}"
                # Without a password OpenSSL would ask the terminal for one.
                password = options.ssl_password or ""
                context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, lambda: password)
        except ssl.SSLError as error:
            raise InvalidOption(f"{what}: {_words(error)} (PEM is expected, and the password of its key)") from error
        except OSError as error:
            raise InvalidOption(f"{what}: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:
            raise InvalidOption(f"{what}: {error}") from error
        return context


def _stamp(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None  # loading it says what is wrong
    return found.st_mtime_ns, found.st_size, found.st_ino


def handshake_error(address: str, error: OSError) -> KafkaError | None:
    """Return what the error of a handshake means for a user; None if it is not TLS."""
    if isinstance(error, _CLOSED):
        return ConnectionLost(
            f"{address} closed the connection during the TLS handshake: if the listener speaks no TLS, "
            "set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    return tls_error(address, error)


def tls_error(address: str, error: OSError) -> KafkaError | None:
    """Return what the error of the first read behind a handshake means for a user; None if it is not TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{address}: {_distrust(error)}")
    if isinstance(error, ssl.SSLError):
        return _alert(address, error)
    return None


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_HOST:
        return (
            f"the broker's certificate is for another host ({said}): connect by a name that is in it, "
            "or set ssl_check_hostname=False"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return f"the broker's certificate is not valid now ({said}): renew it, or set this machine's clock"
    if error.verify_code in _NOT_STRICT:
        return (
            f"the broker's certificate, or its authority's, breaks RFC 5280 ({said}), which Python 3.13 checks: "
            "make it again by that standard, or set ssl_context to one without ssl.VERIFY_X509_STRICT"
        )
    return (
        f"the broker's certificate is not trusted ({said}): set ssl_cafile to the certificate of the authority "
        "that signed it"
    )


def _alert(address: str, error: ssl.SSLError) -> KafkaError:
    reason = error.reason or ""
    if any(each in reason for each in _NO_TLS):
        return ConnectionLost(
            f"{address} does not speak TLS: set security_protocol to PLAINTEXT or SASL_PLAINTEXT, "
            "or connect to the port of a TLS listener"
        )
    if any(each in reason for each in _NEEDS_CERTIFICATE):
        return AuthenticationFailed(
            f"{address} ends the TLS handshake ({_words(error)}): it may ask for a client certificate, "
            "set ssl_certfile and ssl_keyfile"
        )
    if any(each in reason for each in _REJECTS_CERTIFICATE):
        return AuthenticationFailed(
            f"{address} rejects this client's certificate ({_words(error)}): set ssl_certfile and ssl_keyfile to one "
            "that the broker trusts"
        )
    return ConnectionLost(f"{address}: TLS failed: {_words(error)}")


def _words(error: ssl.SSLError) -> str:
    return (error.reason or error.strerror or str(error)).replace("_", " ").lower()


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
    if token is not None:
        return (yield from oauthbearer(token))
    mechanism, name, password = options.sasl_mechanism, options.sasl_plain_username, options.sasl_plain_password
    assert mechanism is not None and name is not None and password is not None  # the options were checked
    try:
        yield from plain(name, password) if mechanism == "PLAIN" else scram(mechanism, name, password)
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
