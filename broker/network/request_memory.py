"""The memory of requests that are still arriving, over all connections: `queued.max.request.bytes`.

A connection reads its first 64 KiB into a buffer that does not count. Where a frame needs more, its buffer grows with
the bytes that arrive, and counts here. Without room the connection stops reading until another frame is handled. If
none is, the broker closes the connection whose frame has been arriving for longest. So clients that stop in the middle
of a request cannot keep the others from sending theirs.
"""

from __future__ import annotations

from typing import Protocol

from ..clock import Clock
from ..timers import Timers

# A frame that arrives for longer may lose its place. A client on a slow line may need some seconds for a large one.
STALLED_MS = 10_000


class Receiver(Protocol):
    """A connection, as far as it holds memory or waits for some."""

    @property
    def is_receiving(self) -> bool:
        """Whether a frame is still arriving."""
        ...

    def resume(self) -> None:
        """Go on reading."""
        ...

    def drop_frame(self, why: str) -> None:
        """Close the connection, and give its memory back."""
        ...


class RequestMemory:
    """The bytes that each connection holds, and the connections that wait for more."""

    def __init__(self, limit_bytes: int, clock: Clock, timers: Timers) -> None:
        """Set the limit; a negative one means no limit."""
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._timers = timers
        # Bytes, and when the first of them were taken. Invariant: in the order of these times.
        self._held: dict[Receiver, tuple[int, int]] = {}
        # Invariant: the sum of all bytes that are held.
        self._held_bytes = 0
        # Invariant: in the order in which they began to wait.
        self._waiting: dict[Receiver, None] = {}
        self._check_armed = False

    @property
    def held_bytes(self) -> int:
        """The memory that is held now."""
        return self._held_bytes

    def has_room(self, receiver: Receiver, size: int) -> bool:
        """Return whether `receiver` may hold `size` bytes in all. One alone always may, as in Kafka."""
        others = self._held_bytes - self._held.get(receiver, (0, 0))[0]
        return self._limit_bytes < 0 or others == 0 or others + size <= self._limit_bytes

    def hold(self, receiver: Receiver, size: int) -> None:
        """Count `size` bytes in all for `receiver`."""
        held, since_ms = self._held.get(receiver, (0, self._clock.monotonic_ms()))
        self._held[receiver] = size, since_ms
        self._held_bytes += size - held

    def release(self, receiver: Receiver) -> None:
        """Forget what `receiver` holds, and let others go on."""
        self._waiting.pop(receiver, None)
        held, _ = self._held.pop(receiver, (0, 0))
        self._held_bytes -= held
        if held and self._waiting:
            self._timers.after(0, self._resume_waiting)

    def wait(self, receiver: Receiver) -> None:
        """Resume `receiver` when there may be room."""
        self._waiting[receiver] = None
        if not self._check_armed:
            self._check_armed = True
            self._timers.after(STALLED_MS, self._drop_stalled)

    def _resume_waiting(self) -> None:
        # One that finds no room waits again, behind the others.
        for receiver in list(self._waiting):
            if self._limit_bytes <= self._held_bytes:
                return
            if self._waiting.pop(receiver, self) is None:
                receiver.resume()

    def _drop_stalled(self) -> None:
        self._check_armed = False
        if not self._waiting:
            return
        before_ms = self._clock.monotonic_ms() - STALLED_MS
        for receiver, (_, since_ms) in list(self._held.items()):
            if since_ms <= before_ms and receiver.is_receiving:
                why = f"its request arrives slowly, and others need the memory ({self._limit_bytes} bytes for all)"
                receiver.drop_frame(why)
                break
        self._resume_waiting()
        if self._waiting and not self._check_armed:
            self._check_armed = True
            self._timers.after(STALLED_MS // 10, self._drop_stalled)
