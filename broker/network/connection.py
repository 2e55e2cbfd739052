"""One client's connection: requests in, responses out, in order and within bounds.

A frame is 4 bytes of length and that many bytes of request. Small frames are handled in the processor's scratch buffer,
without a copy; a large one gets a buffer of its own (receive_buffer.py). The broker handles one request after the
other, as Kafka does. While one waits (a fetch for data, a join for the other members) the next ones stay in the buffer,
and once that is full reading pauses. While the client does not read its responses, the broker handles none of its
requests (send_queue.py). While all clients together have not read very much, it handles only requests whose responses
are small (connection_memory.py).

A handler may use the frame's memory only until it returns, and `keep` what it needs for longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from operator import methodcaller
from typing import Any, NamedTuple, Protocol, cast

from ..clock import Clock
from ..configs.endpoint import SecurityProtocol
from ..purgatory import Parked
from ..quotas.connection_rates import Entry
from ..security.principals import ANONYMOUS, Principal, address_text
from ..timers import Timers
from ..turns import Keeper
from .connection_memory import ConnectionMemory, has_small_response
from .first_bytes import guess
from .line_limit import Rejections
from .receive_buffer import LENGTH_BYTES, NO_POOL, BufferPool, ReceiveBuffer, frame_length
from .send_queue import GATHER_BYTES, EncodedResponse, ReadPiece, SendQueue
from .stranger_memory import StrangerMemory, TokenChecks

# How long a request of a user that was deleted may still wait, for data perhaps.
MAX_FAREWELL_MS = 1_000
# How the system writes an IPv4 address of a socket for IPv6.
MAPPED_IPV4 = "::ffff:"

_log = logging.getLogger(__name__)

# Handles one frame, without its length: the response, or what it is made of where the request waits.
Dispatch = Callable[["Connection", memoryview], "EncodedResponse | Pending"]


class CloseConnection(Exception):
    """Raised by dispatch where the protocol has no response: the connection is closed, with this line in the log."""


class Pending(NamedTuple):
    """A request that waits for `future`, which may fail."""

    future: asyncio.Future[Any]
    # Makes the encoded response of the future once it is done, or says what the request waits for then. Raises
    # CloseConnection.
    finish: Callable[[asyncio.Future[Any]], EncodedResponse | Pending] = methodcaller("result")
    # Whether the request is carried out also where the client closes before.
    goes_on: bool = False


class Bounds(NamedTuple):
    """How large a request may be, and how long a connection may be idle."""

    max_request_bytes: int  # socket.request.max.bytes
    max_idle_ms: int  # connections.max.idle.ms, negative: no limit


class Listener(NamedTuple):
    """The listener that accepted a connection."""

    name: str
    # The host and port of advertised.listeners; None where a client is told the address that it connected to.
    advertised: tuple[str, int] | None = None
    # The host of the listener, which clients are told as it was given; None: every interface.
    host: str | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    # Has a new connection log in before anything else (login.py).
    login: Callable[[Connection], None] | None = None
    # Returns the principal of a client by the certificate that it has shown, where that is who it is. Raises Unmapped.
    identify: Callable[[bytes | None], Principal] | None = None


class Owner(Protocol):
    """What a connection needs of the processor that owns it."""

    dispatch: Dispatch
    bounds: Bounds
    clock: Clock
    timers: Timers
    # Says how long a connection handles requests before others get their turn.
    keeper: Keeper
    rejections: Rejections
    # The buffer that all connections of a processor read into; each empties it before the next read.
    scratch: memoryview
    buffers: BufferPool
    requests: ConnectionMemory
    strangers: StrangerMemory
    token_checks: TokenChecks
    responses: ConnectionMemory
    read_piece: ReadPiece
    # Requests that wait, kept so that none is collected while it runs.
    waiting: set[asyncio.Future[Any]]

    def adopt(self, connection: Connection) -> bool:
        """Take a new connection over; False refuses it."""
        ...

    def forget(self, connection: Connection) -> None:
        """Drop a connection that is closed."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One client's connection, owned by a processor."""

    def __init__(self, owner: Owner, listener: Listener, is_counted: bool = False) -> None:
        """`is_counted`: the limits on connections have let it in already."""
        self.is_counted = is_counted
        self.is_adopted = False
        self.listener = listener
        self.name = "?"
        # Who the client is. SASL and TLS change it when the client has proved that it is somebody.
        self.principal = ANONYMOUS
        # The mechanism of SASL by which it did.
        self.mechanism = ""
        # What stands before dispatch while the client logs in, and while its session has an end.
        self.login: Dispatch | None = None
        # A client has little memory and little of the loop's time until it has logged in, where it must.
        self.is_stranger = listener.login is not None
        self.most_request_bytes = owner.bounds.max_request_bytes
        self.client_host = ""
        # The number of its socket in this process.
        self.descriptor = -1
        # The host and port that this client is told to connect to.
        self.advertised_address = ("", 0)
        self.last_active_ms = 0
        # What is called when the connection is closed, by what it is about.
        self.at_close: dict[Hashable, Callable[[], None]] = {}
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        memory = owner.strangers if self.is_stranger else owner.requests
        self._received = ReceiveBuffer(NO_POOL if self.is_stranger else owner.buffers, memory, self)
        self._responses = SendQueue(
            owner.read_piece,
            owner.responses,
            on_progress=self.resume,
            on_failure=self._response_unreadable,
            on_drop=self.drop,
        )
        # Invariant: at most one request of a connection waits; the broker responds to it before it handles a later one.
        self._waiting: Pending | None = None
        # How long no request is handled after the response to the one under way.
        self.muted_ms = 0
        # What `_waiting` waits for while none is handled, although none waits.
        self._muted: asyncio.Future[EncodedResponse] | None = None
        # Behind TLS, requests may come in the turn before the one that makes the connection.
        self._queued = is_counted
        # The bytes that the next read may bring.
        self._room = 0
        self._read_paused = False
        self._stopping = False
        self._closed = False

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a line in the JSON log that is about this connection."""
        return {"connection": self.name, "listener": self.listener.name}

    @property
    def token_checks(self) -> TokenChecks:
        """The tokens of all clients that threads check."""
        return self._owner.token_checks

    @property
    def waits(self) -> bool:
        """Whether the client waits for the broker: for an event, or for the disk."""
        return self._waiting is not None or self._responses.reading_file

    @property
    def is_stalled(self) -> bool:
        """Whether the client has still to send the rest of a request, and the broker reads."""
        return self._received.data is not None and not self.busy and not self._read_paused

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be in a moment."""
        return self._transport is None or self._transport.is_closing()

    @property
    def busy(self) -> bool:
        """Whether a request waits, or responses are not all written."""
        return self.waits or not self._responses.empty or self._responses.paused

    def keep(self, frame: memoryview) -> memoryview:
        """Return the bytes of the frame under way, or of a batch in it, until its response. Only for one that waits."""
        return self._received.lend(frame)

    def note_kept(self, size: int) -> None:
        """Count bytes of the request under way that were copied, until its response. Only for one that waits."""
        self._received.note_kept(size)

    # -- Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._responses.open(self._transport)
        peer = transport.get_extra_info("peername") or ("", 0)
        local = transport.get_extra_info("sockname") or ("", 0)
        self.client_host = address_text(str(peer[0]))
        # A socket for both has IPv4 addresses as `::ffff:127.0.0.1`, which clients of IPv4 cannot reach.
        peer_host, local_host = (str(each[0]).removeprefix(MAPPED_IPV4) for each in (peer, local))
        self.advertised_address = self.listener.advertised or (self.listener.host or local_host, int(local[1]))
        self.name = f"{peer_host}:{peer[1]}"
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.last_active_ms = self._owner.clock.monotonic_ms()
        self.is_adopted = self._owner.adopt(self)
        if not self.is_adopted or not self._identify(transport):
            self._stopping = True
            self._transport.abort()
        elif self.listener.login is not None:
            self.listener.login(self)
        if self._queued:
            self.take_turn()

    def let_in(self, principal: Principal, mechanism: str) -> None:
        """Let a client that has logged in send any request."""
        self.principal, self.mechanism, self.login = principal, mechanism, None
        self.most_request_bytes = self._owner.bounds.max_request_bytes
        if self.is_stranger:
            self.is_stranger = False
            self._received.move(self._owner.buffers, self._owner.requests)

    def _identify(self, transport: asyncio.BaseTransport) -> bool:
        """Take the principal of the client's certificate. False: no rule makes one of it."""
        if self.listener.identify is None:
            return True
        from ..security.listener_tls import Unmapped  # where there is TLS

        try:
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self.principal = self.listener.identify(certificate)
        except Unmapped as error:
            self._warn(error)
            return False
        return True

    def get_buffer(self, sizehint: int) -> memoryview:
        received = self._received
        if received.data is None:
            scratch = self._owner.scratch
            buffer = scratch[: StrangerMemory.uncounted_bytes] if self.is_stranger else scratch
        else:
            buffer = memoryview(received.data)[received.filled : received.room_end]
        self._room = len(buffer)
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ms = self._owner.clock.monotonic_ms()
        if self._received.data is None:
            scratch = self._owner.scratch
            used = self._take_frames(scratch, 0, nbytes)
            if used < nbytes:
                self._keep(scratch[used:nbytes])
        else:
            self._received.filled += nbytes
            self._take_kept_frames()
        self._responses.send()
        if nbytes == self._room:
            # More may have arrived, which uvloop would read in this turn, up to 32 times: some 20 MB of large batches.
            self._set_reading(False)
            self._queue_up()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._responses.pause()

    def resume_writing(self) -> None:
        self._responses.go_on()
        self.last_active_ms = self._owner.clock.monotonic_ms()
        self.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        # The two hold each other. Python's collector may look for such a pair only hours later, for it does not see
        # the hundreds of KiB that a transport with TLS has outside of Python.
        self._transport = None
        self._responses.close()
        # What the client sent before it closed is handled, up to the first request that has a response, as in Kafka: a
        # producer with acks=0 may close as soon as it has sent its last batch.
        if not self._goes_on:
            self.resume()

    @property
    def _goes_on(self) -> bool:
        """Whether there is something to do for a client that is gone."""
        if self._waiting is not None:
            return self._waiting.goes_on or self._waiting.future is self._muted
        return self._queued and not self._stopping and not self.is_stranger

    def _end(self) -> None:
        """Forget everything: the connection is lost, and nothing more is done for it."""
        if self._closed:
            return
        self._closed = True
        self._received.discard()
        self.token_checks.leave(self.take_turn)
        if self._waiting is not None:
            self._waiting.future.cancel()
            self._waiting = None
        for close in list(self.at_close.values()):
            close()
        self._owner.forget(self)

    # -- Called by the processor

    def resume(self) -> None:
        """Go on with what was received: after others had their turn, a response was made, or the client read."""
        if self._closed:
            return
        self._responses.send()
        if self._received.data is not None:
            self._take_kept_frames()
            self._responses.send()
        elif self._read_paused:
            self._set_reading(True)
        self._close_if_done()

    def stop_reading(self) -> None:
        """Handle no further request."""
        self._stopping = True
        self._set_reading(False)

    def refuse(self, why: str) -> None:
        """Say in the log why the connection closes behind its next response, and read nothing more."""
        self._warn(why)
        self.stop_reading()

    def close_when_answered(self) -> None:
        """Close as soon as the responses under way are written."""
        self._stopping = True
        if self._muted is not None:
            self._muted.cancel()
        self._close_if_done()

    def end_session(self) -> None:
        """Close because the client's user is gone: behind the response under way, at the latest after a second."""
        _log.info("%s: closed: %s was deleted", self.name, self.principal, extra=self.log_fields)
        self._owner.timers.after(MAX_FAREWELL_MS, self.abort)
        self.stop_reading()
        self.close_when_answered()

    def abort(self) -> None:
        """Close now; responses that are not yet written are lost."""
        if self._transport is None:
            self._end()
        else:
            self._transport.abort()

    def mute(self, delay_ms: int) -> None:
        """Handle no further request for so long after the response to the one under way, which is sent at once."""
        self.muted_ms = max(self.muted_ms, delay_ms)

    def _rest(self, comes_back: bool = True) -> None:
        """Begin the time of `mute`, after which the connection `comes_back` or closes. It ends early with this one."""
        delay_ms, self.muted_ms = self.muted_ms, 0
        future: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()

        def end() -> None:
            if not future.done():
                future.set_result(None) if comes_back else future.cancel()

        timer = self._owner.timers.after(delay_ms, end)
        future.add_done_callback(lambda _: timer.cancel())
        self._muted = future
        self._wait(Pending(future))

    def enter(self, entry: Entry) -> None:
        """Come in, which may be later, or not at all."""
        if entry.rejection:
            self._owner.rejections.warn(_log, "%s: refused: %s", self.name, entry.rejection, extra=self.log_fields)
        if entry.delay_ms or entry.rejection:
            self.muted_ms = entry.delay_ms
            self._rest(comes_back=not entry.rejection)

    def drop(self, why: str) -> None:
        """Close the connection, although a request is still arriving, or a response is not read."""
        self._warn(why)
        self.abort()
        self._received.discard()

    # -- Requests in

    def _take_frames(self, buffer: memoryview, position: int, end: int) -> int:
        """Handle the whole frames in buffer[position:end]; return the position of the first unhandled byte.

        Of many it handles what one slice of the loop's turn has time for, at least one.
        """
        if self._queued:
            return position
        limit, owner = self.most_request_bytes, self._owner
        responses, unread = self._responses, owner.responses
        clock, ends_ns, is_first = owner.keeper.clock, 0, True
        while end - position >= LENGTH_BYTES and not self._stopping:
            size = frame_length(buffer, position)[0]
            if not 0 < size <= limit:
                self._reject(buffer, position, size, limit)
                return end
            start = position + LENGTH_BYTES
            if end - start < size or self._waiting is not None or responses.paused or responses.reading_file:
                break
            if unread.is_full and not has_small_response(buffer, start, size):
                unread.wait(responses)
                break
            if ends_ns:
                if clock() >= ends_ns:
                    self._queue_up()
                    break
            elif is_first:
                # It is often the only one, and needs no clock.
                is_first = False
            else:
                ends_ns = owner.keeper.slice_end()
            if self.is_stranger and not self._has_turn(size):
                break
            position = start + size
            if not self._handle(buffer[start:position]):
                return end
            if responses.gathered_bytes >= GATHER_BYTES:
                responses.send()
        return position

    def _take_kept_frames(self) -> None:
        """Handle the whole frames in the receive buffer."""
        received = self._received
        assert received.data is not None
        received.start = self._take_frames(memoryview(received.data), received.start, received.filled)
        if self._closed:
            return
        if received.start < received.filled:
            self._set_reading(received.make_room())
        else:
            received.release(is_waiting=self._waiting is not None and self._waiting.future is not self._muted)
            self._set_reading(True)

    def _keep(self, rest: memoryview) -> None:
        """Copy the unhandled bytes out of the scratch buffer, which other connections need."""
        if self._closed or self._stopping:
            return
        self._received.keep(rest)
        self._set_reading(self._received.make_room())

    def _reject(self, buffer: memoryview, position: int, size: int, limit: int) -> None:
        """Close a connection whose client announced an impossible length."""
        start = bytes(buffer[position : position + 4])
        why = f"announces a frame of {size} bytes; 1 to {limit} are allowed"
        if 0 < start[0] < 0x80:
            why += f" ({guess(start)}? listener {self.listener.name} speaks {self.listener.protocol})"
        self._close_because(why)

    # -- Responses out

    def _handle(self, frame: memoryview) -> bool:
        """Handle one request; False if the connection was closed instead."""
        try:
            response = (self.login or self._owner.dispatch)(self, frame)
        except CloseConnection as why:
            self._close_because(why)
            return False
        if isinstance(response, list):
            self._responses.add(response)
        elif response is not None:
            self._wait(response)
            return True
        if self.muted_ms:
            self._rest()
        return True

    def _wait(self, pending: Pending) -> None:
        """Handle no further request before this one has its response."""
        self._waiting = pending
        future = pending.future
        self._owner.waiting.add(future)
        if isinstance(future, Parked):
            future.then = self._responded
        else:
            future.add_done_callback(self._responded)

    def _responded(self, future: asyncio.Future[Any]) -> None:
        """Send the response of a request that waited, and go on with the next request."""
        self._owner.waiting.discard(future)
        pending = self._waiting
        if self._closed or pending is None or pending.future is not future:
            if not future.cancelled():
                future.exception()  # asyncio would log an exception that nobody looked at
            return
        self._waiting = None
        if future.cancelled():
            self._close()
            return
        try:
            response = pending.finish(future)
        except Exception as why:  # noqa: BLE001 - closes the connection, and is logged
            self._close_because(why)
            return
        if isinstance(response, Pending):
            self._wait(response)
            self._close_if_done()
            return
        self._received.settle()
        self.last_active_ms = self._owner.clock.monotonic_ms()
        if response is not None:
            self._responses.add(response)
        if self.muted_ms:
            self._rest()
        self.resume()

    def _response_unreadable(self, error: BaseException) -> None:
        """Close the connection: a part of a response could not be read from disk."""
        _log.error("%s: closed: a response could not be read from disk: %s", self.name, error, extra=self.log_fields)
        self._close()

    # -- Flow control and the end

    def _queue_up(self) -> None:
        if not self._queued:
            self._queued = True
            self._owner.keeper.queue(self.take_turn)

    def take_turn(self) -> None:
        """Go on after others had their turns."""
        self._queued = False
        self.resume()

    def _has_turn(self, size: int) -> bool:
        """Return whether a client that has not logged in may go on now. If not, it does in a later turn."""
        owner = self._owner
        if owner.keeper.is_over:
            self._queue_up()
        elif not owner.token_checks.have_room(size):
            self._queued = True
            owner.token_checks.wait(self.take_turn)
        return not self._queued

    def _set_reading(self, reading: bool) -> None:
        """Resume or pause reading. A connection that handles no further request stays paused."""
        transport = self._transport
        if reading is not self._read_paused or transport is None or transport.is_closing():
            return
        if not reading:
            self._read_paused = True
            transport.pause_reading()
        elif not self._stopping:
            self._read_paused = False
            transport.resume_reading()

    def _close_if_done(self) -> None:
        if self._transport is None:
            if not self._goes_on:
                self._end()
        elif self._stopping and not self.busy:
            self._close()

    def _warn(self, why: object) -> None:
        """Say in the log why the connection is closed."""
        self._owner.rejections.warn(_log, "%s: closed: %s", self.name, why, extra=self.log_fields)

    def _close_because(self, why: object) -> None:
        self._warn(why)
        self._close()

    def _close(self) -> None:
        """Close after the transport has written what it holds."""
        self._stopping = True
        self._responses.send()
        self._received.discard()
        if self._transport is None:
            self._end()
        else:
            self._transport.close()
