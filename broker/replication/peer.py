"""A connection to another broker, which sends requests and awaits the responses.

It connects when it is first used, and again after it was lost. One request is under way at a time. Callers that must
not wait for each other (a fetch that waits for data, a message to the controller) have a Peer each. The response is
read into memory of its own size, so that records in it may be kept without a copy.

With TLS and SASL the broker shows what `security/outgoing.py` holds, and logs in again before its session ends
(KIP-368), between two requests.

A response that is late or makes no sense closes the connection, because nothing behind it can be trusted.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from functools import partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TypeVar, cast

from ...protocol import frame
from ...protocol.codec import Buffer
from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.sasl import advance
from ...protocol.schema import Message
from ..security.outgoing import BrokerLogin, OutgoingTls

R = TypeVar("R", bound=Message)

# A fetch response of `replica.fetch.response.max.bytes` plus one batch over the limit is the largest that is expected.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
# A larger response gets a mapping: Python fills a bytearray with zeros, which takes 50 ms of the loop for 96 MiB.
MAPPED_BYTES = 4 * 1024 * 1024
# Callers that wait for their turn: the controller has at most a few for each broker, a fetcher has one.
MAX_WAITING = 100
_LAST_CORRELATION_ID = 0x7FFFFFFF
# The part of a session's life after which the broker logs in again, as Kafka's do.
_RENEWED_AFTER = 0.85
_HANDSHAKE_VERSION = _AUTHENTICATE_VERSION = 1


class PeerLost(KafkaError):
    """The other broker is gone, or does not answer in time. Whether it has handled the request is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class Peer:
    """Another broker, as a place to send requests to. End it with `close`."""

    def __init__(
        self, host: str, port: int, client_id: str, tls: OutgoingTls | None = None, login: BrokerLogin | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._client_id = client_id
        self._tls = tls
        self._login = login
        self._turn = asyncio.Lock()
        # Requests that are under way, or wait for their turn.
        self.waiting = 0
        self._next_id = 0
        self._wire: _Wire | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Peer {self.host}:{self.port}>"

    async def request(
        self, message: Message, version: int, response_type: type[R], timeout_s: float, *, is_large: bool = False
    ) -> R:
        """Send `message` in `version`, and return the response. One that `is_large` is encoded in a thread.

        The time counts from here: waiting for an earlier request and connecting are part of it. Raises PeerLost.
        """
        if self._closed:
            raise PeerLost(f"the connection to {self.host}:{self.port} was closed by this broker")
        if self.waiting >= MAX_WAITING:
            raise PeerLost(f"{self.waiting} requests wait for {self.host}:{self.port} already")
        self.waiting += 1
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                return await self._exchange(message, version, response_type, is_large)
        except TimeoutError as error:
            api = type(message).__name__.removesuffix("Request")
            raise PeerLost(f"{self.host}:{self.port} did not answer {api} within {timeout_s:g} s") from error
        except OSError as error:
            raise PeerLost(f"cannot connect to {self.host}:{self.port}: {_words(error)}") from error
        finally:
            self.waiting -= 1

    async def _exchange(self, message: Message, version: int, response_type: type[R], is_large: bool) -> R:
        wire = await self._connect()
        if self._login is not None and asyncio.get_running_loop().time() >= wire.session_end_s:
            try:
                await self._log_in(wire, self._login)
            except BaseException:
                # Also out of time: the other broker may wait in the middle of the exchange.
                wire.abort()
                raise
        return await self._ask(wire, message, version, response_type, is_large)

    async def _ask(
        self, wire: _Wire, message: Message, version: int, response_type: type[R], is_large: bool = False
    ) -> R:
        key = type(message).KEY
        assert key is not None
        self._next_id = correlation_id = 0 if self._next_id == _LAST_CORRELATION_ID else self._next_id + 1
        encode = partial(frame.encode_request, key, version, correlation_id, self._client_id, message)
        pieces = await asyncio.to_thread(encode) if is_large else encode()
        try:
            body = await wire.exchange(cast("list[Buffer]", pieces))
            answered, response = frame.decode_response(body, response_type, version)
        except DecodeError as error:
            wire.abort()
            why = f"a {response_type.__name__} of {self.host}:{self.port} cannot be read: {error}"
            raise PeerLost(why) from error
        except BaseException:
            # Also a caller that is cancelled or out of time: the response may still come.
            wire.abort()
            raise
        if answered != correlation_id:
            wire.abort()
            raise PeerLost(f"{self.host}:{self.port} answered request {answered} in the place of {correlation_id}")
        return response

    async def _connect(self) -> _Wire:
        if self._closed:
            raise PeerLost(f"the connection to {self.host}:{self.port} was closed by this broker")
        if self._wire is None or self._wire.lost is not None:
            wire = _Wire(f"{self.host}:{self.port}")
            # A close aborts it, also while it logs in.
            self._wire = wire
            try:
                tls = await self._tls.context() if self._tls is not None else None
                name = self.host if tls is not None else None
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: wire, self.host, self.port, ssl=tls, server_hostname=name)
            except BaseException:
                # The next request connects anew.
                wire.abort()
                raise
            if self._closed:
                wire.abort()
                raise PeerLost(f"the connection to {self.host}:{self.port} was closed by this broker")
        return self._wire

    async def _log_in(self, wire: _Wire, login: BrokerLogin) -> None:
        """Log in, or begin another session before the present one ends. Raises PeerLost."""
        where = f"{self.host}:{self.port}"
        request = SaslHandshakeRequest(login.mechanism)
        handshake = await self._ask(wire, request, _HANDSHAKE_VERSION, SaslHandshakeResponse)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise PeerLost(f"{where} lets nobody log in by {login.mechanism}: it offers {offered}")
        machine, session_ms = login.begin(), 0
        said: bytes | None = next(machine)
        while said is not None:
            token = SaslAuthenticateRequest(said)
            response = await self._ask(wire, token, _AUTHENTICATE_VERSION, SaslAuthenticateResponse)
            if response.error_code:
                why = response.error_message or ErrorCode.of(response.error_code).text
                raise PeerLost(f"{where} rejects the login of this broker as {login.username!r}: {why}")
            session_ms = response.session_lifetime_ms
            try:
                # The other broker says how long the password is hashed, which may be long.
                said = await asyncio.to_thread(advance, machine, response.auth_bytes)
            except KafkaError as error:
                raise PeerLost(f"the login at {where} failed: {error.message}") from error
        lasts_s = session_ms * _RENEWED_AFTER / 1000 if session_ms else math.inf
        wire.session_end_s = asyncio.get_running_loop().time() + lasts_s

    def give_up(self) -> None:
        """Close the connection: the request under way raises PeerLost. The next one connects again."""
        if self._wire is not None:
            self._wire.abort()

    def close(self) -> None:
        """Close for good: the request under way and those that wait raise PeerLost. May be called again."""
        self._closed = True
        self.give_up()


