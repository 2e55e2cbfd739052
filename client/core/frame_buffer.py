"""Splits the bytes of a connection into frames, and reads large frames in place.

`FrameBuffer` lends out the memory that a socket reads into: a small staging buffer while frames are small, a buffer
for the frame once a larger one is announced. A frame is handed over once, and not written to while anybody holds a
view into it. The memory of a large frame is used again when nobody does: fresh memory costs a page fault for each
4 KiB, and that was a quarter of the time of reading.
"""

from __future__ import annotations

from collections import deque

from ..errors import BadResponse

# Responses to a heartbeat, a produce or a small fetch fit many times over.
STAGING_BYTES = 64 * 1024
# A fetch of `fetch_max_bytes` (50 MiB) plus one batch over the limit (KIP-74) is the largest plausible response. Beyond
# this the peer is not a Kafka broker: "HTTP" read as a length is 1.2 GB, a TLS alert 350 MB.
MAX_FRAME_BYTES = 256 * 1024 * 1024
# How a TLS alert begins: its type, and the major version 3.
_TLS_ALERT = 0x1503


# The last large frames of this process, whose memory may be used again: two, because one is read while the next one
# comes. Larger ones than a usual fetch are not kept.
_KEPT_FRAMES = 2
_KEPT_BYTES = 16 * 1024 * 1024
_lent: deque[bytearray] = deque(maxlen=_KEPT_FRAMES)


class FrameBuffer:
    """The bytes of one connection that have arrived and are not handed over yet."""

    __slots__ = ("_filled", "_frame", "_limit", "_memory", "_staging", "_view")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES, staging_bytes: int = STAGING_BYTES) -> None:
        self._limit = limit_bytes
        self._staging = bytearray(staging_bytes)
        # The large frame that is arriving, and the memory that it is in.
        self._frame: memoryview | None = None
        self._memory: bytearray | None = None
        self._view = memoryview(self._staging)
        # Invariant: the bytes in front of `_filled` have arrived, in `_frame` if there is one, else in `_staging`.
        self._filled = 0

    def writable(self) -> memoryview:
        """Return the memory for the next bytes; it is never empty."""
        return self._view[self._filled :]

    def received(self, count: int) -> list[bytes | memoryview]:
        """Take the `count` bytes that were written to `writable()`.

        Return the frames that are complete now, without their lengths. Raises BadResponse.
        """
        self._filled += count
        if self._frame is None:
            return self._split()
        if self._filled < len(self._frame):
            return []
        complete, memory = self._frame, self._memory
        self._frame, self._memory, self._view, self._filled = None, None, memoryview(self._staging), 0
        if memory is not None and len(memory) <= _KEPT_BYTES:
            _lent.append(memory)
        return [complete]

    def _split(self) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        staging, position, filled = self._staging, 0, self._filled
        while filled - position >= 4:
            size = int.from_bytes(staging[position : position + 4], "big", signed=True)
            if not 4 <= size <= self._limit:
                raise BadResponse(no_frame(size, self._limit))
            start = position + 4
            if filled - start >= size:
                position = start + size
                frames.append(bytes(staging[start:position]))
            elif size + 4 > len(staging):
                self._grow(size, staging[start:filled])
                return frames
            else:
                break
        rest = filled - position
        staging[:rest] = staging[position:filled]
        self._filled = rest
        return frames

    def _grow(self, size: int, head: bytearray) -> None:
        self._memory = _memory_for(size)
        self._view = self._frame = memoryview(self._memory)[:size]
        self._frame[: len(head)] = head
        self._filled = len(head)


def _memory_for(size: int) -> bytearray:
    """Return memory for a frame: that of an earlier one into which nobody has a view any more, else a new one."""
    for _ in range(len(_lent)):
        try:
            memory = _lent.popleft()  # first: another thread's loop may look at the same time
        except IndexError:
            break
        if len(memory) < size:
            continue
        if not _is_viewed(memory):
            return memory
        _lent.append(memory)
    return bytearray(size)


def _is_viewed(memory: bytearray) -> bool:
    """Whether there is a view into it: Python then does not let it change its size, not even back and forth."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return True
    return False


def no_frame(size: int, limit_bytes: int = MAX_FRAME_BYTES) -> str:
    """Return what a length means that no frame has: a TLS listener, or no Kafka broker at all."""
    if size >> 16 == _TLS_ALERT:
        return "the listener speaks TLS: set security_protocol to SSL or SASL_SSL"
    return f"a frame of {size} bytes was announced (4 to {limit_bytes} are possible): not a Kafka broker?"
