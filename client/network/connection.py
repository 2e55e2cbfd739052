"""One TCP connection to one broker: requests go out, answers come back in order, each to whoever asked.

The thinking is in `exchange.py`; this is the asyncio shell around it. `Connection.open` connects and agrees on versions
(ApiVersions, KIP-511); after that `request` waits for an answer and `send` hands out a future, so that many requests
can be under way. An answer that is late or garbled closes the connection: what comes behind it can be trusted no
more. All who wait then get `ConnectionLost` (or `RequestTimedOut` for the one that was late), and the connection
stays closed; `cluster.py` opens another.

Bounds: `request` lets MAX_IN_FLIGHT requests wait for answers and holds back while the socket's write buffer is over
its high mark. `send` holds nobody back: its callers count what they have under way.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, cast

from ... import __version__
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.schema import Message
from ..errors import BadResponse, ConnectionLost, RequestTimedOut
from .exchange import Exchange, FrameBuffer, api_name, opening_version

R = TypeVar("R", bound=Message)

# More than one task of ours ever has under way; a broker stops reading far later (its own bounds are in the thousands).
MAX_IN_FLIGHT = 100


class Connection(asyncio.BufferedProtocol):
    """An open connection. Make one with `open`, end it with `close`."""

    def __init__(self, address: str, client_id: str, request_timeout_ms: float) -> None:
        self.address = address
        self.request_timeout_ms = request_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange[asyncio.Future[Any]] = Exchange(client_id)
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._lost: KafkaError | None = None
        self._gone = asyncio.Event()
        # Cleared while the socket takes no more, or MAX_IN_FLIGHT requests wait.
        self._room = asyncio.Event()
        self._room.set()
        self._writable = True

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
    ) -> Connection:
        """Connect and agree on versions. Raises ConnectionLost, RequestTimedOut, UnsupportedVersion."""
        connection = cls(f"{host}:{port}", client_id, request_timeout_ms)
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await connection._loop.create_connection(lambda: connection, host, port)
        except TimeoutError as error:
            raise ConnectionLost(f"{host}:{port} takes no connection within {connect_timeout_ms:g} ms") from error
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        try:
            await connection._agree_on_versions()
        except BaseException:
            connection.abort(ConnectionLost(f"{host}:{port}: versions were not agreed upon"))
            raise
        return connection

    async def _agree_on_versions(self) -> None:
        question = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)
        version = opening_version()
        answer = await self._ask(question, ApiVersionsResponse, version, None)
        if ErrorCode.of(answer.error_code) is ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._ask(question, ApiVersionsResponse, opening_version(answer), None)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code), f"{self.address} answers ApiVersions with an error")
        self._exchange.learn_versions(answer)

    # -- asking ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """API key to the (lowest, highest) version that the broker speaks."""
        return self._exchange.versions

    def version_for(self, request: type[Message], at_most: int | None = None) -> int:
        """The highest version of `request` that both sides have. Raises UnsupportedVersion."""
        return self._exchange.version_for(request, at_most)

    async def request(
        self, message: Message, response: type[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> R:
        """Send `message` and wait for its answer. Raises ConnectionLost, RequestTimedOut, UnsupportedVersion."""
        while not self._room.is_set() and self._lost is None:
            await self._room.wait()
        return await self.send(message, response, version=version, timeout_ms=timeout_ms)

    def send(
        self, message: Message, response: type[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> asyncio.Future[R]:
        """Send `message` now, behind what was sent before.

        The future is its answer. Raises ConnectionLost, UnsupportedVersion.
        """
        if version is None:
            version = self.version_for(type(message))
        return self._ask(message, response, version, timeout_ms)

    def send_unanswered(self, message: Message, *, version: int | None = None) -> None:
        """Send a message that has no answer (Produce with acks=0). Raises ConnectionLost, UnsupportedVersion."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(f"{self.address}: not connected")
        if version is None:
            version = self.version_for(type(message))
        self._transport.writelines(self._exchange.ask(message, version, None, self._loop.create_future()))

    def _ask(self, message: Message, response: type[R], version: int, timeout_ms: float | None) -> asyncio.Future[R]:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(f"{self.address}: not connected")
        answer: asyncio.Future[R] = self._loop.create_future()
        pieces = self._exchange.ask(message, version, response, answer)
        limit_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(limit_ms / 1000, self._late, answer, api_name(type(message)), limit_ms)
        answer.add_done_callback(lambda _: timer.cancel())
        self._transport.writelines(pieces)
        self._mind_the_room()
        return answer

    def _late(self, answer: asyncio.Future[Any], api: str, limit_ms: float) -> None:
        error = RequestTimedOut(f"{self.address} did not answer {api} within {limit_ms:g} ms")
        if not answer.done():
            answer.set_exception(error)
        self.abort(ConnectionLost(f"connection to {self.address} given up: {error.message}"))

    def _mind_the_room(self) -> None:
        if self._writable and len(self._exchange.waiting) < MAX_IN_FLIGHT:
            self._room.set()
        else:
            self._room.clear()

    # -- the transport's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for body in self._buffer.received(nbytes):
                answer, message = self._exchange.answer(body)
                if not answer.done():
                    answer.set_result(message)
        except BadResponse as error:
            self.abort(BadResponse(f"{self.address}: {error.message}"))
        self._mind_the_room()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        self._fail(ConnectionLost(f"{self.address} closed the connection{why}"))
        self._gone.set()

    def pause_writing(self) -> None:
        self._writable = False
        self._mind_the_room()

    def resume_writing(self) -> None:
        self._writable = True
        self._mind_the_room()

    # -- the end -----------------------------------------------------------------------------------

    def abort(self, why: KafkaError) -> None:
        """Close now; whoever waits for an answer gets `why`."""
        self._fail(why)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close.

        Whoever still waits gets ConnectionLost. Returns when the socket is closed, and may be called again.
        """
        self._fail(ConnectionLost(f"the connection to {self.address} was closed by this client"))
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    def _fail(self, why: KafkaError) -> None:
        if self._lost is None:
            self._lost = why
        waiting, self._exchange.waiting = self._exchange.waiting, {}
        for request in waiting.values():
            if not request.who.done():
                request.who.set_exception(self._lost)
        self._room.set()  # those who wait for room wake up and find the connection lost
