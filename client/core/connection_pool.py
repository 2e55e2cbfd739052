"""The connections of one client: at most one per broker and purpose, opened on first use."""

from __future__ import annotations

import asyncio
import logging

from ..errors import AuthenticationFailed, ClientStopped
from .connection import Connection
from .lifetime import shared
from .option_values import Address
from .options import ClusterOptions
from .tls import TlsContexts

_log = logging.getLogger(__name__)

# The purpose of a connection. Brokers respond to a connection's requests in order, so requests that wait long have a
# connection of their own: a fetch must not hold up the heartbeat behind it, nor a JoinGroup the commit.
GENERAL = "general"
FETCH = "fetch"
COORDINATION = "coordination"
REBALANCE = "rebalance"

# A broker by its node id, or a bootstrap server by its address.
Broker = int | Address


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

    async def connect(self, broker: Broker, address: Address, purpose: str) -> Connection:
        """Return the connection to a broker, opened if there is none or the broker has moved.

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
            opening = self._opening[key] = asyncio.create_task(self._open(key, address), name=f"connect {address}")
            opening.add_done_callback(lambda task: self._opened(key, task))
        return await shared(opening)

    async def _open(self, key: tuple[Broker, str], address: Address) -> Connection:
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
        )
        self._connections[key] = connection
        return connection

    def _opened(self, key: tuple[Broker, str], task: asyncio.Task[Connection]) -> None:
        del self._opening[key]
        if task.cancelled():
            return
        error = task.exception()  # retrieved, so that asyncio does not warn if all who waited were cancelled
        if isinstance(error, AuthenticationFailed):
            _log.warning("%s", error.message)  # tasks in the background would try it again without a word

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
