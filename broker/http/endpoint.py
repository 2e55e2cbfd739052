"""The HTTP endpoint of a broker: one GET or HEAD a connection, answered in pieces between the turns of Kafka's clients.

h11 parses HTTP/1.1. A client has `REQUEST_S` to send its request, of at most `MAX_REQUEST_BYTES`, and `RESPONSE_S` to
read the response; then its connection is closed. Bodies of requests are not read. At most `MAX_CONNECTIONS` are open:
one more is closed at once, so that memory is bounded. A page is made piece by piece, and no further than the client
has read.

On a loopback address, requests must name a loopback host: otherwise a web page in a browser on this machine could read
the metrics by a name of its own that leads here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, NamedTuple

import h11

MAX_CONNECTIONS = 16
MAX_REQUEST_BYTES = 8 * 1024
REQUEST_S = 5.0
RESPONSE_S = 30.0
# A piece of a page is written once it has so many characters.
WRITE_CHARS = 32 * 1024
_READ_BYTES = 4096
_METHODS = (b"GET", b"HEAD")
TEXT = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


class Page(NamedTuple):
    """A response. Each piece of the text is made in a turn of the event loop; an empty one is a turn without text."""

    status: HTTPStatus
    content_type: str
    pieces: Iterator[str]

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str, content_type: str = TEXT) -> Page:
        return cls(status, content_type, iter((text,)))


# From a path to its page. It may wait, but not for clients.
Pages = Callable[[str], Awaitable[Page]]


class HttpEndpoint:
    """Listens from `start` to `stop`. `pages` returns the page of a path."""

    def __init__(
        self, host: str, port: int, pages: Pages, request_s: float = REQUEST_S, response_s: float = RESPONSE_S
    ) -> None:
        self._host = host
        self._port = port
        self._pages = pages
        self.request_s = request_s
        self.response_s = response_s
        self._server: asyncio.Server | None = None
        # Invariant: at most MAX_CONNECTIONS, one for each open connection.
        self._open: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> str:
        """HOST:PORT, with the port that was really taken."""
        assert self._server is not None, "the endpoint does not listen"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        """Listen. Raises OSError where the address is not free."""
        self._server = await asyncio.start_server(
            self._serve, self._host or None, self._port, limit=MAX_REQUEST_BYTES, backlog=MAX_CONNECTIONS
        )
        _log.info("HTTP on %s: /live, /ready, /metrics", self.address)

    async def stop(self) -> None:
        """Close the listener and every connection. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, TimeoutError, h11.LocalProtocolError) as error:
            _log.debug("an HTTP client went away: %s", error or "too slow")
        finally:
            self._open.discard(task)
            # What was drained is in the system's hands; the rest is for a client that does not read.
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)
        async with asyncio.timeout(self.request_s):
            try:
                request = await _request(connection, reader)
            except h11.RemoteProtocolError as error:
                request, page = None, Page.of_text(HTTPStatus(error.error_status_hint), f"{error}\n")
            else:
                if request is None:
                    return
                page = await self._page(request)
        async with asyncio.timeout(self.response_s):
            await _send(connection, writer, page, with_body=request is None or request.method != b"HEAD")

    async def _page(self, request: h11.Request) -> Page:
        if request.method not in _METHODS:
            return Page.of_text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        if _is_loopback(self._host) and not _names_loopback(request):
            return Page.of_text(
                HTTPStatus.FORBIDDEN, "ask for localhost: this endpoint listens on a loopback address\n"
            )
        path = request.target.decode("latin-1").partition("?")[0]
        try:
            return await self._pages(path)
        except Exception:  # noqa: BLE001 - becomes a response, and is logged
            _log.exception("%s could not be answered", path)
            return Page.of_text(HTTPStatus.INTERNAL_SERVER_ERROR, "see the broker's log\n")


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the first request; None where the client closes before. Raises RemoteProtocolError."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        connection.receive_data(await reader.read(_READ_BYTES))


async def _send(connection: h11.Connection, writer: asyncio.StreamWriter, page: Page, *, with_body: bool) -> None:
    """Write a page and its end, one piece a turn of the event loop."""
    headers = [("Content-Type", page.content_type), ("Connection", "close"), ("Cache-Control", "no-store")]
    headers += [("X-Content-Type-Options", "nosniff")]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    head = h11.Response(status_code=page.status, headers=headers, reason=page.status.phrase)
    writer.write(connection.send(head) or b"")
    if with_body:
        async for text in _gathered(page.pieces):
            writer.write(connection.send(h11.Data(data=text.encode("utf-8", "replace"))) or b"")
            await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _gathered(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Yield the text of the pieces, WRITE_CHARS or more at a time, and let others have their turns between them."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        if piece:
            waiting.append(piece)
            size += len(piece)
        if size >= WRITE_CHARS:
            yield "".join(waiting)
            waiting.clear()
            size = 0
        await asyncio.sleep(0)
    if waiting:
        yield "".join(waiting)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _names_loopback(request: h11.Request) -> bool:
    """Return whether the Host header of a request is a loopback address. Without one no browser has sent it."""
    hosts = [value for name, value in request.headers if name == b"host"]
    if not hosts:
        return True
    text = hosts[0].decode("latin-1")
    if text.startswith("["):
        return _is_loopback(text[1:].partition("]")[0])
    return _is_loopback(text.partition(":")[0])
