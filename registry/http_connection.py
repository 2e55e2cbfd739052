"""HTTP/1.1: one connection of a client, by h11, and what a request becomes for the API.

Bounds: a request's head and body, the time that a request may take to arrive and an answer to leave, and the bytes of
all bodies that are being received. Requests of a connection are answered one after another.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote

import h11

from .api import Text
from .errors import RegistryError

_log = logging.getLogger(__name__)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_PLAIN_TYPE = "application/json"
_JSON_TYPES = {CONTENT_TYPE, "application/vnd.schemaregistry+json", _PLAIN_TYPE, "application/octet-stream"}
MAX_HEAD_BYTES = 16 << 10
# A schema of the largest size whose every character is escaped, with its references.
MAX_BODY_BYTES = 3 << 20
# Of all connections together: a body is kept until it is complete.
MAX_BODIES_BYTES = 64 << 20
IDLE_TIMEOUT_S = 60.0
_READ_BYTES = 64 << 10


class Answerer(Protocol):
    """What answers requests: `Api`."""

    async def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: Mapping[str, Any]) -> Any:
        """Return the answer to a request. Raises RegistryError."""
        ...


@dataclass(slots=True)
class BodyMemory:
    """The bytes of the bodies that all connections hold."""

    used_bytes: int = 0

    def take(self, count: int) -> None:
        """Count bytes. Raises RegistryError if there are too many."""
        if self.used_bytes + count > MAX_BODIES_BYTES:
            raise RegistryError(503, "Too many large requests at once: try again")
        self.used_bytes += count


class HttpConnection:
    """One connection, from its first request to its last answer."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        api: Answerer,
        memory: BodyMemory,
        authorization: bytes | None = None,
    ) -> None:
        self._reader, self._writer, self._api, self._memory = reader, writer, api, memory
        self._authorization = authorization
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._held_bytes = 0

    async def serve(self) -> None:
        """Answer requests until the client closes, is silent for too long, or sends what is no HTTP."""
        try:
            while await self._serve_one():
                self._http.start_next_cycle()
        except (h11.RemoteProtocolError, TimeoutError, OSError) as error:
            await self._refuse(error)
        finally:
            self._release()
            self._writer.close()

    async def _refuse(self, error: Exception) -> None:
        """Tell a client why its connection ends, where that is still possible."""
        if isinstance(error, h11.RemoteProtocolError) and self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            try:
                await self._send(error.error_status_hint, _error_json(400, f"HTTP 400 Bad Request: {error}"), False)
            except (OSError, TimeoutError, h11.LocalProtocolError):
                _log.debug("a client that sent no HTTP was gone before the answer")

    async def _serve_one(self) -> bool:
        """Answer one request. Tell whether another one may follow."""
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            request = await self._next_event()
            if not isinstance(request, h11.Request):
                return False
            try:
                body = await self._body()
            except RegistryError as error:
                # The rest of the body is not read.
                await self._send(error.status, _error_json(error.code, error.message), False)
                return False
        status, answer = await self._answer(request, body)
        self._release()
        plain = any(name == b"accept" and value == _PLAIN_TYPE.encode() for name, value in request.headers)
        await self._send(status, answer, request.method == b"HEAD", _PLAIN_TYPE if plain else CONTENT_TYPE)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event

    async def _body(self) -> bytes:
        parts: list[bytes] = []
        while isinstance(event := await self._next_event(), h11.Data):
            part = bytes(event.data)
            self._memory.take(len(part))
            self._held_bytes += len(part)
            if self._held_bytes > MAX_BODY_BYTES:
                raise RegistryError(413, f"The request is larger than {MAX_BODY_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)

    def _release(self) -> None:
        self._memory.used_bytes -= self._held_bytes
        self._held_bytes = 0

    async def _answer(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        try:
            self._check_login(request)
            _check_origin(request)
            target = request.target.decode("ascii")
            path, _, query = target.partition("?")
            method = request.method.decode("ascii")
            parts = _parts(path)
            read = _json_body(request, body) if method in ("POST", "PUT") else {}
            pairs = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=50))
            answer = await self._api.answer("GET" if method == "HEAD" else method, parts, pairs, read)
            return 200, answer.encode() if isinstance(answer, Text) else _json_bytes(answer)
        except RegistryError as error:
            return error.status, _error_json(error.code, error.message)
        except ValueError as error:
            return 400, _error_json(400, f"HTTP 400 Bad Request: {error}")
        except Exception:  # noqa: BLE001 - a fault in one request is logged, and the others go on
            _log.exception("a request failed")
            return 500, _error_json(50001, "Error in the registry: its log says more")

    def _check_login(self, request: h11.Request) -> None:
        if self._authorization is None:
            return
        given = next((value for name, value in request.headers if name == b"authorization"), b"")
        if not _is_equal(given, self._authorization):
            raise RegistryError(401, "Unauthorized")

    async def _send(self, status: int, body: bytes, without_body: bool, kind: str = CONTENT_TYPE) -> None:
        headers = [("content-type", kind), ("content-length", str(len(body)))]
        if status == 401:
            headers.append(("www-authenticate", 'Basic realm="schema registry"'))
        if self._http.their_state not in (h11.DONE, h11.SEND_BODY) or status == 413:
            headers.append(("connection", "close"))
        http = self._http
        sent = http.send(h11.Response(status_code=status, headers=headers)) or b""
        sent += b"" if without_body else http.send(h11.Data(data=body)) or b""
        sent += http.send(h11.EndOfMessage()) or b""
        self._writer.write(sent)
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            await self._writer.drain()


def _is_equal(given: bytes, wanted: bytes) -> bool:
    from hmac import compare_digest

    return compare_digest(given, wanted)


def _check_origin(request: h11.Request) -> None:
    """Raise RegistryError for a change that another web page sends, with the browser of somebody on this machine.

    Browsers ask nobody before they send a POST without a content type.
    """
    if request.method in (b"GET", b"HEAD"):
        return
    given = {name: value for name, value in request.headers if name in (b"sec-fetch-site", b"origin", b"host")}
    origin, site = given.get(b"origin"), given.get(b"sec-fetch-site", b"none")
    own = origin is None or origin.partition(b"://")[2] == given.get(b"host")
    if site not in (b"same-origin", b"none") or not own:
        raise RegistryError(403, "Forbidden: changes do not come from other web pages")


def _parts(path: str) -> list[str]:
    """Return the parts of a path. Raises RegistryError, ValueError for bytes that are no UTF-8."""
    parts = [unquote(part, errors="strict") for part in path.strip("/").split("/")]
    if parts == [""]:
        return []
    if "" in parts:
        # Without it the path would be another one, which may mean something.
        raise RegistryError(404, "HTTP 404 Not Found")
    return parts


def _json_body(request: h11.Request, body: bytes) -> dict[str, Any]:
    kind = next((value for name, value in request.headers if name == b"content-type"), _PLAIN_TYPE.encode())
    if kind.decode("latin-1").partition(";")[0].strip().lower() not in _JSON_TYPES:
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    try:
        value = json.loads(body or b"{}")
    except RecursionError:
        raise RegistryError(400, "HTTP 400 Bad Request: the body is nested too deep") from None
    if not isinstance(value, dict):
        raise RegistryError(400, "HTTP 400 Bad Request: the body is no JSON object")
    return cast("dict[str, Any]", value)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _error_json(code: int, message: str) -> bytes:
    return _json_bytes({"error_code": code, "message": message})
