"""A blocking connection to one broker, without an event loop.

It receives every frame into one buffer that it keeps and grows. The `records` of a response are in that buffer and are
valid until the next `receive`. Requests may be sent ahead, because responses come in the order of sending.

Errors are the client's: ConnectionLost, RequestTimedOut, BadResponse, UnsupportedVersion. After any but the last of
them the connection is closed.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TypeVar

from ... import __version__
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.schema import Message
from ..errors import BadResponse, ConnectionLost, RequestTimedOut
from ..network.addresses import Address
from ..network.exchange import Exchange, api_versions_version
from ..network.frame_buffer import MAX_FRAME_BYTES
from .options import ClientOptions

M = TypeVar("M", bound=Message)

_FIRST_BUFFER_BYTES = 64 * 1024


class BlockingConnection:
    """One open connection whose versions are agreed on. A context manager, which closes it."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        """Connect. Raises ConnectionLost, RequestTimedOut, BadResponse, KafkaError."""
        self.address = f"{address[0]}:{address[1]}"
        self._timeout_ms = options.numbers["request.timeout.ms"]
        self._exchange: Exchange[None] = Exchange(options.client_id)
        self._buffer = memoryview(bytearray(_FIRST_BUFFER_BYTES))
        self._socket = self._connect(address, options)
        try:
            self._agree_on_versions()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; may be called again."""
        self._socket.close()

    def version_for(self, request: type[Message]) -> int:
        """Return the version in which requests of this type are sent. Raises UnsupportedVersion."""
        return self._exchange.version_for(request)

    def request(self, message: Message, response: type[M]) -> M:
        """Send a request and return its response. No other request may be in flight."""
        self.send(message, response)
        return self.receive(response)

    def send(self, message: Message, response: type[Message], version: int | None = None) -> None:
        """Send a request; a later `receive` returns its response."""
        chosen = self._exchange.version_for(type(message)) if version is None else version
        pieces = self._exchange.send(message, chosen, response, None)
        try:
            self._socket.sendall(b"".join(pieces))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, response: type[M]) -> M:
        """Return the response to the oldest request in flight, a `response`. Earlier `records` become invalid."""
        size = int.from_bytes(self._fill(4), "big", signed=True)
        if not 4 <= size <= MAX_FRAME_BYTES:
            self.close()
            raise BadResponse(f"{self.address} announces a frame of {size} bytes: not a Kafka broker?")
        try:
            _, message = self._exchange.receive(self._fill(size))
        except BadResponse:
            self.close()
            raise
        assert isinstance(message, response)
        return message

    def _fill(self, size: int) -> memoryview:
        """Return exactly `size` received bytes, at the front of the buffer."""
        filled = 0
        while filled < size:
            if filled == len(self._buffer):
                self._grow(size)
            try:
                count = self._socket.recv_into(self._buffer[filled:size])
            except OSError as error:
                raise self._lost(error) from error
            if count == 0:
                self.close()
                raise ConnectionLost(f"{self.address} closed the connection")
            filled += count
        return self._buffer[:size]

    def _grow(self, size: int) -> None:
        """Grow the buffer, but at most to four times its size: an announced length alone costs no memory."""
        grown = bytearray(min(size, 4 * len(self._buffer)))
        grown[: len(self._buffer)] = self._buffer
        self._buffer = memoryview(grown)

    def _lost(self, error: OSError) -> KafkaError:
        self.close()
        if isinstance(error, TimeoutError):
            return RequestTimedOut(f"{self.address} did not answer within {self._timeout_ms} ms")
        return ConnectionLost(f"connection to {self.address}: {error.strerror or error}")

    def _connect(self, address: Address, options: ClientOptions) -> socket.socket:
        timeout_ms = options.numbers["socket.connection.setup.timeout.ms"]
        try:
            connected = socket.create_connection(address, timeout_ms / 1000)
        except TimeoutError as error:
            raise ConnectionLost(f"{self.address} takes no connection within {timeout_ms} ms") from error
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {self.address}: {error.strerror or error}") from error
        connected.settimeout(self._timeout_ms / 1000)
        with suppress(OSError):  # not a TCP socket, or a system without it
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, option in (("receive.buffer.bytes", socket.SO_RCVBUF), ("send.buffer.bytes", socket.SO_SNDBUF)):
            if options.numbers[name] >= 0:
                connected.setsockopt(socket.SOL_SOCKET, option, options.numbers[name])
        return connected

    def _agree_on_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)
        self.send(request, ApiVersionsResponse, api_versions_version())
        response = self.receive(ApiVersionsResponse)
        if ErrorCode.of(response.error_code) is ErrorCode.UNSUPPORTED_VERSION:
            self.send(request, ApiVersionsResponse, api_versions_version(response))
            response = self.receive(ApiVersionsResponse)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"{self.address} answers ApiVersions with an error")
        self._exchange.learn_versions(response)
