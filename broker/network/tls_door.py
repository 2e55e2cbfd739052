"""The door of a TLS listener: accepts connections, recognises TLS, and shakes hands, a few at a time.

A connection counts for the limits as soon as it is accepted. The door looks at its first bytes without taking them. If
they are no TLS, the client gets the alert that Kafka sends, and the log says what it speaks. Once a whole ClientHello
has come, the handshake begins (tls_handshake.py), as many in a turn of the loop as its slice has time for. At most
`MAX_HANDSHAKES` are under way; beyond that a new one takes the place of the oldest, if that is older than
`PATIENCE_MS`. A client has `HANDSHAKE_MS` from its arrival on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable

from ..clock import Clock
from ..security.listener_tls import ListenerTls
from ..security.principals import address_text
from ..timers import TimerHandle, Timers
from ..turns import keeper
from .connection import Connection
from .connection_limits import ConnectionLimits
from .first_bytes import HEADER_BYTES, HELLO, guess, record_bytes
from .line_limit import Rejections
from .tls_handshake import MAX_HANDSHAKE_BYTES, HandshakeTooLarge, TlsHandshake

MAX_HANDSHAKES = 200
HANDSHAKE_MS = 10_000
# An ordinary handshake takes some milliseconds, and a few round trips.
PATIENCE_MS = 1_000
# When the door looks for the rest of a ClientHello. It then waits twice as long: thousands of clients may send a byte.
_LOOK_AGAIN_MS = 20
# After an error of the system (no descriptors) the door rests.
_REST_MS = 1_000
# Kafka answers bytes that are no TLS with this alert (internal error), and closes after the delay.
_NO_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"

_log = logging.getLogger(__name__)


class _Arrival:
    """A connection that has been accepted and has not shaken hands."""

    def __init__(self, accepted: socket.socket, address: str, host: str) -> None:
        self.socket = accepted
        # HOST:PORT for the log, and the host as limits count it.
        self.address = address
        self.host = host
        self.since_ms = 0
        self.look_again_ms = _LOOK_AGAIN_MS
        self.deadline: TimerHandle | None = None
        self.again: TimerHandle | None = None
        self.handshake: asyncio.Task[None] | None = None


class TlsDoor:
    """The door of one listener. `connect` makes the protocol of a connection that was counted."""

    def __init__(
        self,
        name: str,
        tls: ListenerTls,
        connect: Callable[[], Connection],
        limits: ConnectionLimits,
        clock: Clock,
        timers: Timers,
        delay_ms: int,
    ) -> None:
        self._name = name
        self._tls = tls
        self._connect = connect
        self._limits = limits
        self._clock = clock
        self._timers = timers
        self._keeper = keeper()
        self._rejections = Rejections(clock, timers)
        self._delay_ms = delay_ms
        self._listening: list[socket.socket] = []
        # Bounded by max.connections and by the descriptors; in the order of their arrival.
        self._arrivals: dict[_Arrival, None] = {}
        self._ready: deque[_Arrival] = deque()
        self._under_way: dict[_Arrival, None] = {}
        self._turn_scheduled = False
        # When the oldest handshake has had its time, and another one may begin.
        self._patience: TimerHandle | None = None
        # The handshakes of `_under_way`, and those that are being cancelled.
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, bound: Iterable[socket.socket], backlog: int) -> None:
        """Accept the connections of these sockets, which are bound. Their owner keeps them."""
        loop = asyncio.get_running_loop()
        for each in bound:
            # The loop may know the descriptor of the owner already.
            own = socket.socket(each.family, each.type, each.proto, fileno=socket.dup(each.fileno()))
            own.setblocking(False)
            own.listen(backlog)
            self._listening.append(own)
            loop.add_reader(own, self._accept, own)

    @property
    def has_arrivals(self) -> bool:
        """Whether clients have connected that have not shaken hands."""
        return bool(self._arrivals)

    def stop(self) -> None:
        """Accept nothing more, and give up the handshakes."""
        loop = asyncio.get_running_loop()
        for each in self._listening:
            loop.remove_reader(each)
            each.close()
        self._listening.clear()
        for arrival in list(self._arrivals):
            self._drop(arrival)

    async def close(self) -> None:
        """Wait until the handshakes have ended. `stop` comes first."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- Accepting

    def _accept(self, listening: socket.socket) -> None:
        is_over = False
        while not is_over:
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            accepted.setblocking(False)
            self._take(_Arrival(accepted, f"{peer[0]}:{peer[1]}", address_text(str(peer[0]))))
            is_over = self._keeper.is_over

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a while: the system has no descriptor or no memory."""
        _log.error("listener %s: no connection can be accepted: %s", self._name, error.strerror or error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def go_on() -> None:
            if listening in self._listening:
                loop.add_reader(listening, self._accept, listening)

        self._timers.after(_REST_MS, go_on)

    def _take(self, arrival: _Arrival) -> None:
        exceeded = self._limits.acquire(arrival.host, arrival.socket.fileno(), self._name)
        if exceeded is not None:
            self._rejections.warn(_log, "%s: refused: %s", arrival.address, exceeded)
            arrival.socket.close()
            return
        self._arrivals[arrival] = None
        entry = self._limits.enter(self._name, arrival.host)
        if entry.rejection:
            self._rejections.warn(_log, "%s: refused: %s", arrival.address, entry.rejection)
            arrival.again = self._timers.after(entry.delay_ms, lambda: self._drop(arrival))
        elif entry.delay_ms:
            arrival.again = self._timers.after(entry.delay_ms, lambda: self._greet(arrival))
        else:
            self._greet(arrival)

    def _greet(self, arrival: _Arrival) -> None:
        arrival.deadline = self._timers.after(HANDSHAKE_MS, lambda: self._expire(arrival))
        self._await_bytes(arrival)

    # -- The first bytes

    def _await_bytes(self, arrival: _Arrival) -> None:
        arrival.again = None
        asyncio.get_running_loop().add_reader(arrival.socket, self._look, arrival)

    def _look(self, arrival: _Arrival) -> None:
        """Look at what has come, and leave it in the socket."""
        try:
            head = arrival.socket.recv(HEADER_BYTES, socket.MSG_PEEK)
            size = record_bytes(head)
            has_hello = size is not None and len(arrival.socket.recv(size, socket.MSG_PEEK)) == size
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            head, has_hello = b"", False
        asyncio.get_running_loop().remove_reader(arrival.socket)
        if not head:
            self._drop(arrival)
        elif head[0] != HELLO:
            self._refuse(arrival, head)
        elif has_hello:
            self._ready.append(arrival)
            self._schedule()
        else:
            arrival.again = self._timers.after(arrival.look_again_ms, lambda: self._await_bytes(arrival))
            arrival.look_again_ms *= 2

    def _refuse(self, arrival: _Arrival, head: bytes) -> None:
        """Tell a client that it does not speak TLS, and the log what it speaks."""
        what = guess(head)
        self._rejections.warn(
            _log, "%s: closed: %s on listener %s, which speaks TLS", arrival.address, what, self._name
        )
        try:
            arrival.socket.send(_NO_TLS_ALERT)
        except OSError:
            self._drop(arrival)
            return
        if arrival.deadline is not None:
            arrival.deadline.cancel()
        arrival.deadline = self._timers.after(self._delay_ms, lambda: self._drop(arrival))

    def _expire(self, arrival: _Arrival) -> None:
        self._rejections.warn(_log, "%s: closed: no TLS handshake in %d ms", arrival.address, HANDSHAKE_MS)
        self._drop(arrival)

    # -- Handshakes

    def _schedule(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._keeper.queue(self._begin_next)

    def _begin_next(self) -> bool:
        """Begin the next handshake, and return whether there may be another one to begin."""
        self._turn_scheduled = bool(self._ready) and self._has_room()
        if self._turn_scheduled:
            arrival = self._ready.popleft()
            if arrival in self._arrivals:
                self._under_way[arrival] = None
                arrival.since_ms = self._clock.monotonic_ms()
                self._begin(arrival)
        return self._turn_scheduled

    def _begin(self, arrival: _Arrival) -> None:
        connection = self._connect()
        arrival.handshake = asyncio.ensure_future(self._shake_hands(arrival, connection))
        self._tasks.add(arrival.handshake)

        # Not in the task, because one that is cancelled early never runs.
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            arrival.handshake = None
            self._forget(arrival, connection.is_adopted)

        arrival.handshake.add_done_callback(end)

    def _has_room(self) -> bool:
        """Return whether another handshake may begin. Where the oldest one may go on, a timer has a look again."""
        if len(self._under_way) < MAX_HANDSHAKES:
            return True
        oldest = next(iter(self._under_way))
        left_ms = oldest.since_ms + PATIENCE_MS - self._clock.monotonic_ms()
        if left_ms > 0:
            if self._patience is None:
                self._patience = self._timers.after(left_ms, self._lose_patience)
            return False
        self._rejections.warn(_log, "%s: closed: its TLS handshake takes too long, and others wait", oldest.address)
        del self._under_way[oldest]
        self._drop(oldest)
        return True

    def _lose_patience(self) -> None:
        self._patience = None
        self._schedule()

    async def _shake_hands(self, arrival: _Arrival, connection: Connection) -> None:
        handshake = TlsHandshake(self._keeper)
        try:
            await self._tls.refresh()
            await asyncio.get_running_loop().connect_accepted_socket(lambda: handshake, arrival.socket)
            await handshake.shake_hands(self._tls.context, connection, HANDSHAKE_MS / 1000)
        except HandshakeTooLarge:
            why = f"a TLS handshake of more than {MAX_HANDSHAKE_BYTES} bytes: the client shows too many certificates"
            self._rejections.warn(_log, "%s: closed: %s", arrival.address, why)
        except ssl.SSLError as error:
            self._rejections.warn(_log, "%s: closed: the TLS handshake failed: %s", arrival.address, _words(error))
        except OSError as error:
            _log.info("%s: closed in the TLS handshake: %s", arrival.address, error.strerror or error)

    def _forget(self, arrival: _Arrival, is_adopted: bool = False) -> None:
        """Forget an arrival. It no longer counts unless a processor has adopted its connection, which then does."""
        if arrival not in self._arrivals:
            return
        del self._arrivals[arrival]
        self._under_way.pop(arrival, None)
        for timer in (arrival.deadline, arrival.again):
            if timer is not None:
                timer.cancel()
        if not is_adopted:
            # The loop defers this where its transport still has the socket.
            self._limits.release(arrival.host)
            arrival.socket.close()
        if self._ready:
            self._schedule()

    def _drop(self, arrival: _Arrival) -> None:
        """Close a connection that has not shaken hands."""
        if arrival.handshake is not None:
            arrival.handshake.cancel()
            return
        if arrival.socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(arrival.socket)
        self._forget(arrival)


def _words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {error.verify_message}"
    return (error.reason or error.strerror or str(error)).replace("_", " ").lower()
