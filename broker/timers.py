"""Timers: one heap for deadlines of waiting requests, sessions of group members and background tasks.

The event loop gets only the earliest deadline, so an idle broker costs nothing, and a thousand waiting requests are one
entry in the loop's own heap. A cancelled timer stays in the heap until its turn, or until most timers are cancelled:
then the heap is rebuilt. So the heap is never larger than twice its live timers plus `_REBUILD_FROM`.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable

from .clock import Clock
from .turns import keeper

# A rebuild of a smaller heap would cost more than it saves.
_REBUILD_FROM = 64

_log = logging.getLogger(__name__)


class TimerHandle:
    """A timer that can be cancelled. `cancel` is idempotent, and may be called after the timer fired."""

    __slots__ = ("_callback", "_timers", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None], timers: Timers) -> None:
        self.deadline_ms = deadline_ms
        self._callback: Callable[[], None] | None = callback
        self._timers = timers

    @property
    def active(self) -> bool:
        """True until the timer fires or is cancelled."""
        return self._callback is not None

    def cancel(self) -> None:
        """Prevent the callback from running."""
        if self._callback is not None:
            self._callback = None
            self._timers.note_cancelled()

    def take(self) -> Callable[[], None] | None:
        """Return the callback, once; None if the timer was cancelled or has fired."""
        callback, self._callback = self._callback, None
        return callback


class Timers:
    """Runs callbacks on the event loop when the monotonic clock reaches their deadline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._sequence = 0
        self._cancelled = 0
        self._wakeup: asyncio.TimerHandle | None = None
        self._wakeup_ms = 0

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once the monotonic clock shows `deadline_ms`. Timers of equal deadline fire in the order in
        which they were made.
        """
        handle = TimerHandle(deadline_ms, callback, self)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, handle))
        if self._wakeup is None or deadline_ms < self._wakeup_ms:
            self._arm()
        return handle

    def after(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` in `delay_ms` from now."""
        return self.at(self._clock.monotonic_ms() + delay_ms, callback)

    @property
    def is_due(self) -> bool:
        """Whether a timer's deadline has come, and the timer has not fired yet."""
        return bool(self._heap) and self._heap[0][0] <= self._clock.monotonic_ms()

    def close(self) -> None:
        """Forget every timer; none fires any more."""
        self._heap.clear()
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def note_cancelled(self) -> None:
        """Rebuild the heap once most of its timers are cancelled. Handles call this."""
        self._cancelled += 1
        if self._cancelled > _REBUILD_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].active]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def fire_due(self) -> None:
        """Run the timers that are due, as many as a slice has time for: flush.ms starts thousands of fsyncs at a time.

        The event loop calls this, and tests with their clock.
        """
        self._wakeup = None
        now_ms = self._clock.monotonic_ms()
        # Timers that callbacks make wait for the loop's next turn, even if they are due. Otherwise a timer that renews
        # itself would keep the event loop busy.
        last, turns, ends_ns = self._sequence, keeper(), 0
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] <= last:
            callback = heapq.heappop(self._heap)[2].take()
            if callback is None:
                self._cancelled = max(0, self._cancelled - 1)
                continue
            _run(callback)
            # Mostly one timer is due, which needs no clock.
            if not ends_ns:
                ends_ns = turns.slice_end()
            elif turns.clock() >= ends_ns:
                break
        self._arm()

    def _arm(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if not self._heap:
            return
        self._wakeup_ms = self._heap[0][0]
        delay_ms = max(0, self._wakeup_ms - self._clock.monotonic_ms())
        self._wakeup = asyncio.get_running_loop().call_later(delay_ms / 1000, self.fire_due)


def _run(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - a timer that fails must not stop the others
        _log.exception("a timer failed")
