"""Splits the bytes of a connection into frames, and reads large frames in place.

`FrameBuffer` lends out the memory that a socket reads into: a small staging buffer while frames are small, a buffer
of the frame's own size once a larger one is announced. A frame is handed over once and never written to again, so
messages may keep views into it.
"""

from __future__ import annotations

from ..errors import BadResponse

# Responses to a heartbeat, a produce or a small fetch fit many times over.
STAGING_BYTES = 64 * 1024
# A fetch of `fetch_max_bytes` (50 MiB) plus one batch over the limit (KIP-74) is the largest plausible response. Beyond
# this the peer is not a Kafka broker: "HTTP" read as a length is 1.2 GB, a TLS alert 350 MB.
MAX_FRAME_BYTES = 256 * 1024 * 1024
# How a TLS alert begins: its type, and the major version 3.
_TLS_ALERT = 0x1503


class FrameBuffer:
    """The bytes of one connection that have arrived and are not handed over yet."""

    __slots__ = ("_filled", "_frame", "_limit", "_staging", "_view")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES, staging_bytes: int = STAGING_BYTES) -> None:
        self._limit = limit_bytes
        self._staging = bytearray(staging_bytes)
        self._frame: bytearray | None = None
        self._view = memoryview(self._staging)
        # Invariant: the bytes in front of `_filled` have arrived, in `_frame` if there is one, else in `_staging`.
        self._filled = 0

    def writable(self) -> memoryview:
        """Return the memory for the next bytes; it is never empty."""
        return self._view[self._filled :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """Take the `count` bytes that were written to `writable()`.

        Return the frames that are complete now, without their lengths. Raises BadResponse.
        """
        self._filled += count
        if self._frame is None:
            return self._split()
        if self._filled < len(self._frame):
            return []
        complete = self._frame
        self._frame, self._view, self._filled = None, memoryview(self._staging), 0
        return [complete]

    def _split(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
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
        self._frame = bytearray(size)
        self._frame[: len(head)] = head
        self._view, self._filled = memoryview(self._frame), len(head)


def no_frame(size: int, limit_bytes: int = MAX_FRAME_BYTES) -> str:
    """Return what a length means that no frame has: a TLS listener, or no Kafka broker at all."""
    if size >> 16 == _TLS_ALERT:
        return "the listener speaks TLS: set security_protocol to SSL or SASL_SSL"
    return f"a frame of {size} bytes was announced (4 to {limit_bytes} are possible): not a Kafka broker?"
