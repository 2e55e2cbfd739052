"""HTTP requests to a schema registry, by the standard library and in the calling thread.

They are few, because what they bring is kept. Registries that do not answer are tried again, one after another, until
the time is over.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JSON has no types.

from __future__ import annotations

import http.client
import json
import ssl
import time
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import InvalidOption, SchemaRegistryRefused, SchemaRegistryUnavailable

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# A schema has at most 1 MiB, which escapes make larger.
MAX_ANSWER_BYTES = 8 << 20
_READ_BYTES = 64 << 10
_PAUSE_S = 0.1
# What another registry, or the same one later, may do better.
_TRY_AGAIN = {429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class HttpDoor:
    """The addresses of registries over one topic, and how to get in."""

    # Several are separated by commas.
    url: str
    # "NAME:PASSWORD", for basic authentication.
    login: str | None = None
    # A file of certificates (PEM) to trust instead of the system's.
    ca_file: str | None = None
    # A client certificate, with its key in the same file or in `key_file`.
    cert_file: str | None = None
    key_file: str | None = None
    timeout_ms: float = 10_000

    def __post_init__(self) -> None:
        if not _are_addresses(self.url):
            # The text would show the password of one.
            raise InvalidOption("a registry is http://HOST:PORT or https://HOST:PORT")
        if self.login is not None and ":" not in self.login:
            raise InvalidOption("the login of a registry is NAME:PASSWORD")
        if not 0 < self.timeout_ms < 1 << 31:
            raise InvalidOption(f"timeout_ms is milliseconds above 0, not {self.timeout_ms}")
        self._context()

    def __repr__(self) -> str:
        return f"HttpDoor({', '.join(f'{each.scheme}://{each.hostname}' for each in self._addresses())})"

    def _addresses(self) -> list[SplitResult]:
        return [urlsplit(each.strip()) for each in self.url.split(",")]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of an answer. Raises SchemaRegistryRefused, SchemaRegistryUnavailable."""
        until = time.monotonic() + self.timeout_ms / 1000
        pause_s = _PAUSE_S
        while True:
            failed: list[str] = []
            addresses = self._addresses()
            for number, address in enumerate(addresses):
                # A part for each that is left: one that takes what it is sent and says nothing must not use it all up.
                until_this = time.monotonic() + (until - time.monotonic()) / (len(addresses) - number)
                try:
                    return self._ask(address, method, path, body, until_this)
                except (OSError, http.client.HTTPException) as error:
                    failed.append(f"{address.hostname}:{address.port or ''} {error!r}")
                except _Unable as unable:
                    failed.append(str(unable))
            if time.monotonic() + pause_s >= until:
                raise SchemaRegistryUnavailable(f"no schema registry answers: {'; '.join(failed)}")
            time.sleep(pause_s)
            pause_s *= 2

    def _ask(self, address: SplitResult, method: str, path: str, body: object, until_s: float) -> Any:
        connection = self._connection(address, max(until_s - time.monotonic(), 0.01))
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, address.path.rstrip("/") + path, data, self._headers(address))
            answer = connection.getresponse()
            content = _content(answer, until_s)
        finally:
            connection.close()
        return _result(answer.status, content, f"{method} {path}")

    def _connection(self, address: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        host = address.hostname or ""
        if address.scheme == "http":
            return http.client.HTTPConnection(host, address.port or 80, timeout=timeout_s)
        return http.client.HTTPSConnection(host, address.port or 443, timeout=timeout_s, context=self._context())

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                # Without a password OpenSSL would ask the terminal for one.
                context.load_cert_chain(self.cert_file, self.key_file, "")
        except (OSError, ssl.SSLError) as error:
            raise InvalidOption(f"the certificates of the registry cannot be read: {error}") from error
        return context

    def _headers(self, address: SplitResult) -> dict[str, str]:
        headers = {"content-type": _CONTENT_TYPE, "accept": f"{_CONTENT_TYPE}, application/json"}
        login = self.login
        if login is None and address.username is not None:
            # In a URL, what else would end the name or the password is escaped.
            login = f"{unquote(address.username)}:{unquote(address.password or '')}"
        return headers if login is None else headers | {"authorization": f"Basic {b64encode(login.encode()).decode()}"}


def _are_addresses(url: str) -> bool:
    try:
        addresses = [urlsplit(each.strip()) for each in url.split(",")]
        # A port that is none is an error only where it is read.
        return all(each.scheme in ("http", "https") and each.hostname and each.port != 0 for each in addresses)
    except ValueError:
        return False


class _Unable(Exception):
    """A registry that answers, and cannot do what it should now."""


def _content(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """Return the body of an answer, and one byte more than is taken at most. Raises OSError, HTTPException.

    The socket's time-out is of each read, and an answer that comes byte by byte would take hours.
    """
    content = bytearray()
    while len(content) <= MAX_ANSWER_BYTES and (piece := answer.read1(_READ_BYTES)):
        content += piece
        if time.monotonic() > until_s:
            raise TimeoutError("the answer takes too long")
    if answer.length and len(content) <= MAX_ANSWER_BYTES:
        raise http.client.IncompleteRead(bytes(content[:100]), answer.length)
    return bytes(content)


def _result(status: int, content: bytes, request: str) -> Any:
    if len(content) > MAX_ANSWER_BYTES:
        raise SchemaRegistryRefused(status, 0, f"{request}: the answer has more than {MAX_ANSWER_BYTES} bytes")
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if status in _TRY_AGAIN:
        raise _Unable(f"{request}: {status} {_message(value, content)}")
    if status != 200 or value is None:
        code = value.get("error_code") if isinstance(value, dict) else None
        text = f"{request}: {status} {_message(value, content)}"
        raise SchemaRegistryRefused(status, code if isinstance(code, int) else status, text)
    return value


def _message(value: Any, content: bytes) -> str:
    return str(value.get("message"))[:2_000] if isinstance(value, dict) else content[:200].decode(errors="replace")
