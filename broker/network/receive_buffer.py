"""The bytes that a connection received and has not handled yet.

Small frames are read, many at a time, into the processor's scratch buffer, and need nothing of this. A frame that did
not arrive whole is copied into a buffer of its own, which grows with the bytes that arrived, never with the length that
the client announced.

A frame of more than `POOLED_BYTES` gets a mapping of its whole length, whose pages the kernel provides as bytes arrive.
It is not copied again: to move tens of MiB would hold the event loop.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct

from .connection_memory import ConnectionMemory, Holder

# One read takes at most this much. It is large enough to take all small requests that wait in a socket at once.
SCRATCH_BYTES = 256 * 1024
# The factor by which a full buffer grows.
BUFFER_GROWTH = 4
# The number of bytes in front of each frame that hold its length.
LENGTH_BYTES = 4
# A processor keeps this many buffers for the next large frames, none larger than `POOLED_BYTES`: at most 16 MiB,
# however large its requests were. The bytes of a larger frame belong to its handler for as long as it keeps them.
_POOLED_BUFFERS = 4
POOLED_BYTES = 4 * 1024 * 1024

_LENGTH = Struct(">i")
frame_length = _LENGTH.unpack_from

Room = bytearray | mmap


class BufferPool:
    """A few used receive buffers. Reusing one is free, because its memory is already mapped."""

    def __init__(self, most: int = _POOLED_BUFFERS) -> None:
        self._most = most
        self._free: list[bytearray] = []

    def take(self, at_least_bytes: int, otherwise_bytes: int) -> bytearray:
        """Return a kept buffer of at least `at_least_bytes`, or a new one of `otherwise_bytes`."""
        for index, buffer in enumerate(self._free):
            if len(buffer) >= at_least_bytes:
                return self._free.pop(index)
        return bytearray(otherwise_bytes)

    def give(self, buffer: Room) -> None:
        """Take a buffer back. One that is too large, or one too many, is freed."""
        if isinstance(buffer, mmap) or not SCRATCH_BYTES < len(buffer) <= POOLED_BYTES:
            return
        if len(self._free) < self._most:
            self._free.append(buffer)


# Keeps no buffer: those of clients that have not logged in are small.
NO_POOL = BufferPool(0)


class ReceiveBuffer:
    """The unhandled bytes of one connection: `data[start:filled]`."""

    __slots__ = ("_holder", "_lent_bytes", "_memory", "_pool", "_usable", "data", "filled", "room_end", "start")

    def __init__(self, pool: BufferPool, memory: ConnectionMemory, holder: Holder) -> None:
        """Begin with the buffer that `memory` does not count. Larger ones count in it for `holder`."""
        self._pool = pool
        self._memory = memory
        self._holder = holder
        # None while the scratch buffer is enough.
        self.data: Room | None = None
        self.start = 0
        self.filled = 0
        # How much of `data` may be filled: all of a bytearray, of a mapping what is counted.
        self._usable = 0
        # The size of the copies that were made for the handler of the waiting request.
        self._lent_bytes = 0
        # Invariant: start <= filled <= room_end <= _usable; the next read goes to data[filled:room_end].
        self.room_end = 0

    def move(self, pool: BufferPool, memory: ConnectionMemory) -> None:
        """Take further buffers from another pool, and count all in another memory: the client has logged in."""
        self._memory.release(self._holder)
        self._pool, self._memory = pool, memory
        self._count(0 if self.data is None else self._usable)

    def keep(self, data: memoryview) -> None:
        """Copy `data` into a buffer that grows with the bytes that arrived, not with the announced length."""
        have = len(data)
        need = _frame_bytes(data, 0, have)
        first = self._memory.uncounted_bytes
        grown = _grown(have, need, first)
        if grown > first and not self._memory.has_room(self._holder, grown):
            grown = need = max(have, first)
        if grown > POOLED_BYTES:
            buffer = mmap(-1, max(have, need), MAP_PRIVATE | MAP_ANONYMOUS)
            self._usable = grown
        else:
            buffer = self._pool.take(max(have, need), grown)
            self._usable = len(buffer)
        self._count(self._usable)
        buffer[:have] = data
        self.data, self.start, self.filled = buffer, 0, have

    def make_room(self) -> bool:
        """Make room for the rest of the first frame; return whether the connection should go on reading.

        The first frame may be whole, while an earlier request still waits. Then reading goes on until the first buffer
        is full, so that the broker notices a client that disconnects, and then it pauses.
        """
        buffer = self.data
        assert buffer is not None
        need = _frame_bytes(buffer, self.start, self.filled)
        if self.filled - self.start >= need:
            self.room_end = min(self._usable, self._memory.uncounted_bytes)
            return self.filled < self.room_end
        if self.filled == self._usable and not self._grow(buffer, need):
            return False
        # A large frame is read to its end and no further: it need not be moved, and its buffer is free afterwards.
        room = self._usable
        self.room_end = min(room, self.start + need) if need > self._memory.uncounted_bytes else room
        return True

    def _grow(self, buffer: Room, need: int) -> bool:
        """Make room for more of a frame of `need` bytes; False where the request memory has none."""
        grown = _grown(self.filled - self.start, need, self._memory.uncounted_bytes)
        if not self._memory.has_room(self._holder, grown):
            self._memory.wait(self._holder)
            return False
        if isinstance(buffer, mmap) and self.start + grown <= len(buffer):
            self._usable = self.start + grown
            self._count(self._usable)
        else:
            self.keep(memoryview(buffer)[self.start : self.filled])
            self._pool.give(buffer)
        self._memory.note_progress(self._holder)
        return True

    def lend(self, frame: memoryview) -> memoryview:
        """Return the bytes of a frame, or of a batch in it, for as long as its request waits: they count until then.

        Only those of a buffer that is used again are copied.
        """
        if len(frame) > POOLED_BYTES:
            return frame
        self.note_kept(len(frame))
        return memoryview(bytearray(frame))

    def note_kept(self, size: int) -> None:
        """Count bytes of a request that its handler has copied, until its response."""
        self._lent_bytes += size
        self._count(0 if self.data is None else self._usable)

    def release(self, is_waiting: bool = False) -> None:
        """Give the buffer back, because every byte in it is handled.

        The handler of a request that waits may keep a frame that is too large for the pool: it counts until `settle`.
        """
        buffer = self.data
        if buffer is None:
            return
        self._pool.give(buffer)
        self.data = None
        if self._usable > self._memory.uncounted_bytes and not (is_waiting and len(buffer) > POOLED_BYTES):
            self._count(0)

    def settle(self) -> None:
        """Count only what is still received: the request that waited has its response."""
        self._lent_bytes = 0
        self._count(0 if self.data is None else self._usable)

    def discard(self) -> None:
        """Drop what was received, because the connection closes."""
        self.data, self._lent_bytes = None, 0
        self._count(0)

    def _count(self, buffer_bytes: int) -> None:
        """Count the buffer, unless it is a first one, and the copies that were made for the handler."""
        first = self._memory.uncounted_bytes
        held = self._lent_bytes + (buffer_bytes if buffer_bytes > first else 0)
        if held > first:
            self._memory.hold(self._holder, held)
        else:
            self._memory.release(self._holder)


def _grown(have: int, need: int, first: int) -> int:
    """Return the size of the buffer for a frame of `need` bytes of which `have` arrived; `first` at least."""
    return max(have, first, min(need, have * BUFFER_GROWTH))


def _frame_bytes(buffer: Room | memoryview, start: int, end: int) -> int:
    """Return the length of the frame at `start` with its length field; only the field's, if that is not whole."""
    return LENGTH_BYTES + frame_length(buffer, start)[0] if end - start >= LENGTH_BYTES else LENGTH_BYTES
