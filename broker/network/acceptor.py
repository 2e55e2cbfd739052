"""The acceptor: listens on the broker's listeners and hands new connections to the processors in turn."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Set
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode, KafkaError
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.endpoint import ANY_HOST, Endpoint
from ..configs.listener_config import ListenerConfig, listener_of
from ..configs.reconfiguration import UnreadStores
from ..log_dirs.data_dir import StartError
from ..quotas.connection_rates import ConnectionRates
from ..security.pem import StoreError
from ..threads import Workers
from ..timers import Timers
from ..topics.security_store import SecurityStore
from .connection import Bounds, Connection, Dispatch, Listener
from .connection_limits import ConnectionLimits
from .connection_memory import ConnectionMemory
from .dispatcher import Dispatcher
from .processor import Processor
from .send_queue import ReadPiece
from .stranger_memory import StrangerMemory, TokenChecks

if TYPE_CHECKING:
    # A listener without TLS and SASL needs none of these.
    from ..security.listener_tls import ListenerTls
    from ..security.sasl.scram import Strangers
    from .login import LoginDoor
    from .tls_door import TlsDoor

# What is said of a listener that others can reach and that asks nobody who they are.
_OPEN = (
    "%s is open: everybody who reaches this port may read and change everything. Start with --secure, set "
    "listener.security.protocol.map to SASL_SSL, or keep others out by a firewall (docs/security.md)"
)

_log = logging.getLogger(__name__)


class Acceptor:
    """The listening sockets of one broker, and the processors that own its connections."""

    def __init__(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        dispatch: Dispatch,
        read_piece: ReadPiece,
        clock: Clock,
        timers: Timers,
        responses: ConnectionMemory,
        workers: Workers,
        security: SecurityStore,
        rates: ConnectionRates,
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        # Requests of clients go to `dispatch`: the dispatcher, or what a test has put before it.
        self._dispatcher = dispatcher
        self._dispatch = dispatch
        self._workers = workers
        self._security = security
        self._tls: dict[str, ListenerTls] = {}
        self._doors: dict[str, TlsDoor] = {}
        bounds = Bounds(config.socket_request_max_bytes, config.connections_max_idle_ms)
        self._limits = ConnectionLimits(config, rates)
        requests = ConnectionMemory(config.queued_max_request_bytes, clock, timers)
        memory, checks = StrangerMemory(config.queued_max_request_bytes, clock, timers), TokenChecks()
        shared = (self._limits, requests, responses, memory, checks)
        self._new_processor = partial(Processor, dispatch, read_piece, bounds, clock, timers, *shared)
        self.processors = [self._new_processor() for _ in range(config.num_network_threads)]
        self._limits.close_one = self._close_one
        self._next_processor = cycle(self.processors)
        self._servers: list[asyncio.Server] = []
        # Whether connections are accepted: from `listen` to `stop`.
        self.listening = False

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of every listener, in order, with the ports that were really taken."""
        return list(map(_address, self._servers))

    @property
    def has_arrivals(self) -> bool:
        """Whether clients have connected by TLS that have not shaken hands."""
        return any(door.has_arrivals for door in self._doors.values())

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets that it listens on."""
        return [each for server in self._servers for each in server.sockets]

    async def bind(self) -> None:
        """Read certificates and take the address of every listener.

        Raises StartError if one cannot be used or is not free; `close` then frees the others.
        """
        advertised = self._config.advertised
        for endpoint in self._config.endpoints:
            where = advertised.get(endpoint.name)
            host = None if endpoint.host in ANY_HOST else endpoint.host
            listener = self._listener(endpoint.name, where and (where.host, where.port), host)
            try:
                await self._bind(endpoint, listener)
            except OSError as error:
                raise cannot_listen(endpoint.address, "--listen", error) from error

    async def listen(self) -> None:
        """Accept connections. `bind` comes first. Raises StartError where the system does not let it listen."""
        for endpoint, server in zip(self._config.endpoints, self._servers, strict=True):
            try:
                if endpoint.name in self._doors:
                    self._doors[endpoint.name].listen(server.sockets, self._config.socket_listen_backlog_size)
                else:
                    await server.start_serving()
            except OSError as error:
                raise cannot_listen(endpoint.address, "--listen", error) from error
            protocol = self._config.of_listener(endpoint.name).protocol
            if not _is_guarded(endpoint, self._config.of_listener(endpoint.name)):
                _log.warning(_OPEN, _address(server))
            said = protocol if endpoint.name == protocol else f"{endpoint.name}, {protocol}"
            _log.info("listening on %s (%s)", _address(server), said)
        self.listening = True

    def _listener(self, name: str, advertised: tuple[str, int] | None, host: str | None) -> Listener:
        """Make a listener and what stands before its connections. Raises StartError."""
        config = self._config.of_listener(name)
        protocol, identify, log_in = config.protocol, None, None
        try:
            if protocol.has_tls:
                from ..security.listener_tls import ListenerTls

                tls = self._tls[name] = ListenerTls(config, self._clock, self._workers)
                # Where clients log in by SASL, a certificate does not say who they are.
                identify = None if protocol.has_sasl else tls.principal_of
            if protocol.has_sasl:
                log_in = self._login_door(config).open
        except StoreError as error:
            raise StartError(f"listener {name}: {error}") from error
        listener = Listener(name, advertised, host, protocol, log_in, identify)
        if protocol.has_tls:
            from .tls_door import TlsDoor

            connect, delay_ms = partial(self._connect, listener), self._config.connection_failed_authentication_delay_ms
            door = TlsDoor(name, self._tls[name], connect, self._limits, self._clock, self._timers, delay_ms)
            self._doors[name] = door
        return listener

    @cached_property
    def _strangers(self) -> Strangers:
        from ..security.sasl.scram import Strangers

        return Strangers(self._security.stranger_secret, self._security.passwords, self._clock.monotonic_ms)

    def _login_door(self, config: ListenerConfig) -> LoginDoor:
        from ..security.sasl.logins import Logins
        from .login import LoginDoor

        logins, dispatch = Logins(config, self._security.credential, self._strangers, self._clock), self._dispatch
        delay_ms = self._config.connection_failed_authentication_delay_ms
        return LoginDoor(logins, dispatch, self._dispatcher.reject, self._workers, self._clock, self._timers, delay_ms)

    def _connect(self, listener: Listener) -> Connection:
        """Make a connection that the limits have let in."""
        return Connection(next(self._next_processor), listener, is_counted=True)

    def _close_one(self) -> bool:
        """Close the connection that is missed least: of a stranger, else of a client that has sent nothing for longest.

        Those of other brokers stay.
        """
        found = min(
            (
                each
                for processor in self.processors
                for each in processor.connections
                if not each.is_closing and (each.is_stranger or not self._limits.is_protected(each.listener.name))
            ),
            key=lambda each: (not each.is_stranger, each.last_active_ms),
            default=None,
        )
        if found is not None:
            found.drop("the limits on connections leave the brokers a way in")
        return found is not None

    def reconfigure(self, changed: Collection[str]) -> Callable[[], None]:
        """Check the listeners whose configs have changed, by these names, and return what puts them in use.

        KafkaError where a certificate cannot be used. UnreadStores where a thread must read it first.
        """
        concerned = [
            (tls, self._config.of_listener(name))
            for name, tls in self._tls.items()
            if any(listener_of(each, [name]) for each in changed)
        ]
        if not all(tls.has_read(config) for tls, config in concerned):
            raise _unread(concerned)
        try:
            uses = [tls.reconfigure(config) for tls, config in concerned]
        except StoreError as error:
            why = f"Validation of dynamic config update of SSLFactory failed: {error}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why) from error

        def apply() -> None:
            for use in uses:
                use()

        return apply

    def end_sessions(self, deleted: Set[tuple[str, str]]) -> None:
        """Close the connections of users whose passwords of a mechanism were deleted, behind their responses."""
        for processor in self.processors:
            for connection in list(processor.connections):
                if (connection.principal.name, connection.mechanism) in deleted:
                    connection.end_session()

    async def renew(self) -> None:
        """End every connection, and listen again: on another port where the config has port 0.

        Connections that are still being made belong to the processors from before, and end with them.
        """
        self.stop()
        await self.close(0)
        self.processors[:] = [self._new_processor() for _ in self.processors]
        self._next_processor = cycle(self.processors)
        await self.bind()
        await self.listen()

    async def _bind(self, endpoint: Endpoint, listener: Listener) -> None:
        # As in Kafka, `::` takes IPv4, too. asyncio would take IPv6 alone.
        where: dict[str, Any] = {"host": endpoint.host or None, "port": endpoint.port}
        if endpoint.host == "::":
            where = {"sock": _bind_both(endpoint.port)}
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(next(self._next_processor), listener),
            **where,
            backlog=self._config.socket_listen_backlog_size,
            start_serving=False,
        )
        self._servers.append(server)
        _set_options(server.sockets, self._config)

    def stop(self) -> None:
        """Accept no new connection and no new request. Requests that were received get their responses."""
        self.listening = False
        for door in self._doors.values():
            door.stop()
        for server in self._servers:
            server.close()
        for processor in self.processors:
            processor.stop_reading()

    async def close(self, deadline_s: float) -> None:
        """Wait at most `deadline_s` until responses are written, then close every connection. `stop` comes first."""
        await asyncio.gather(*(processor.close(deadline_s) for processor in self.processors))
        await asyncio.gather(*(door.close() for door in self._doors.values()))
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()


def _unread(stores: list[tuple[ListenerTls, ListenerConfig]]) -> UnreadStores:
    """Return what has threads read these stores."""

    async def read() -> None:
        await asyncio.gather(*(tls.read(config) for tls, config in stores))

    def forget() -> None:
        for tls, _ in stores:
            tls.forget()

    return UnreadStores(read, forget)


def _bind_both(port: int) -> socket.socket:
    """Return a socket that is bound to every interface, of IPv6 and of IPv4."""
    bound = socket.socket(socket.AF_INET6)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(("::", port))
    except BaseException:
        bound.close()
        raise
    return bound


def _is_guarded(endpoint: Endpoint, config: ListenerConfig) -> bool:
    """Return whether only this machine reaches a listener, or its clients have to say who they are."""
    is_local = endpoint.host in ("localhost", "::1") or endpoint.host.startswith("127.")
    knows_clients = config.protocol.has_tls and config.ssl_client_auth == "required"
    return is_local or config.protocol.has_sasl or knows_clients


def _set_options(sockets: Iterable[socket.socket], config: BrokerConfig) -> None:
    """Set what connections inherit from the socket that accepted them."""
    for each in sockets:
        # A client whose machine is gone sends nothing: keepalive is the only way to notice.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.socket_receive_buffer_bytes >= 0:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        if config.socket_send_buffer_bytes >= 0:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)


def cannot_listen(address: str, option: str, error: OSError) -> StartError:
    """Return why an address cannot be listened on, and what to do. asyncio's text has Python's form of an address."""
    if error.errno == errno.EADDRINUSE:
        remedy = f"stop the program that uses it, or choose another {option}; port 0 takes a free one"
    else:
        remedy = f"choose another {option}"
    # The numbers of name resolution are negative, and only their own texts say what they mean.
    number = error.errno or 0
    what = os.strerror(number) if number > 0 else error.strerror or str(error)
    return StartError(f"cannot listen on {address}: {what.lower()} ({remedy})")


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
