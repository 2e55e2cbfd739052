"""The TCP connections of one client: requests go out, responses come back in order.

`Connection` is the asyncio shell around `exchange.py`. `Connection.open` connects, agrees on versions (ApiVersions,
KIP-511), and authenticates if the client's security asks for it. After that `request` waits for a response, and `send`
returns a future, so that many requests can be in flight. A late or garbled response closes the connection, because
nothing behind it can be trusted. All requests in flight then raise `ConnectionLost` (the late one `RequestTimedOut`).
The connection stays closed; the pool opens another.

Before the broker ends an authenticated session, the connection authenticates again (KIP-368). Requests of that moment
are held and sent behind it, in their order.

`ConnectionPool` has at most one connection per broker and purpose, opened on first use.

Bounds: `request` keeps at most MAX_IN_FLIGHT requests in flight, and waits while the socket's write buffer is over its
high mark. `send` does not wait: its callers count their own requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
from typing import Any, NamedTuple, TypeVar, cast

from ...protocol.apis import ApiKey
from ...protocol.errors import KafkaError
from ...protocol.schema import Message
from ..errors import (
    AuthenticationFailed,
    BadResponse,
    ClientStopped,
    ConnectionLost,
    NotConnected,
    RequestTimedOut,
    ValueOutOfRange,
)
from .exchange import Conversation, Exchange, FrameBuffer, Identity, api_name
from .handshakes import TlsContexts, Token, ask_for_token, authentication, handshake_error, tls_error
from .lifetime import shared
from .option_values import Address
from .options import ClusterOptions
from .randomness import jitter
from .security import PLAINTEXT, SecurityOptions

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)

# More than any task of this client has in flight; brokers stop reading far later (their bounds are in the thousands).
MAX_IN_FLIGHT = 100

# The parts of a session's life after which the connection authenticates again, as in Kafka's clients: many connections
# that began together do not come back together.
_AGAIN_FROM, _AGAIN_TO = 0.85, 0.95
# A peer that does not end its side of TLS is left after so long.
_TLS_SHUTDOWN_S = 0.2
# ApiVersions 5 tells whether the broker is the one that is meant.
_FIRST_TO_TELL = 5
# How long an address may take for the connection, and for the answer to its first request, which no broker holds back.
CONNECT_TIMEOUT_MS = 5_000

# What asyncio says of several failed attempts, one for each address of a host name.
_ERRNO = re.compile(r"\[Errno (\d+)\]")
# Tells of logins that fail.
login_log = logging.getLogger(__name__)

# The purpose of a connection. Brokers respond to a connection's requests in order, so requests that wait long have a
# connection of their own: a fetch must not hold up the heartbeat behind it, nor a JoinGroup the commit.
GENERAL = "general"
FETCH = "fetch"
COORDINATION = "coordination"
REBALANCE = "rebalance"

# A broker by its node id, or a bootstrap server by its address.
Broker = int | Address


def reason_of(error: OSError) -> str:
    """Return why a connection could not be made, as the system says it: asyncio's own texts name its calls."""
    if isinstance(error, socket.gaierror):
        return (error.strerror or "the host name is not known").lower()
    number = error.errno
    if number is None and (found := _ERRNO.search(str(error))):
        number = int(found[1])
    return os.strerror(number).lower() if number else str(error)


class _Waiter(NamedTuple):
    """A call that waits for a response. The time runs on where the call is cancelled: a late response ends all."""

    future: asyncio.Future[Any]
    timer: asyncio.TimerHandle

    def answer(self, response: Message) -> None:
        self.timer.cancel()
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, error: KafkaError) -> None:
        self.timer.cancel()
        if not self.future.done():
            self.future.set_exception(error)


# A request: the type of its response, its version, and who waits for the response; None with acks=0.
_Request = tuple[Message, type[Message] | None, int, _Waiter | None]


