"""The memory that connections hold together: requests that are still arriving, and responses that nobody reads.

Requests (`queued.max.request.bytes`). A connection reads its first 64 KiB into a buffer that does not count. Where a
frame needs more, its buffer grows with the bytes that arrive, and counts here. So does the copy that the handler of a
request keeps that waits. Without room the connection stops reading until another frame is handled.

Responses (`queued.max.response.bytes`). What a client has not read of its responses counts from 64 KiB on. Without room
a request whose response may be large is not handled until others have read theirs (connection.py), and no large
response is made (large_messages.py).

If nothing becomes free, the broker closes the connection that has held memory for longest, and whose client sends or
reads nothing. So such clients cannot keep the others from being served. A connection that waits for room itself is not
silent: where all that hold memory wait, the first of them goes on beyond the limit.

Clients that have not logged in have a memory of their own (stranger_memory.py).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ...protocol.apis import ApiKey
from ...protocol.codec import Buffer
from ...protocol.frame import KEY_AND_VERSION
from ..clock import Clock
from ..timers import Timers

# A connection that holds memory for longer may lose it. A client on a slow line may need some seconds for a large
# message.
STALLED_MS = 10_000
# From this version on batches go out as ranges of files. Older ones are converted in memory.
_FETCH_BY_RANGES = 4
# The APIs whose responses are no larger than their requests, but for a factor. Their requests never wait, so producing,
# fetching and groups go on.
_SMALL = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
# A request of more may have a large response, whatever its API.
SMALL_REQUEST_BYTES = 64 * 1024


class Holder(Protocol):
    """A side of a connection, as far as it holds memory or waits for some."""

    @property
    def is_stalled(self) -> bool:
        """Whether the client could go on, and has not."""
        ...

    def resume(self) -> None:
        """Go on, because there may be room."""
        ...

    def drop(self, why: str) -> None:
        """Close the connection, and give its memory back."""
        ...


class ConnectionMemory:
    """The bytes that each connection holds, and the connections that wait for more."""

    # The size of the buffer that a connection has in any case.
    uncounted_bytes = 64 * 1024

    def __init__(self, limit_bytes: int, clock: Clock, timers: Timers) -> None:
        """Set the limit; a negative one means no limit."""
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._timers = timers
        # Bytes, and when the first of them were taken. Invariant: in the order of these times.
        self._held: dict[Holder, tuple[int, int]] = {}
        # Invariant: the sum of all bytes that are held.
        self.held_bytes = 0
        # Whether no byte is free. Each request asks this, so it is kept.
        self.is_full = False
        # Invariant: in the order in which they began to wait.
        self._waiting: dict[Holder, None] = {}
        # What goes on beyond the limit, because all that hold memory waited for more.
        self._favoured: Holder | None = None
        self._check_armed = False
        # Whether those that wait go on in the next turn: thousands may give memory back in one.
        self._resumes = False

    def held_by(self, holder: Holder) -> int:
        """Return the bytes that `holder` holds."""
        return self._held.get(holder, (0, 0))[0]

    def has_room(self, holder: Holder, size: int) -> bool:
        """Return whether `holder` may hold `size` bytes in all. One alone always may, as in Kafka."""
        others = self.held_bytes - self.held_by(holder)
        is_free = self._limit_bytes < 0 or others == 0 or others + size <= self._limit_bytes
        return is_free or holder is self._favoured

    def hold(self, holder: Holder, size: int) -> None:
        """Count `size` bytes in all for `holder`."""
        held, since_ms = self._held.get(holder, (0, self._clock.monotonic_ms()))
        self._held[holder] = size, since_ms
        self._count(size - held)
        if size < held:
            self._resume_later()

    def note_progress(self, holder: Holder) -> None:
        """Count the time for which `holder` has held memory from now on: it got more, for which it may have waited."""
        held = self._held.pop(holder, None)
        if held is not None:
            self._held[holder] = held[0], self._clock.monotonic_ms()

    def release(self, holder: Holder) -> None:
        """Forget what `holder` holds, and let others go on."""
        self._waiting.pop(holder, None)
        if holder is self._favoured:
            self._favoured = None
        held, _ = self._held.pop(holder, (0, 0))
        self._count(-held)
        if held:
            self._resume_later()

    def _resume_later(self) -> None:
        if self._waiting and not self._resumes:
            self._resumes = True
            self._timers.after(0, self._resume_waiting)

    def _count(self, size: int) -> None:
        self.held_bytes += size
        self.is_full = 0 <= self._limit_bytes <= self.held_bytes

    def wait(self, holder: Holder) -> None:
        """Resume `holder` when there may be room."""
        self._waiting[holder] = None
        if not self._check_armed:
            self._check_armed = True
            self._timers.after(STALLED_MS, self._drop_stalled)

    async def room(self) -> None:
        """Wait until there is some room."""
        while self.is_full:
            waiter = _Waiter()
            self.wait(waiter)
            try:
                await waiter.resumed.wait()
            finally:
                self.release(waiter)

    def _resume_waiting(self) -> None:
        self._resumes = False
        # One that finds no room waits again, behind the others.
        for holder in list(self._waiting):
            if self.is_full:
                return
            if self._waiting.pop(holder, self) is None:
                holder.resume()

    def _drop_stalled(self) -> None:
        self._check_armed = False
        if not self._waiting:
            return
        before_ms = self._clock.monotonic_ms() - STALLED_MS
        for holder, (_, since_ms) in list(self._held.items()):
            if since_ms <= before_ms and holder.is_stalled:
                holder.drop(f"its client stalls, and others need the memory ({self._limit_bytes} bytes for all)")
                break
        else:
            self._favour_one()
        self._resume_waiting()
        if self._waiting and not self._check_armed:
            self._check_armed = True
            self._timers.after(STALLED_MS // 10, self._drop_stalled)

    def _favour_one(self) -> None:
        """Let the first that waits for more go on, where all that hold memory do."""
        if self._favoured is None and self._held and self._held.keys() <= self._waiting.keys():
            self._favoured = next(iter(self._held))
            del self._waiting[self._favoured]
            self._favoured.resume()


class _Waiter:
    """One that holds nothing, and waits for room."""

    is_stalled = False

    def __init__(self) -> None:
        self.resumed = asyncio.Event()

    def resume(self) -> None:
        """Let the waiter look again."""
        self.resumed.set()

    def drop(self, why: str) -> None:
        """Do nothing: a waiter holds no memory."""


# -- Small responses
#
# Any other small request may have a large response: of all topics, groups, members or configs. It waits while clients
# do not read what they asked for.


def has_small_response(buffer: Buffer, start: int, size: int) -> bool:
    """Return whether the request in the `size` bytes from `start` on has a small response for certain."""
    if not KEY_AND_VERSION.size <= size <= SMALL_REQUEST_BYTES:
        return size < KEY_AND_VERSION.size  # that is no request
    key, version = KEY_AND_VERSION.unpack_from(buffer, start)
    return key in _SMALL and (key != ApiKey.FETCH or version >= _FETCH_BY_RANGES)
