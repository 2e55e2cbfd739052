"""The responses of one connection on their way to the socket, in order.

A response is a list of pieces: bytes, and ranges of files, which are read only when the socket takes them. A slow
client costs the broker the transport's high mark and one chunk of a file, whatever it requested.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

from ...storage.files import FileRange

# A range of a file is read whole up to this size: one read, one write.
WHOLE_BYTES = 1024 * 1024
# A larger range goes in chunks that stay in the CPU's cache between read and write: the client takes one while the
# broker reads the next. Either size is what a client that stops reading can cost beyond the high mark.
CHUNK_BYTES = 256 * 1024
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
    written, `on_failure` when it could not be read.
    """

    __slots__ = (
        "_on_failure",
        "_on_progress",
        "_pieces",
        "_read",
        "_transport",
        "gathered_bytes",
        "paused",
        "reading_file",
    )

    def __init__(
        self,
        read: ReadPiece,
        on_progress: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._read = read
        self._on_progress = on_progress
        self._on_failure = on_failure
        # None before the connection is made and after it is lost.
        self._transport: asyncio.Transport | None = None
        self._pieces: deque[Piece] = deque()
        # What was added since the queue was last empty.
        self.gathered_bytes = 0
        # The transport holds more than its high mark.
        self.paused = False
        # A thread reads the next piece from disk; the pieces behind it wait.
        self.reading_file = False

    @property
    def empty(self) -> bool:
        return not self._pieces

    def open(self, transport: asyncio.Transport) -> None:
        """Send to `transport` from now on."""
        self._transport = transport

    def close(self) -> None:
        """Drop what was not sent: the connection is lost."""
        self._transport = None
        self._pieces.clear()

    def add(self, response: list[Piece]) -> None:
        """Queue an encoded response; `send` sends it."""
        self._pieces.extend(response)
        self.gathered_bytes += sum(map(len, response))

    def send(self) -> None:
        """Write queued pieces until the transport holds enough."""
        transport, queue = self._transport, self._pieces
        if not queue or transport is None or self.reading_file:
            return
        pieces: list[bytes | bytearray | memoryview] = []
        size = 0
        while queue and not self.paused:
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
            pieces.append(piece)
            size += len(piece)
            if size >= GATHER_BYTES:
                _write(transport, pieces, size)
                pieces, size = [], 0
        _write(transport, pieces, size)
        if not queue:
            self.gathered_bytes = 0

    def _first_chunk(self, piece: FileRange) -> FileRange:
        """Return the first chunk of a large range; the rest goes back to the front of the queue."""
        rest = FileRange(piece.file, piece.position + CHUNK_BYTES, len(piece) - CHUNK_BYTES, piece.disk)
        self._pieces.appendleft(rest)
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


def _write(transport: asyncio.Transport, pieces: list[bytes | bytearray | memoryview], size: int) -> None:
    """Hand pieces over: small ones in one buffer, large ones without a copy."""
    if not pieces:
        return
    if len(pieces) == 1:
        transport.write(pieces[0])
    elif size < GATHER_BYTES:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)
