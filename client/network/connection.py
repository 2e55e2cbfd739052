"""One TCP connection to one broker: requests go out, responses come back in order.

This is the asyncio shell around `exchange.py`. `Connection.open` connects and agrees on versions (ApiVersions,
KIP-511). After that `request` waits for a response, and `send` returns a future, so that many requests can be in
flight. A late or garbled response closes the connection, because nothing behind it can be trusted. All requests in
flight then raise `ConnectionLost` (the late one `RequestTimedOut`). The connection stays closed; the pool opens
another.

Bounds: `request` keeps at most MAX_IN_FLIGHT requests in flight, and waits while the socket's write buffer is over its
high mark. `send` does not wait: its callers count their own requests.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from typing import Any, TypeVar, cast

from ... import __version__
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.schema import Message
from ..errors import BadResponse, ConnectionLost, RequestTimedOut
from .exchange import Exchange, api_name, api_versions_version
from .frame_buffer import FrameBuffer

R = TypeVar("R", bound=Message)

# More than any task of this client has in flight; brokers stop reading far later (their bounds are in the thousands).
MAX_IN_FLIGHT = 100


# What asyncio says of several failed attempts, one for each address of a host name.
_ERRNO = re.compile(r"\[Errno (\d+)\]")


def reason_of(error: OSError) -> str:
    """Return why a connection could not be made, as the system says it: asyncio's own texts name its calls."""
    if isinstance(error, socket.gaierror):
        return (error.strerror or "the host name is not known").lower()
    number = error.errno
    if number is None and (found := _ERRNO.search(str(error))):
        number = int(found[1])
    return os.strerror(number).lower() if number else str(error)


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
        # Cleared while the socket takes no more, or MAX_IN_FLIGHT requests are in flight.
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
            raise ConnectionLost(f"cannot connect to {host}:{port}: {reason_of(error)}") from error
        try:
            await connection._agree_on_versions()
        except BaseException:
            connection.abort(ConnectionLost(f"{host}:{port}: versions were not agreed upon"))
            raise
        return connection

    async def _agree_on_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)
        response = await self._send(request, ApiVersionsResponse, api_versions_version(), None)
        if ErrorCode.of(response.error_code) is ErrorCode.UNSUPPORTED_VERSION:
            response = await self._send(request, ApiVersionsResponse, api_versions_version(response), None)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.address} answers ApiVersions with an error")
        self._exchange.learn_versions(response)

    # -- Requests

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """API key -> the (lowest, highest) version that the broker supports."""
        return self._exchange.versions

    @property
    def features(self) -> dict[str, int]:
        """The cluster's finalized features with their levels, as the broker told them at the start."""
        return self._exchange.features

    def version_for(self, request: type[Message], at_most: int | None = None) -> int:
        """Return the highest version of `request` that both sides support. Raises UnsupportedVersion."""
        return self._exchange.version_for(request, at_most)

    async def request(
        self, message: Message, response: type[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> R:
        """Send `message` and return its response. Raises ConnectionLost, RequestTimedOut, UnsupportedVersion."""
        while not self._room.is_set() and self._lost is None:
            await self._room.wait()
        return await self.send(message, response, version=version, timeout_ms=timeout_ms)

    def send(
        self, message: Message, response: type[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> asyncio.Future[R]:
        """Send `message` at once. Return the future of its response. Raises ConnectionLost, UnsupportedVersion."""
        if version is None:
            version = self.version_for(type(message))
        return self._send(message, response, version, timeout_ms)

    def send_without_response(self, message: Message, *, version: int | None = None) -> None:
        """Send a message that gets no response (Produce with acks=0). Raises ConnectionLost, UnsupportedVersion."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(f"{self.address}: not connected")
        if version is None:
            version = self.version_for(type(message))
        self._transport.writelines(self._exchange.send(message, version, None, self._loop.create_future()))

    async def drained(self) -> None:
        """Wait until the socket has taken nearly all that was sent (its low mark). Raises ConnectionLost."""
        while not self._writable and self._lost is None:
            self._room.clear()
            await self._room.wait()
        if self._lost is not None:
            raise self._lost

    def _send(self, message: Message, response: type[R], version: int, timeout_ms: float | None) -> asyncio.Future[R]:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(f"{self.address}: not connected")
        waiter: asyncio.Future[R] = self._loop.create_future()
        pieces = self._exchange.send(message, version, response, waiter)
        limit_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(limit_ms / 1000, self._time_out, waiter, api_name(type(message)), limit_ms)
        waiter.add_done_callback(lambda _: timer.cancel())
        self._transport.writelines(pieces)
        self._update_room()
        return waiter

    def _time_out(self, waiter: asyncio.Future[Any], api: str, limit_ms: float) -> None:
        error = RequestTimedOut(f"{self.address} did not answer {api} within {limit_ms:g} ms")
        if not waiter.done():
            waiter.set_exception(error)
        self.abort(ConnectionLost(f"connection to {self.address} given up: {error.message}"))

    def _update_room(self) -> None:
        if self._writable and len(self._exchange.in_flight) < MAX_IN_FLIGHT:
            self._room.set()
        else:
            self._room.clear()

    # -- Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for body in self._buffer.received(nbytes):
                waiter, response = self._exchange.receive(body)
                if not waiter.done():
                    waiter.set_result(response)
        except BadResponse as error:
            self.abort(BadResponse(f"{self.address}: {error.message}"))
        self._update_room()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        self._fail(ConnectionLost(f"{self.address} closed the connection{why}"))
        self._gone.set()

    def pause_writing(self) -> None:
        self._writable = False
        self._update_room()

    def resume_writing(self) -> None:
        self._writable = True
        self._update_room()

    # -- Close

    def abort(self, why: KafkaError) -> None:
        """Close at once; requests in flight raise `why`."""
        self._fail(why)
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close, and wait until the socket is closed; may be called again. Requests in flight raise ConnectionLost.

        What the peer has not taken yet is dropped: a peer that does not read could hold the close up for ever.
        """
        self._fail(ConnectionLost(f"the connection to {self.address} was closed by this client"))
        if self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._transport.abort()
            else:
                self._transport.close()
            await self._gone.wait()

    def _fail(self, why: KafkaError) -> None:
        if self._lost is None:
            self._lost = why
        in_flight, self._exchange.in_flight = self._exchange.in_flight, {}
        for request in in_flight.values():
            if not request.waiter.done():
                request.waiter.set_exception(self._lost)
        self._room.set()  # callers that wait for room wake up and find the connection lost
