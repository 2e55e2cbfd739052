"""A blocking connection to one broker, without an event loop.

It receives every frame into one buffer that it keeps and grows. The `records` of a response are in that buffer and are
valid until the next `receive`. Requests may be sent ahead, because responses come in the order of sending.

TLS and SASL are those of the asyncio client (`core/handshakes.py`). A broker may end a session
some time after it began (KIP-368): `is_expiring` says when the caller should connect again.

Errors are the client's: ConnectionLost, RequestTimedOut, BadResponse, UnsupportedVersion, AuthenticationFailed. After
any but UnsupportedVersion the connection is closed.
"""

from __future__ import annotations

import mmap
import select
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Self, TypeVar

from ...protocol.errors import KafkaError
from ...protocol.schema import Message
from ..core.exchange import MAX_FRAME_BYTES, Conversation, Exchange
from ..core.handshakes import TlsContexts, ask_for_token_now, authentication, handshake_error, tls_error
from ..core.leaders import ISOLATION_LEVELS, READ_COMMITTED
from ..core.option_table import CONFIGS
from ..core.option_values import Address, Number
from ..core.security import PLAINTEXT, SecurityOptions
from ..errors import AuthenticationFailed, BadResponse, ConnectionLost, NotConnected, RequestTimedOut

M = TypeVar("M", bound=Message)

_FIRST_BUFFER_BYTES = 64 * 1024
# The part of a session's life after which a connection is made again.
_EXPIRING_FROM = 0.85


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of connections to brokers, and of what is read through them."""

    bootstrap: tuple[Address, ...]
    client_id: str
    # READ_UNCOMMITTED or READ_COMMITTED.
    isolation_level: int
    check_crcs: bool
    # Kafka's settings that are numbers, by Kafka's names.
    numbers: Mapping[str, int]
    # Where progress is committed to.
    group_id: str | None = None
    security: SecurityOptions = PLAINTEXT


def client_options(bootstrap: Iterable[Address], security: SecurityOptions, given: Mapping[str, Any]) -> ClientOptions:
    """Return the options that values by Kafka's names give, with the defaults of the others."""
    rows = {name: row for name, row in CONFIGS.items() if row.is_of("source")}
    values = {name: row.default_of("source") for name, row in rows.items()} | dict(given)
    return ClientOptions(
        tuple(bootstrap),
        values["client.id"],
        ISOLATION_LEVELS[values["isolation.level"]],
        values["check.crcs"],
        {name: values[name] for name, row in rows.items() if isinstance(row.values, Number)},
        values["group.id"],
        security,
    )


