"""A processor: the owner of some connections.

The acceptor hands new connections to the `num.network.threads` processors in turn. All processors run on the one event
loop: what they add is ownership. One place closes a connection, and lends it buffers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..clock import Clock
from ..timers import Timers
from ..turns import keeper
from .connection import Bounds, Connection, Dispatch
from .connection_limits import ConnectionLimits
from .connection_memory import ConnectionMemory
from .line_limit import Rejections
from .receive_buffer import SCRATCH_BYTES, BufferPool
from .send_queue import ReadPiece
from .stranger_memory import StrangerMemory, TokenChecks

# However short connections.max.idle.ms is, the broker looks for idle connections no more often than this.
_IDLE_CHECK_MS = 10

_log = logging.getLogger(__name__)


class Processor:
    """Its connections, their turns, and the buffer that all of them read into."""

    def __init__(
        self,
        dispatch: Dispatch,
        read_piece: ReadPiece,
        bounds: Bounds,
        clock: Clock,
        timers: Timers,
        limits: ConnectionLimits,
        requests: ConnectionMemory,
        responses: ConnectionMemory,
        strangers: StrangerMemory | None = None,
        token_checks: TokenChecks | None = None,
    ) -> None:
        """All processors of a broker share the limits, the memories and the checks of tokens."""
        self.dispatch = dispatch
        self.read_piece = read_piece
        self.bounds = bounds
        self.clock = clock
        self.keeper = keeper()
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        # What the requests that are still arriving hold, and the responses that are not read.
        self.requests = requests
        self.responses = responses
        # The same for clients that have not logged in.
        self.strangers = strangers or StrangerMemory(-1, clock, timers)
        self.token_checks = token_checks or TokenChecks()
        # In the order in which they came: what is done to all of them has the same order in every run.
        self.connections: dict[Connection, None] = {}
        # The futures of requests that wait, kept so that none is collected before it is done.
        self.waiting: set[asyncio.Future[Any]] = set()
        self._limits = limits
        self.timers = timers
        self.rejections = Rejections(clock, timers)
        self._stopping = False
        self._idle_check_armed = False
        self._on_empty: Callable[[], None] | None = None

    def adopt(self, connection: Connection) -> bool:
        """Own a new connection until it closes. False: the broker stops, or a limit refuses the connection."""
        if self._stopping:
            return False
        exceeded = None
        if not connection.is_counted:
            exceeded = self._limits.acquire(connection.client_host, connection.descriptor, connection.listener.name)
        if exceeded is not None:
            self.rejections.warn(_log, "%s: refused: %s", connection.name, exceeded, extra=connection.log_fields)
            return False
        self.connections[connection] = None
        if not connection.is_counted:
            connection.enter(self._limits.enter(connection.listener.name, connection.client_host))
        _log.debug(
            "%s: connected to listener %s", connection.name, connection.listener.name, extra=connection.log_fields
        )
        self._arm_idle_check()
        return True

    def forget(self, connection: Connection) -> None:
        """Drop a connection that is closed."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        _log.debug("%s: disconnected", connection.name)
        self._limits.release(connection.client_host)
        if not self.connections and self._on_empty is not None:
            self._on_empty()

    def stop_reading(self) -> None:
        """Take no new connections and no new requests. Requests that are being handled go on."""
        self._stopping = True
        for connection in self.connections:
            connection.stop_reading()

    async def close(self, deadline_s: float) -> None:
        """Wait at most `deadline_s` until the responses under way are written; then close what is left."""
        for connection in list(self.connections):
            connection.close_when_answered()
        if self.connections:
            empty = asyncio.get_running_loop().create_future()
            self._on_empty = lambda: None if empty.done() else empty.set_result(None)
            await asyncio.wait([empty], timeout=deadline_s)
        for connection in list(self.connections):
            connection.abort()
        for request in list(self.waiting):
            request.cancel()

    def _arm_idle_check(self) -> None:
        idle_ms = self.bounds.max_idle_ms
        if idle_ms < 0 or self._idle_check_armed or not self.connections:
            return
        self._idle_check_armed = True
        oldest_ms = min(each.last_active_ms for each in self.connections)
        self.timers.at(max(oldest_ms + idle_ms, self.clock.monotonic_ms() + _IDLE_CHECK_MS), self._close_idle)

    def _close_idle(self) -> None:
        self._idle_check_armed = False
        limit_ms = self.clock.monotonic_ms() - self.bounds.max_idle_ms
        for connection in list(self.connections):
            if connection.last_active_ms > limit_ms:
                continue
            # A client that waits for the broker is not idle. One that reads no responses for so long is gone.
            if not connection.waits:
                _log.info(
                    "%s: closed, idle for %d ms", connection.name, self.bounds.max_idle_ms, extra=connection.log_fields
                )
                connection.abort()
            # The next check of a connection that waits, or is being closed, comes after another idle time.
            connection.last_active_ms = self.clock.monotonic_ms()
        self._arm_idle_check()
