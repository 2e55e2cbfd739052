"""A processor owns connections and sees that each gets its turn.

The acceptor hands new connections to the `num.network.threads` processors in turn. All of them live on the one event
loop: what a processor adds is ownership (who closes whom at stop, whose buffers are whose) and fairness. A connection
answers at most `FRAMES_PER_TURN` requests at a go; if more have arrived, it queues up here and goes on when the
others had their turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ..clock import Clock
from ..timers import Timers
from .connection import Connection, Dispatch, Limits
from .connection_limits import Admission

# What one read may bring: large enough that a socket full of small requests comes in one go.
SCRATCH_BYTES = 256 * 1024
# Frames larger than the scratch are received into buffers that are kept for the next such frame: this many at most,
# none larger than `_POOLED_BYTES`, so a processor keeps no more than 16 MiB however large its requests were.
_POOLED_BUFFERS = 4
_POOLED_BYTES = 4 * 1024 * 1024

# However short connections.max.idle.ms is, looking who is idle must not be all that the broker does.
_IDLE_CHECK_MS = 10

_log = logging.getLogger(__name__)


class BufferPool:
    """A few receive buffers that were used and are lent again: their memory is there already, so lending costs
    nothing.
    """

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, at_least_bytes: int, otherwise_bytes: int) -> bytearray:
        """A kept buffer of at least `at_least_bytes`, or a new one of `otherwise_bytes`."""
        for index, buffer in enumerate(self._free):
            if len(buffer) >= at_least_bytes:
                return self._free.pop(index)
        return bytearray(otherwise_bytes)

    def give(self, buffer: bytearray) -> None:
        """Takes a buffer back; what is too large or too many is left to the allocator."""
        if SCRATCH_BYTES < len(buffer) <= _POOLED_BYTES and len(self._free) < _POOLED_BUFFERS:
            self._free.append(buffer)


class Processor:
    """The connections that were given to it, their turns, and the buffer into which all of them read."""

    def __init__(
        self, dispatch: Dispatch, limits: Limits, clock: Clock, timers: Timers, admission: Admission | None = None
    ) -> None:
        self.dispatch = dispatch
        self.limits = limits
        self.clock = clock
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.connections: set[Connection] = set()
        # Tasks of requests that wait, kept so that none is collected while it runs.
        self.tasks: set[asyncio.Future[object]] = set()
        self._admission = admission if admission is not None else Admission()
        self._timers = timers
        self._stopping = False
        self._ready: deque[Connection] = deque()
        self._turn_scheduled = False
        self._idle_check_armed = False
        self._on_empty: Callable[[], None] | None = None

    def adopt(self, connection: Connection) -> bool:
        """A connection was accepted; it is this processor's until it closes. False: it is refused."""
        if self._stopping:
            return False
        refusal = self._admission.admit(connection.client_host)
        if refusal is not None:
            _log.warning("%s: refused: %s", connection.name, refusal)
            return False
        self.connections.add(connection)
        self._arm_idle_check()
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._admission.release(connection.client_host)
        if not self.connections and self._on_empty is not None:
            self._on_empty()

    def continue_later(self, connection: Connection) -> None:
        """The connection has more to do than one turn allows; it goes to the end of the queue."""
        self._ready.append(connection)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def stop_reading(self) -> None:
        """No new connections, no new requests: what is being answered goes on."""
        self._stopping = True
        for connection in self.connections:
            connection.stop_reading()

    async def close(self, deadline_s: float) -> None:
        """Waits until answers under way are written, at most `deadline_s`; then closes what is left."""
        for connection in list(self.connections):
            connection.close_when_answered()
        if self.connections:
            empty = asyncio.get_running_loop().create_future()
            self._on_empty = lambda: None if empty.done() else empty.set_result(None)
            await asyncio.wait([empty], timeout=deadline_s)
        for connection in list(self.connections):
            connection.abort()
        for task in list(self.tasks):
            task.cancel()

    def _turn(self) -> None:
        self._turn_scheduled = False
        # Only those that wait now: who queues up again meanwhile comes after everyone else's reads.
        for _ in range(len(self._ready)):
            self._ready.popleft().resume()

    def _arm_idle_check(self) -> None:
        idle_ms = self.limits.max_idle_ms
        if idle_ms < 0 or self._idle_check_armed or not self.connections:
            return
        self._idle_check_armed = True
        oldest_ms = min(each.last_active_ms for each in self.connections)
        self._timers.at(max(oldest_ms + idle_ms, self.clock.monotonic_ms() + _IDLE_CHECK_MS), self._close_idle)

    def _close_idle(self) -> None:
        self._idle_check_armed = False
        limit_ms = self.clock.monotonic_ms() - self.limits.max_idle_ms
        for connection in list(self.connections):
            if connection.last_active_ms > limit_ms:
                continue
            # A request that waits is no idleness; a client that does not read its answers for so long is gone.
            if not connection.waits:
                _log.info("%s: closed, idle for %d ms", connection.name, self.limits.max_idle_ms)
                connection.abort()
            # Who is being closed, or waits, is looked at once more only after a while.
            connection.last_active_ms = self.clock.monotonic_ms()
        self._arm_idle_check()
