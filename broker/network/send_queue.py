"""The responses of one connection on their way to the socket, in order.

A response is a list of pieces: bytes, and ranges of files, which are read only when the socket takes them. A slow
client costs the broker what the socket did not take of one write, whatever it requested.

A range is read at once where the page cache gives all of it (`Disk.read_nowait`), and else in a thread: `sendfile`
would wait for the disk, and so would every client. What the socket does not take pauses the queue at once: the high
mark of the transport is 0.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

from ...storage.files import FileRange
from ..turns import keeper
from .connection_memory import ConnectionMemory

# A range of a file is read whole up to this size: one read, one write.
WHOLE_BYTES = 1024 * 1024
# A larger range goes in chunks that stay in the CPU's cache between read and write: the client takes one while the
# broker reads the next. Either size is what a client that stops reading can cost beyond the high mark.
CHUNK_BYTES = 256 * 1024
# What waits for a client counts as memory of responses from this size on.
UNCOUNTED_BYTES = 64 * 1024
# The transport gets responses when this many bytes have gathered, or when no further request can be handled now.
GATHER_BYTES = 256 * 1024

# One part of an encoded response.
Piece = bytes | bytearray | memoryview | FileRange
# Reads a range of a file in a thread. Raises StorageError.
ReadPiece = Callable[[FileRange], Coroutine[None, None, bytes]]
# An encoded response; None for a Produce request with acks=0, which gets no response.
EncodedResponse = list[Piece] | None


class SendQueue:
    """Pieces that wait for the transport, and whether it takes more.

    `read` reads a piece that is not in the page cache, in a thread. `on_progress` is called when such a piece was
    written, when others had their turn, and when there may be room in `memory`; `on_failure` when a piece could not be
    read, and `on_drop` when others need the memory that a client holds who does not read.
    """

    __slots__ = (
        "_memory",
        "_on_drop",
        "_on_failure",
        "_on_progress",
        "_pieces",
        "_read",
        "_transport",
        "_unread_bytes",
        "_yields",
        "gathered_bytes",
        "paused",
        "reading_file",
    )

    def __init__(
        self,
        read: ReadPiece,
        memory: ConnectionMemory,
        on_progress: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        on_drop: Callable[[str], None],
    ) -> None:
        self._read = read
        self._memory = memory
        self._on_drop = on_drop
        # What the transport held for the client at the last look.
        self._unread_bytes = 0
        self._on_progress = on_progress
        self._on_failure = on_failure
        # None before the connection is made and after it is lost.
        self._transport: asyncio.Transport | None = None
        # Others have their turn, then the queue goes on.
        self._yields = False
        self._pieces: deque[Piece] = deque()
        # What was added since the queue was last empty.
        self.gathered_bytes = 0
        # The socket takes no more.
        self.paused = False
        # A thread reads the next piece from disk; the pieces behind it wait.
        self.reading_file = False

    @property
    def empty(self) -> bool:
        return not self._pieces

    def open(self, transport: asyncio.Transport) -> None:
        """Send to `transport` from now on."""
        self._transport = transport
        # With TLS a transport pauses from its limit on: with 0 it would never go on.
        has_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(high=1 if has_tls else 0, low=0)

    def close(self) -> None:
        """Drop what was not sent: the connection is lost."""
        self._transport = None
        self._pieces.clear()
        self._memory.release(self)

    def add(self, response: list[Piece]) -> None:
        """Queue an encoded response; `send` sends it."""
        self._pieces.extend(response)
        self.gathered_bytes += sum(map(len, response))
        if self._transport is None:
            # Nobody reads it: no request behind this one is handled.
            self.paused = True
        elif self.paused:
            self._count()

    # -- Memory

    def pause(self) -> None:
        """Send no more: the socket is full."""
        self.paused = True
        self._count()

    def go_on(self) -> None:
        """Send again: the client has read what the transport had."""
        self.paused = False
        self._memory.release(self)

    def _count(self) -> None:
        """Count what waits for the client. Ranges of files take no memory before their turn."""
        assert self._transport is not None
        self._unread_bytes = self._transport.get_write_buffer_size()
        waiting = sum(len(each) for each in self._pieces if not isinstance(each, FileRange))
        if self._unread_bytes + waiting > UNCOUNTED_BYTES:
            self._memory.hold(self, self._unread_bytes + waiting)

    @property
    def is_stalled(self) -> bool:
        """Whether the client has read nothing since the last look."""
        before = self._unread_bytes
        if self._transport is not None:
            self._unread_bytes = self._transport.get_write_buffer_size()
        return self._unread_bytes == before

    def resume(self) -> None:
        """Handle the next request: there may be room for its response."""
        self._on_progress()

    def drop(self, why: str) -> None:
        """Close the connection, and give the memory of its responses back."""
        self._on_drop(why)
        self._memory.release(self)

    # -- Sending

    def send(self) -> None:
        """Write queued pieces until the socket takes no more."""
        transport, queue = self._transport, self._pieces
        if not queue or transport is None or self.reading_file:
            return
        pieces: list[bytes | bytearray | memoryview] = []
        size = 0
        while queue and not self.paused and not self._yields:
            piece = queue.popleft()
            if isinstance(piece, FileRange):
                if piece.size > WHOLE_BYTES:
                    piece = self._first_chunk(piece)
                data = piece.disk.read_nowait(piece.file, piece.size, piece.position)
                if data is None:
                    _write(transport, pieces, size)
                    self._read_from_disk(piece)
                    return
                piece = data
            elif len(piece) > WHOLE_BYTES:
                # The transport copies what the socket does not take: 90 MiB (a message set) held the loop for 170 ms.
                queue.appendleft(memoryview(piece)[WHOLE_BYTES:])
                piece = memoryview(piece)[:WHOLE_BYTES]
            pieces.append(piece)
            size += len(piece)
            if size >= GATHER_BYTES:
                _write(transport, pieces, size)
                pieces, size = [], 0
                self._yield()
        _write(transport, pieces, size)
        if not queue:
            self.gathered_bytes = 0

    def _yield(self) -> None:
        """Let others have their turn where the slice is over: a client may read as fast as the broker sends."""
        if self._pieces and keeper().is_over:
            self._yields = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._yields = False
        self._on_progress()

    def _first_chunk(self, piece: FileRange) -> FileRange:
        """Return the first chunk of a range; the rest goes back to the front of the queue."""
        rest = piece.position + CHUNK_BYTES, piece.size - CHUNK_BYTES
        self._pieces.appendleft(FileRange(piece.file, *rest, piece.disk))
        return FileRange(piece.file, piece.position, CHUNK_BYTES, piece.disk)

    def _read_from_disk(self, piece: FileRange) -> None:
        """Have a thread read what is not in the page cache; the event loop goes on."""
        self.reading_file = True
        asyncio.ensure_future(self._read(piece)).add_done_callback(self._write_from_disk)

    def _write_from_disk(self, future: asyncio.Future[bytes]) -> None:
        self.reading_file = False
        error = None if future.cancelled() else future.exception()
        if self._transport is None or future.cancelled():
            return
        if error is not None:
            self._on_failure(error)
            return
        self._transport.write(future.result())
        self._on_progress()


def _write(transport: asyncio.WriteTransport, pieces: list[bytes | bytearray | memoryview], size: int) -> None:
    """Hand pieces over: small ones in one buffer, large ones without a copy where uvloop is used.

    In Python 3.12 and 3.13, `writelines` of asyncio neither heeds the buffer's limit nor a connection that is lost.
    """
    if not pieces:
        return
    if len(pieces) == 1:
        transport.write(pieces[0])
    elif size < GATHER_BYTES or isinstance(transport, asyncio.Transport):
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)
