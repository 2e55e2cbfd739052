"""A socket that speaks Kafka's frames and records every exchange by case name, API and version."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .plain import decode_response, encode_request

TIMEOUT_S = 10.0
CLIENT_ID = "wire"


def until_deadline() -> Iterator[None]:
    """Yield once for each turn of a loop that waits for the broker, for at most TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        yield
        time.sleep(0.005)


@dataclass
class Exchange:
    """One request and its response: `outcome` is answered, closed, silent (acks=0) or timeout.

    Frames are without their length.
    """

    case: str
    api: str
    version: int
    request: bytes
    outcome: str
    response: bytes = b""
    body: dict[str, Any] = field(default_factory=dict[str, Any])


class Wire:
    """A connection to one broker. After a close, the next request opens it again. Not thread-safe."""

    def __init__(self, address: str, prefix: str = "w", source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self.address, self.prefix, self._source = (host, int(port)), prefix, source
        self.exchanges: list[Exchange] = []
        self.correlation_id = 0
        self._socket: socket.socket | None = None

    @cached_property
    def quiet(self) -> Wire:
        """A second connection, whose exchanges are not compared."""
        return Wire(f"{self.address[0]}:{self.address[1]}", self.prefix)

    def until(
        self, holds: Callable[[dict[str, Any]], bool], api: str, version: int, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask quietly again and again, until a response holds, and return it. Raises RuntimeError after TIMEOUT_S."""
        for _ in until_deadline():
            if holds(found := self.quiet.ask("", api, version, body)):
                return found
        raise RuntimeError(f"{api} {body} is not answered as awaited")

    def ask(self, case: str, api: str, version: int, body: dict[str, Any], *, answered: bool = True) -> dict[str, Any]:
        """Send a request and return its decoded response, empty if the connection closed or `answered` is False."""
        self.send(api, version, body)
        return self.receive(case, api, version, answered=answered)

    def send(self, api: str, version: int, body: dict[str, Any]) -> None:
        """Send a request; `receive` reads its response (joins need two connections at once)."""
        self.correlation_id += 1
        self._request = encode_request(api, version, self.correlation_id, CLIENT_ID, body)
        self.connected().sendall(struct.pack(">i", len(self._request)) + self._request)

    def receive(self, case: str, api: str, version: int, *, answered: bool = True) -> dict[str, Any]:
        outcome, frame = ("silent", b"") if not answered else self.read_frame()
        exchange = Exchange(case, api, version, self._request, outcome, frame)
        self.exchanges.append(exchange)
        if outcome == "answered":
            exchange.body = decode_response(api, version, frame)
        return exchange.body

    def raw(self, case: str, data: bytes) -> str:
        """Send bytes unchanged, also with a wrong length, on a connection of their own. Return the outcome."""
        self.close()
        self.connected().sendall(data)
        outcome, frame = self.read_frame()
        self.exchanges.append(Exchange(case, "raw", 0, data, outcome, frame))
        self.close()
        return outcome

    def read_frame(self) -> tuple[str, bytes]:
        try:
            (size,) = struct.unpack(">i", self._exactly(4))
            return "answered", self._exactly(size)
        except TimeoutError:
            self.close()
            return "timeout", b""
        except (EOFError, ConnectionError):
            self.close()
            return "closed", b""

    def connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(
                self.address, TIMEOUT_S, (self._source, 0) if self._source else None
            )
        return self._socket

    def hangs_up(self, case: str) -> None:
        """Record whether the broker closes the connection, for requests without a response."""
        outcome, frame = self.read_frame()
        self.exchanges.append(Exchange(case, "raw", 0, b"", outcome, frame))
        self.close()

    def twin(self, source: str = "") -> Wire:
        """Return a second connection that records its exchanges with this one's, perhaps from another address."""
        other = Wire(f"{self.address[0]}:{self.address[1]}", self.prefix, source)
        other.exchanges = self.exchanges
        return other

    def close(self) -> None:
        if "quiet" in self.__dict__:
            self.quiet.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.connected().recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)