class Connection(asyncio.BufferedProtocol):
    """An open connection. Make one with `open`, end it with `close`."""

    def __init__(
        self, address: str, client_id: str, request_timeout_ms: float, security: SecurityOptions = PLAINTEXT
    ) -> None:
        self.address = address
        self.request_timeout_ms = request_timeout_ms
        self._security = security
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange[_Waiter] = Exchange(client_id)
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._lost: KafkaError | None = None
        # Whether it is ready for the client's requests: versions are agreed on, and it has authenticated.
        self._is_open = False
        self._gone = asyncio.Event()
        # Cleared while the socket takes no more, or MAX_IN_FLIGHT requests are in flight.
        self._room = asyncio.Event()
        self._room.set()
        self._writable = True
        # How many requests were sent until the versions were known.
        self._sent_to_agree: int | None = None
        # The next authentication, the one under way, and the requests that wait for its end.
        self._next_authentication: asyncio.TimerHandle | None = None
        self._authenticating: asyncio.Task[None] | None = None
        self._held: list[_Request] | None = None
        self._is_uvloop = False

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = CONNECT_TIMEOUT_MS,
        security: SecurityOptions = PLAINTEXT,
        tls: ssl.SSLContext | None = None,
        identity: Identity | None = None,
    ) -> Connection:
        """Connect, agree on versions and authenticate. `identity` says which broker must answer.

        Raises NotConnected if no connection can be made. Behind it ConnectionLost, RequestTimedOut,
        UnsupportedVersion or AuthenticationFailed, whose text says what to set.
        """
        connection = cls(f"{host}:{port}", client_id, request_timeout_ms, security)
        await connection._connect(host, port, connect_timeout_ms, tls)
        try:
            timeout_ms = min(request_timeout_ms, connect_timeout_ms)
            await connection._agree_on_versions(timeout_ms, None if security.uses_sasl else identity)
            if security.uses_sasl:
                await connection._authenticate(await ask_for_token(security))
                if identity is not None and connection.versions.get(ApiKey.API_VERSIONS, (0, 0))[1] >= _FIRST_TO_TELL:
                    # Strangers are not told.
                    await connection._agree_on_versions(timeout_ms, identity)
        except BaseException:
            connection.abort(ConnectionLost(f"{host}:{port}: versions were not agreed upon"))
            raise
        connection._is_open = True
        return connection

    async def _connect(self, host: str, port: int, timeout_ms: float, tls: ssl.SSLContext | None) -> None:
        options = {} if tls is None else {"ssl": tls, "ssl_shutdown_timeout": _TLS_SHUTDOWN_S}
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._loop.create_connection(lambda: self, host, port, **options)  # pyright: ignore
        except TimeoutError as error:
            what = "takes no connection" if tls is None else "takes no TLS connection"
            raise NotConnected(f"{host}:{port} {what} within {timeout_ms:g} ms") from error
        except OSError as error:
            if tls is not None and (meant := handshake_error(self.address, error)):
                raise meant from error
            raise NotConnected(f"cannot connect to {host}:{port}: {reason_of(error)}") from error
        # Behind OSError, because a certificate that is not trusted is both.
        except (ValueError, OverflowError) as error:  # a name as ".a", with a zero, or of 64 letters; a port as 70000
            raise NotConnected(f"cannot connect to {host}:{port}: that is no address") from error

    async def _agree_on_versions(self, timeout_ms: float, identity: Identity | None) -> None:
        try:
            await self._converse(self._exchange.agree_on_versions(self.address, identity), timeout_ms)
        except RequestTimedOut as error:
            why = f"{self.address} takes the connection and does not answer within {timeout_ms:g} ms"
            raise RequestTimedOut(f"{why}: is a Kafka broker there?") from error
        self._sent_to_agree = self._exchange.sent

    async def _converse(self, conversation: Conversation, timeout_ms: float | None = None) -> int:
        """Carry a conversation out, at once. Return what it returns."""
        try:
            request = next(conversation)
            while True:
                waiter = self._waiter(request[0], timeout_ms)
                self._write(*request, waiter)
                request = conversation.send(await waiter.future)
        except StopIteration as ended:
            return ended.value

    # -- Authentication

    async def _authenticate(self, token: Token | None) -> None:
        try:
            lifetime_ms = await self._converse(authentication(self._security, self.version_for, token))
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{self.address}: {error.message}", error.code) from error
        if lifetime_ms > 0:  # otherwise the session does not end
            delay_s = lifetime_ms / 1000 * jitter().uniform(_AGAIN_FROM, _AGAIN_TO)
            self._next_authentication = self._loop.call_later(delay_s, self._begin_authentication)

    def _begin_authentication(self) -> None:
        self._authenticating = self._loop.create_task(self._authenticate_again(), name=f"authenticate {self.address}")

    async def _authenticate_again(self) -> None:
        try:
            token = await ask_for_token(self._security)
            self._held = []  # the broker takes nothing else until the exchange is over
            await self._authenticate(token)
        except KafkaError as error:
            self.abort(error)
        else:
            held, self._held = self._held, None
            for each in held:
                try:
                    self._write(*each)
                except ValueOutOfRange as error:
                    # It has acks=0: its caller does not wait to hear of it.
                    _log.warning("%s: a request is not sent: %s", self.address, error)
            self._update_room()
        finally:
            self._authenticating = None

    # -- Requests

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer, also those for whose answers nobody waits any more."""
        return len(self._exchange.in_flight)

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
        waiter = self._waiter(message, timeout_ms)
        self._write_in_turn(message, response, version, waiter)
        return waiter.future

    def send_without_response(self, message: Message, *, version: int | None = None) -> None:
        """Send a message that gets no response (Produce with acks=0). Raises ConnectionLost, UnsupportedVersion."""
        self._check_lost()
        if version is None:
            version = self.version_for(type(message))
        self._write_in_turn(message, None, version, None)

    async def drained(self) -> None:
        """Wait until the socket has taken nearly all that was sent (its low mark). Raises ConnectionLost."""
        while not (self._writable and self._held is None) and self._lost is None:
            self._room.clear()
            await self._room.wait()
        if self._lost is not None:
            raise self._lost

    def _check_lost(self) -> None:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(f"{self.address}: not connected")

    def _waiter(self, message: Message, timeout_ms: float | None) -> _Waiter:
        """Return what waits for a response, and times out. Raises ConnectionLost."""
        self._check_lost()
        future: asyncio.Future[Any] = self._loop.create_future()
        limit_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(limit_ms / 1000, self._time_out, future, api_name(type(message)), limit_ms)
        return _Waiter(future, timer)

    def _write_in_turn(self, *request: *_Request) -> None:
        """Write a request, behind an authentication that is under way."""
        if self._held is None:
            self._write(*request)
        else:
            self._held.append(request)

    def _write(self, message: Message, response: type[Message] | None, version: int, waiter: _Waiter | None) -> None:
        assert self._transport is not None
        try:
            pieces = self._exchange.send(message, version, response, waiter)
        except ValueOutOfRange as error:
            if waiter is None:
                raise
            waiter.fail(error)
            return
        if self._is_uvloop:
            self._transport.writelines(pieces)
        else:
            # In Python 3.12 and 3.13, `writelines` neither heeds the buffer's limit nor a connection that is lost.
            self._transport.write(b"".join(pieces))
        self._update_room()

    def _time_out(self, future: asyncio.Future[Any], api: str, limit_ms: float) -> None:
        error = RequestTimedOut(f"{self.address} did not answer {api} within {limit_ms:g} ms")
        if not future.done():
            future.set_exception(error)
        self.abort(ConnectionLost(f"connection to {self.address} given up: {error.message}"))

    def _update_room(self) -> None:
        if self._writable and len(self._exchange.in_flight) < MAX_IN_FLIGHT:
            self._room.set()
        else:
            self._room.clear()

    @property
    def certificate_end_s(self) -> float | None:
        """When the broker's certificate ends, in seconds since 1970; None without TLS or where it is not checked."""
        found = self._transport.get_extra_info("peercert") if self._transport is not None else None
        return float(ssl.cert_time_to_seconds(found["notAfter"])) if found else None

    # -- Callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class
        self._is_uvloop = not isinstance(transport, asyncio.Transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for body in self._buffer.received(nbytes):
                waiter, response = self._exchange.receive(body)
                waiter.answer(response)
        except BadResponse as error:
            self.abort(BadResponse(f"{self.address}: {error.message}"))
        self._update_room()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(self._reason(exc))
        # The two hold each other, and a transport with TLS has memory that Python's collector does not see.
        self._transport = None
        self._gone.set()

    def _reason(self, error: Exception | None) -> KafkaError:
        """Return why the connection ended, with what to set if the listener speaks another protocol."""
        if isinstance(error, OSError) and (meant := tls_error(self.address, error)):
            return meant
        text = f"{self.address} closed the connection" + (f": {error}" if error is not None else "")
        answered = self._exchange.sent - len(self._exchange.in_flight)
        if self._security.uses_sasl or (self._sent_to_agree is not None and answered > self._sent_to_agree):
            return ConnectionLost(text)
        if self._sent_to_agree is not None:
            return ConnectionLost(f"{text} at the first request: if the listener asks for SASL, set security_protocol")
        hint = "speaks TLS, set security_protocol to SSL or SASL_SSL"
        if self._security.uses_tls:
            hint = "asks for a client certificate, set ssl_certfile and ssl_keyfile to one that it trusts"
        return ConnectionLost(f"{text} before it answered: if the listener {hint}")

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
        self._end_authentication()
        in_flight, self._exchange.in_flight = self._exchange.in_flight, {}
        error = self._lost
        if self._is_open and not isinstance(error, ConnectionLost):
            # The broker took these requests before it, or this client, ended the session: nobody knows their outcome.
            error = ConnectionLost(error.message)
        for request in in_flight.values():
            request.waiter.fail(error)
        self._room.set()  # callers that wait for room wake up and find the connection lost

    def _end_authentication(self) -> None:
        """Authenticate no more; held requests fail."""
        if self._next_authentication is not None:
            self._next_authentication.cancel()
        if self._authenticating is not None and self._authenticating is not asyncio.current_task(self._loop):
            self._authenticating.cancel()
        held, self._held = self._held, None
        for *_, waiter in held or ():
            assert self._lost is not None
            if waiter is not None:
                waiter.fail(self._lost)


class ConnectionPool:
    """Open connections, and those that are being opened."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._tls = TlsContexts(options.security) if options.security.uses_tls else None
        # Invariant: at most one entry for a broker and purpose; a closed connection is replaced on the next use.
        self._connections: dict[tuple[Broker, str], Connection] = {}
        self._opening: dict[tuple[Broker, str], asyncio.Task[Connection]] = {}
        self._stopped = False

    def ready(self, broker: Broker, purpose: str = GENERAL) -> Connection | None:
        """Return the open connection to a broker, or None."""
        connection = self._connections.get((broker, purpose))
        return None if connection is None or connection.closed else connection

    def all_ready(self, purpose: str) -> list[Connection]:
        """Return the open connections for `purpose`."""
        return [c for (_, its_purpose), c in self._connections.items() if its_purpose == purpose and not c.closed]

    def any_ready(self) -> bool:
        """Return whether any connection is open."""
        return any(not each.closed for each in self._connections.values())

    async def connect(
        self, broker: Broker, address: Address, purpose: str, cluster_id: str | None = None
    ) -> Connection:
        """Return the connection to a broker, opened if there is none or the broker has moved.

        A broker with a node id must say that it is that node of the cluster, where it can (ApiVersions 5).

        Calls at the same time share one attempt. Raises ConnectionLost, ClientStopped.
        """
        if self._stopped:
            raise ClientStopped("this client was stopped")
        connection = self.ready(broker, purpose)
        if connection is not None and (isinstance(broker, tuple) or connection.address == f"{address[0]}:{address[1]}"):
            return connection
        key = broker, purpose
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(
                self._open(key, address, cluster_id), name=f"connect {address}"
            )
            opening.add_done_callback(lambda task: self._opened(key, task))
        return await shared(opening)

    async def _open(self, key: tuple[Broker, str], address: Address, cluster_id: str | None) -> Connection:
        broker, _ = key
        replaced = self._connections.pop(key, None)
        if replaced is not None:
            await replaced.close()
        connection = await Connection.open(
            address[0],
            address[1],
            client_id=self._options.client_id,
            request_timeout_ms=self._options.request_timeout_ms,
            security=self._options.security,
            tls=None if self._tls is None else self._tls.current(),
            identity=None if cluster_id is None or isinstance(broker, tuple) else Identity(cluster_id, broker),
        )
        self._connections[key] = connection
        return connection

    def _opened(self, key: tuple[Broker, str], task: asyncio.Task[Connection]) -> None:
        del self._opening[key]
        if task.cancelled():
            return
        error = task.exception()  # retrieved, so that asyncio does not warn if all who waited were cancelled
        if isinstance(error, AuthenticationFailed):
            login_log.warning("%s", error.message)  # tasks in the background would try it again without a word

    def stop_connecting(self) -> list[asyncio.Task[Connection]]:
        """Open no more connections. Return the cancelled attempts, for the caller to wait for."""
        self._stopped = True
        attempts = list(self._opening.values())
        for attempt in attempts:
            attempt.cancel()
        return attempts

    async def close(self) -> None:
        """Close all connections; may be called again."""
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.close() for connection in connections))