class _Wire(asyncio.BufferedProtocol):
    """One TCP connection. A frame is read into memory of its own, which is never written to again."""

    def __init__(self, address: str) -> None:
        self.lost: PeerLost | None = None
        # When this broker must log in again, in seconds of the loop. At first it has not.
        self.session_end_s = 0.0
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[memoryview] | None = None
        self._start_frame()

    async def exchange(self, pieces: list[Buffer]) -> memoryview:
        """Send a request, and return the frame that comes back, without its size."""
        if self.lost is not None or self._transport is None:
            raise self.lost or PeerLost(f"{self._address} is not connected")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(b"".join(pieces))
        return await self._waiter

    def abort(self) -> None:
        """Close at once. A request under way raises PeerLost."""
        self._fail(PeerLost(f"the connection to {self._address} was closed by this broker"))
        if self._transport is not None:
            self._transport.abort()

    def _start_frame(self) -> None:
        self._view = memoryview(bytearray(4))
        self._has_size = False
        # Invariant: what lies before it in `_view` has arrived.
        self._filled = 0

    # -- Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.lost is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._view):
            return
        if self._has_size:
            body = self._view
            self._start_frame()
            self._deliver(body)
            return
        size = int.from_bytes(self._view, "big", signed=True)
        if not 4 <= size <= MAX_RESPONSE_BYTES:
            self._fail(PeerLost(f"{self._address} announces a response of {size} bytes: it is no Kafka broker"))
            self.abort()
            return
        room = bytearray(size) if size <= MAPPED_BYTES else mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
        self._view, self._has_size, self._filled = memoryview(room), True, 0

    def _deliver(self, body: memoryview) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            self._fail(PeerLost(f"{self._address} sent a response that nobody asked for"))
            self.abort()
            return
        waiter.set_result(body)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        # The two hold each other, and a transport with TLS has memory that Python's collector does not see.
        self._transport = None
        self._fail(PeerLost(f"{self._address} closed the connection{why}"))

    def _fail(self, why: PeerLost) -> None:
        if self.lost is None:
            self.lost = why
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(self.lost)


def _words(error: OSError) -> str:
    """Return why there is no connection. TLS's own texts name a file of OpenSSL's."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return error.strerror or str(error)
