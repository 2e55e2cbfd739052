"""One client's connection: frames in, answers out, in order, within bounds.

A frame is 4 bytes of length and that many bytes of request. Small frames are read, many at a time, into the
processor's scratch and answered from there without a copy; a large one is received straight into a buffer of its
size, which grows with the bytes that came, never with the length that was announced. Requests are answered one after
the other, as Kafka does: while one waits (a fetch for data, a join for the others) the next ones stay in the buffer,
and once that is full reading pauses. While the client does not read its answers, none of its requests is
taken up: a slow reader costs the transport's high mark and one chunk of a file, whatever it asked for.

A handler may use the frame's memory only until it returns.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, cast

from ...storage.files import FileRange

if TYPE_CHECKING:
    from .processor import Processor

# Requests answered in one turn before others get theirs: about a millisecond of work.
FRAMES_PER_TURN = 64
# A range of a file is read whole up to this size: one read, one write.
WHOLE_BYTES = 1024 * 1024
# A larger one goes in pieces that stay in the CPU's cache between read and write: the client takes one while the next
# is read. Either is what a client that stops reading can cost beyond the high mark.
CHUNK_BYTES = 256 * 1024
# Answers are handed to the transport when this much has gathered, or when nothing more can be answered now.
GATHER_BYTES = 256 * 1024
# The transport calls `pause_writing` above the high mark and `resume_writing` below the low one.
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 512 * 1024
# The first buffer for a frame that did not come whole, and by how much it grows when bytes have filled it.
FIRST_BUFFER_BYTES = 64 * 1024
BUFFER_GROWTH = 4

_LENGTH = Struct(">i")
_log = logging.getLogger(__name__)

Piece = bytes | bytearray | memoryview | FileRange
Answer = list[Piece] | None
# Takes a frame without its length; None: nothing is to be sent (acks=0).
Dispatch = Callable[["Connection", memoryview], "Answer | asyncio.Future[Answer]"]


class CloseConnection(Exception):
    """Raised by dispatch where the protocol has no answer: the connection is closed, with this line in the log."""


@dataclass(slots=True, frozen=True)
class Limits:
    """What a connection may cost."""

    max_request_bytes: int  # socket.request.max.bytes
    max_idle_ms: int  # connections.max.idle.ms, negative: no limit


class Connection(asyncio.BufferedProtocol):
    """See the module's text."""

    def __init__(self, processor: "Processor", listener: str) -> None:
        self.listener = listener
        self.name = "?"
        self.client_host = ""
        self.local_address = ("", 0)
        self.last_active_ms = 0
        self._processor = processor
        self._transport: asyncio.Transport | None = None
        # Bytes received and not yet answered, from `_start` to `_filled`; None while the scratch is enough.
        self._inbox: bytearray | None = None
        self._start = 0
        self._filled = 0
        self._room_end = 0
        self._outbox: deque[Piece] = deque()
        self._gathered_bytes = 0
        # Invariant: at most one request of a connection waits; its answer comes before any later one is taken up.
        self._waiting: asyncio.Future[Answer] | None = None
        self._reading_file = False
        self._queued = False
        self._write_paused = False
        self._read_paused = False
        self._stopping = False
        self._closed = False

    @property
    def waits(self) -> bool:
        """The client waits for us: for an event, or for the disk."""
        return self._waiting is not None or self._reading_file

    @property
    def busy(self) -> bool:
        """A request waits, or answers are not all written."""
        return self.waits or bool(self._outbox) or self._write_paused

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        local = transport.get_extra_info("sockname") or ("", 0)
        self.client_host = str(peer[0])
        self.local_address = (str(local[0]), int(local[1]))
        self.name = f"{peer[0]}:{peer[1]}"
        self.last_active_ms = self._processor.clock.monotonic_ms()
        if not self._processor.adopt(self):
            self._stopping = True
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._inbox is None:
            return self._processor.scratch
        return memoryview(self._inbox)[self._filled : self._room_end]

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ms = self._processor.clock.monotonic_ms()
        if self._inbox is None:
            scratch = self._processor.scratch
            used = self._take_frames(scratch, 0, nbytes)
            if used < nbytes:
                self._keep(scratch[used:nbytes])
        else:
            self._filled += nbytes
            self._take_from_inbox()
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.last_active_ms = self._processor.clock.monotonic_ms()
        self.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._outbox.clear()
        self._inbox = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._processor.forget(self)

    # Called by the processor.

    def resume(self) -> None:
        """Goes on with what was received: a turn came, an answer was written, or the client reads again."""
        self._queued = False
        if self._closed:
            return
        self._pump()
        if self._inbox is not None:
            self._take_from_inbox()
            self._pump()
        self._close_if_done()

    def stop_reading(self) -> None:
        """Takes up no further request."""
        self._stopping = True
        self._pause_reading()

    def close_when_answered(self) -> None:
        """Closes as soon as the answers under way are written."""
        self._stopping = True
        self._close_if_done()

    def abort(self) -> None:
        """Closes now; answers not yet written are lost."""
        if self._transport is not None and not self._closed:
            self._transport.abort()

    # Frames in.

    def _take_frames(self, buffer: memoryview, position: int, end: int) -> int:
        """Answers the whole frames in buffer[position:end]; returns where the first unanswered byte stands."""
        limit = self._processor.limits.max_request_bytes
        turns = FRAMES_PER_TURN
        while end - position >= 4 and not self._stopping:
            size = _LENGTH.unpack_from(buffer, position)[0]
            if not 0 < size <= limit:
                self._reject(buffer, position, size, limit)
                return end
            if end - position - 4 < size or self._waiting is not None or self._write_paused or self._reading_file:
                break
            if turns == 0:
                self._queue_up()
                break
            turns -= 1
            start = position + 4
            position = start + size
            if not self._answer(buffer[start:position]):
                return end
            if self._gathered_bytes >= GATHER_BYTES:
                self._pump()
        return position

    def _take_from_inbox(self) -> None:
        inbox = self._inbox
        assert inbox is not None
        self._start = self._take_frames(memoryview(inbox), self._start, self._filled)
        if self._closed:
            return
        if self._start < self._filled:
            self._make_room()
            return
        self._inbox = None
        self._processor.buffers.give(inbox)
        self._resume_reading()

    def _keep(self, rest: memoryview) -> None:
        """The scratch is needed for others: takes what is left of it along."""
        if self._closed or self._stopping:
            return
        self._place(rest)
        self._make_room()

    def _make_room(self) -> None:
        """Finds place for the rest of the first frame. If it is whole and cannot be answered yet, reading goes on
        while the first buffer lasts, so that a client that leaves meanwhile is noticed, and then pauses.
        """
        inbox = self._inbox
        assert inbox is not None
        need = _frame_bytes(inbox, self._start, self._filled)
        if self._filled - self._start >= need:
            self._room_end = min(len(inbox), FIRST_BUFFER_BYTES)
            if self._filled < self._room_end:
                self._resume_reading()
            else:
                self._pause_reading()
            return
        if self._filled == len(inbox):
            self._place(memoryview(inbox)[self._start : self._filled])
            self._processor.buffers.give(inbox)
        # A large frame is read to its end and not beyond, so that it needs no move and its buffer is free after it.
        room = len(cast(bytearray, self._inbox))
        self._room_end = min(room, self._start + need) if need > FIRST_BUFFER_BYTES else room
        self._resume_reading()

    def _place(self, data: memoryview) -> None:
        """Moves `data` into a buffer that grows with the bytes that came, not with the length that was announced."""
        have = len(data)
        need = _frame_bytes(data, 0, have)
        grown = max(have, FIRST_BUFFER_BYTES, min(need, have * BUFFER_GROWTH))
        inbox = self._processor.buffers.take(max(have, need), grown)
        inbox[:have] = data
        self._inbox, self._start, self._filled = inbox, 0, have

    def _reject(self, buffer: memoryview, position: int, size: int, limit: int) -> None:
        start = bytes(buffer[position : position + 4])
        hint = ""
        if start[:1] == b"\x16":
            hint = " (a TLS client? this listener speaks PLAINTEXT)"
        elif start in (b"GET ", b"POST", b"HEAD", b"PUT "):
            hint = " (an HTTP client?)"
        _log.warning("%s: closed: a frame of %d bytes announced, allowed are 1 to %d%s", self.name, size, limit, hint)
        self._close()

    # Answers out.

    def _answer(self, frame: memoryview) -> bool:
        """Has the frame answered; False if the connection was closed instead."""
        try:
            answer = self._processor.dispatch(self, frame)
        except CloseConnection as why:
            _log.warning("%s: closed: %s", self.name, why)
            self._close()
            return False
        if answer is None:
            return True
        if isinstance(answer, list):
            self._gather(answer)
            return True
        self._waiting = answer
        self._processor.tasks.add(cast("asyncio.Future[object]", answer))
        answer.add_done_callback(self._answered)
        return True

    def _answered(self, future: "asyncio.Future[Answer]") -> None:
        self._processor.tasks.discard(cast("asyncio.Future[object]", future))
        if self._closed or self._waiting is not future:
            if not future.cancelled():
                future.exception()  # seen: nobody is left to be told
            return
        self._waiting = None
        self.last_active_ms = self._processor.clock.monotonic_ms()
        if future.cancelled():
            self._close()
            return
        error = future.exception()
        if error is not None:
            _log.warning("%s: closed: %s", self.name, error)
            self._close()
            return
        answer = future.result()
        if answer is not None:
            self._gather(answer)
        self.resume()

    def _gather(self, answer: list[Piece]) -> None:
        self._outbox.extend(answer)
        self._gathered_bytes += sum(map(len, answer))

    def _pump(self) -> None:
        """Writes what has gathered until the transport has enough of it."""
        transport, outbox = self._transport, self._outbox
        if not outbox or transport is None or self._closed or self._reading_file:
            return
        pieces: list[bytes | bytearray | memoryview] = []
        size = 0
        while outbox and not self._write_paused:
            piece = outbox.popleft()
            if isinstance(piece, FileRange):
                if len(piece) > WHOLE_BYTES:
                    outbox.appendleft(
                        FileRange(piece.file, piece.position + CHUNK_BYTES, len(piece) - CHUNK_BYTES, piece.disk)
                    )
                    piece = FileRange(piece.file, piece.position, CHUNK_BYTES, piece.disk)
                data = piece.read_nowait()
                if data is None:
                    self._write(transport, pieces, size)
                    self._read_cold(piece)
                    return
                piece = data
            pieces.append(piece)
            size += len(piece)
            if size >= GATHER_BYTES:
                self._write(transport, pieces, size)
                pieces, size = [], 0
        self._write(transport, pieces, size)
        if not outbox:
            self._gathered_bytes = 0

    def _write(self, transport: asyncio.Transport, pieces: list[bytes | bytearray | memoryview], size: int) -> None:
        if not pieces:
            return
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif size < GATHER_BYTES:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)

    def _read_cold(self, piece: FileRange) -> None:
        """The disk must be asked: a thread does, the loop goes on, and the answer follows in its order."""
        self._reading_file = True
        future = asyncio.get_running_loop().run_in_executor(None, piece.read)
        future.add_done_callback(self._cold_read)

    def _cold_read(self, future: "asyncio.Future[bytes]") -> None:
        self._reading_file = False
        if self._closed or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            _log.error("%s: closed: an answer could not be read from disk: %s", self.name, error)
            self._close()
            return
        cast(asyncio.Transport, self._transport).write(future.result())
        self.resume()

    # Flow control and the end.

    def _queue_up(self) -> None:
        if not self._queued:
            self._queued = True
            self._processor.continue_later(self)

    def _pause_reading(self) -> None:
        if not self._read_paused and self._transport is not None and not self._transport.is_closing():
            self._read_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if (
            self._read_paused
            and not self._stopping
            and self._transport is not None
            and not self._transport.is_closing()
        ):
            self._read_paused = False
            self._transport.resume_reading()

    def _close_if_done(self) -> None:
        if self._stopping and not self.busy:
            self._close()

    def _close(self) -> None:
        """Closes after what can be written is written."""
        self._stopping = True
        self._pump()
        self._inbox = None
        if self._transport is not None and not self._closed:
            self._transport.close()


def _frame_bytes(buffer: bytearray | memoryview, start: int, end: int) -> int:
    """The length of the frame that begins at `start`, its own four bytes included; those four if not even they are
    there.
    """
    return 4 + _LENGTH.unpack_from(buffer, start)[0] if end - start >= 4 else 4
