"""The HTTP endpoint of a broker: one GET or HEAD a connection, answered in pieces between the turns of Kafka's clients.

A client has `REQUEST_S` to send its request, of at most `MAX_REQUEST_BYTES`, and `RESPONSE_S` to read the response;
then its connection is closed. A request with a body is refused. At most `MAX_CONNECTIONS` are open: one more is closed
at once, so that memory is bounded. A page is made piece by piece, and no further than the client has read.

On a loopback address, requests must name a loopback host: otherwise a web page in a browser on this machine could read
the metrics by a name of its own that leads here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from ...web.connection import Limits
from ...web.exchange import Request, Response
from ...web.listener import Listener, ListenerConfig
from ...web.origin import host_of, is_loopback
from ..turns import keeper

MAX_CONNECTIONS = 16
MAX_REQUEST_BYTES = 8 * 1024
REQUEST_S = 5.0
RESPONSE_S = 30.0
# A piece of a page is written once it has so many characters.
WRITE_CHARS = 32 * 1024
_METHODS = ("GET", "HEAD")
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
        self.pages = pages
        self._request_s = request_s
        limits = Limits(MAX_REQUEST_BYTES, 0, 0, idle_s=request_s, response_s=response_s, keeps_open=False)
        config = ListenerConfig(host, port, max_connections=MAX_CONNECTIONS, limits=limits)
        self._listener = Listener(config, self._answer)

    @property
    def address(self) -> str:
        """HOST:PORT, with the port that was really taken."""
        return self._listener.address

    @property
    def open_connections(self) -> int:
        return self._listener.open_connections

    async def start(self) -> None:
        """Listen. Raises OSError where the address is not free."""
        await self._listener.start()
        _log.info("HTTP on %s: /live, /ready, /metrics", self.address)

    async def stop(self) -> None:
        """Close the listener and every connection. Idempotent."""
        await self._listener.stop()

    async def _answer(self, request: Request) -> Response:
        async with asyncio.timeout(self._request_s):
            page = await self._page(request)
        headers = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")]
        if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("allow", "GET, HEAD"))
        return Response(page.status, _gathered(page.pieces), page.content_type, headers)

    async def _page(self, request: Request) -> Page:
        if request.method not in _METHODS:
            return Page.of_text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        named = request.headers.get("host")
        # Without that header no browser has sent the request.
        if is_loopback(self._host) and named is not None and not is_loopback(host_of(named)):
            return Page.of_text(
                HTTPStatus.FORBIDDEN, "ask for localhost: this endpoint listens on a loopback address\n"
            )
        try:
            return await self.pages(request.path)
        except Exception:  # noqa: BLE001 - becomes a response, and is logged
            _log.exception("%s could not be answered", request.path)
            return Page.of_text(HTTPStatus.INTERNAL_SERVER_ERROR, "see the broker's log\n")


async def _gathered(pieces: Iterator[str]) -> AsyncIterator[bytes]:
    """Yield the text of the pieces, WRITE_CHARS or more at a time, and let others have their turns between them."""
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        if piece:
            waiting.append(piece)
            size += len(piece)
        if size >= WRITE_CHARS:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting.clear()
            size = 0
        await keeper().pause()
    if waiting:
        yield "".join(waiting).encode("utf-8", "replace")