class ReadPath(Enum):
    """How the bytes of a range are read."""

    # From the broker.
    FETCH = "fetch"
    # From the broker's files, or not at all.
    DIRECT = "direct"
    # From the files where that is possible.
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How ranges are read."""

    client: ClientOptions
    # Whether offsets that are gone end the read.
    fail_on_data_loss: bool = True
    # How long a read waits for a record before the end of its range.
    poll_timeout_ms: int = 120_000
    # The most rows of an Arrow batch.
    arrow_batch_rows: int = 32_768
    path: ReadPath = ReadPath.FETCH

    def committed(self, **changes: Any) -> Self:
        """Return these options for a read of committed records, with changes."""
        return replace(self, client=replace(self.client, isolation_level=READ_COMMITTED), **changes)


class BlockingConnection:
    """One open connection whose versions are agreed on. A context manager, which closes it."""

    def __init__(self, address: Address, options: ClientOptions) -> None:
        """Connect. Raises ConnectionLost, RequestTimedOut, BadResponse, KafkaError."""
        self.address = f"{address[0]}:{address[1]}"
        self._timeout_ms = options.numbers["request.timeout.ms"]
        self._exchange: Exchange[None] = Exchange(options.client_id)
        self._buffer = memoryview(bytearray(_FIRST_BUFFER_BYTES))
        self._expires_s: float | None = None
        self._socket = self._connect(address, options)
        try:
            self._converse(self._exchange.agree_on_versions(self.address))
            if options.security.uses_sasl:
                self._authenticate(options.security)
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

    @property
    def is_expiring(self) -> bool:
        """Whether the broker may soon end the session, so that the next request needs a new connection."""
        return self._expires_s is not None and time.monotonic() >= self._expires_s

    @property
    def is_reusable(self) -> bool:
        """Whether an idle connection can take a request: the broker has not closed it, and does not soon end it."""
        idle = select.poll()
        idle.register(self._socket, select.POLLIN)
        # Without a request in flight nothing comes but the end.
        return not self.is_expiring and not idle.poll(0)

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
        # For the whole response: one that comes byte by byte would reset the time-out of the socket with each.
        until_s = time.monotonic() + self._timeout_ms / 1000
        size = int.from_bytes(self._fill(4, until_s), "big", signed=True)
        if not 4 <= size <= MAX_FRAME_BYTES:
            self.close()
            raise BadResponse(f"{self.address} announces a frame of {size} bytes: not a Kafka broker?")
        try:
            _, message = self._exchange.receive(self._fill(size, until_s))
        except BadResponse:
            self.close()
            raise
        assert isinstance(message, response)
        return message

    def _fill(self, size: int, until_s: float) -> memoryview:
        """Return exactly `size` received bytes, at the front of the buffer. No read begins after `until_s`."""
        if size > len(self._buffer):
            # A page of it takes memory when it is written to: an announced length alone costs none.
            self._buffer = memoryview(mmap.mmap(-1, 1 << (size - 1).bit_length()))
        filled = 0
        while filled < size:
            if time.monotonic() >= until_s:
                raise self._lost(TimeoutError())
            try:
                count = self._socket.recv_into(self._buffer[filled:size])
            except OSError as error:
                raise self._lost(error) from error
            if count == 0:
                self.close()
                raise ConnectionLost(f"{self.address} closed the connection")
            filled += count
        return self._buffer[:size]

    def _lost(self, error: OSError) -> KafkaError:
        self.close()
        if isinstance(error, TimeoutError):
            return RequestTimedOut(f"{self.address} did not answer within {self._timeout_ms} ms")
        # TLS 1.3 tells a client behind the handshake that its certificate is missing.
        return tls_error(self.address, error) or self._lost_connection(error)

    def _lost_connection(self, error: OSError) -> KafkaError:
        return ConnectionLost(f"connection to {self.address}: {error.strerror or error}")

    def _connect(self, address: Address, options: ClientOptions) -> socket.socket:
        timeout_ms = options.numbers["socket.connection.setup.timeout.ms"]
        try:
            connected = socket.create_connection(address, timeout_ms / 1000)
        except TimeoutError as error:
            raise NotConnected(f"{self.address} takes no connection within {timeout_ms} ms") from error
        except OSError as error:
            raise NotConnected(f"cannot connect to {self.address}: {error.strerror or error}") from error
        connected.settimeout(self._timeout_ms / 1000)
        with suppress(OSError):  # not a TCP socket, or a system without it
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, option in (("receive.buffer.bytes", socket.SO_RCVBUF), ("send.buffer.bytes", socket.SO_SNDBUF)):
            if options.numbers[name] >= 0:
                connected.setsockopt(socket.SOL_SOCKET, option, options.numbers[name])
        return self._encrypted(connected, address[0], options.security) if options.security.uses_tls else connected

    def _encrypted(self, connected: socket.socket, host: str, security: SecurityOptions) -> socket.socket:
        try:
            return _tls_contexts(security).current().wrap_socket(connected, server_hostname=host)
        except TimeoutError as error:
            connected.close()
            raise ConnectionLost(f"{self.address} answers no TLS handshake within {self._timeout_ms} ms") from error
        except OSError as error:
            connected.close()
            raise handshake_error(self.address, error) or self._lost_connection(error) from error
        except BaseException:
            connected.close()
            raise

    def _converse(self, conversation: Conversation) -> int:
        """Carry a conversation out. Return what it returns."""
        try:
            request, response, version = next(conversation)
            while True:
                self.send(request, response, version)
                request, response, version = conversation.send(self.receive(response))
        except StopIteration as ended:
            return ended.value

    def _authenticate(self, security: SecurityOptions) -> None:
        try:
            lifetime_ms = self._converse(authentication(security, self.version_for, ask_for_token_now(security)))
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{self.address}: {error.message}", error.code) from error
        if lifetime_ms > 0:
            self._expires_s = time.monotonic() + lifetime_ms / 1000 * _EXPIRING_FROM


@lru_cache(maxsize=8)
def _tls_contexts(security: SecurityOptions) -> TlsContexts:
    return TlsContexts(security)
