"""The acceptor: listens on the broker's listeners and hands new connections to the processors in turn."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterable
from itertools import cycle

from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.endpoint import ANY_HOST, Endpoint
from ..log_dirs.data_dir import StartError
from ..timers import Timers
from .connection import Bounds, Connection, Dispatch, Listener
from .connection_limits import ConnectionLimits
from .connection_memory import ConnectionMemory
from .processor import Processor
from .send_queue import ReadPiece

_log = logging.getLogger(__name__)


class Acceptor:
    """The listening sockets of one broker, and the processors that own its connections."""

    def __init__(
        self,
        config: BrokerConfig,
        dispatch: Dispatch,
        read_piece: ReadPiece,
        clock: Clock,
        timers: Timers,
        responses: ConnectionMemory,
    ) -> None:
        self._config = config
        bounds = Bounds(config.socket_request_max_bytes, config.connections_max_idle_ms)
        limits = ConnectionLimits(config)
        requests = ConnectionMemory(config.queued_max_request_bytes, clock, timers)
        self.processors = [
            Processor(dispatch, read_piece, bounds, clock, timers, limits, requests, responses)
            for _ in range(config.num_network_threads)
        ]
        self._next_processor = cycle(self.processors)
        self._servers: list[asyncio.Server] = []

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of every listener, in order, with the ports that were really taken."""
        return list(map(_address, self._servers))

    @property
    def sockets(self) -> list[socket.socket]:
        """The sockets that it listens on."""
        return [each for server in self._servers for each in server.sockets]

    async def bind(self) -> None:
        """Take the address of every listener. Raises StartError if one is not free; `close` then frees the others."""
        advertised = self._config.advertised
        for endpoint in self._config.endpoints:
            where = advertised.get(endpoint.name)
            host = None if endpoint.host in ANY_HOST else endpoint.host
            listener = Listener(endpoint.name, where and (where.host, where.port), host)
            try:
                await self._bind(endpoint, listener)
            except OSError as error:
                raise _cannot_listen(endpoint, error) from error

    async def listen(self) -> None:
        """Accept connections. `bind` comes first. Raises StartError where the system does not let it listen."""
        for endpoint, server in zip(self._config.endpoints, self._servers, strict=True):
            try:
                await server.start_serving()
            except OSError as error:
                raise _cannot_listen(endpoint, error) from error
            _log.info("listening on %s (%s)", _address(server), endpoint.name)

    async def _bind(self, endpoint: Endpoint, listener: Listener) -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(next(self._next_processor), listener),
            endpoint.host or None,
            endpoint.port,
            backlog=self._config.socket_listen_backlog_size,
            start_serving=False,
        )
        self._servers.append(server)
        _set_options(server.sockets, self._config)

    def stop(self) -> None:
        """Accept no new connection and no new request. Requests that were received get their responses."""
        for server in self._servers:
            server.close()
        for processor in self.processors:
            processor.stop_reading()

    async def close(self, deadline_s: float) -> None:
        """Wait at most `deadline_s` until responses are written, then close every connection. `stop` comes first."""
        await asyncio.gather(*(processor.close(deadline_s) for processor in self.processors))
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()


def _set_options(sockets: Iterable[socket.socket], config: BrokerConfig) -> None:
    """Set what connections inherit from the socket that accepted them."""
    for each in sockets:
        # A client whose machine is gone sends nothing: keepalive is the only way to notice.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if config.socket_receive_buffer_bytes >= 0:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        if config.socket_send_buffer_bytes >= 0:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)


def _cannot_listen(endpoint: Endpoint, error: OSError) -> StartError:
    return StartError(f"cannot listen on {endpoint.address}: {_reason(error)}")


def _reason(error: OSError) -> str:
    """Return why an address cannot be listened on, and what to do. asyncio's text has Python's form of an address."""
    if error.errno == errno.EADDRINUSE:
        remedy = "stop the program that uses it, or choose another --listen; port 0 takes a free one"
    else:
        remedy = "choose another --listen"
    # The numbers of name resolution are negative, and only their own texts say what they mean.
    number = error.errno or 0
    what = os.strerror(number) if number > 0 else error.strerror or str(error)
    return f"{what.lower()} ({remedy})"


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
