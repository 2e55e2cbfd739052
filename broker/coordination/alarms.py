"""The timers of a coordinator: those of one actor, and the sweep over all that it holds.

Setting a timer of an actor again costs no new entry in the broker's heap of timers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ..clock import Clock
from ..timers import TimerHandle, Timers
from ..turns import keeper

EventT = TypeVar("EventT")


class _Alarm:
    """A timer whose deadline can be moved back: when it rings too early, it is armed once more."""

    __slots__ = ("armed_ms", "deadline_ms", "handle")

    def __init__(self, deadline_ms: int, handle: TimerHandle) -> None:
        self.deadline_ms = deadline_ms
        self.armed_ms = deadline_ms
        self.handle = handle


class Alarms(Generic[EventT]):
    """Timers, each known by the event that it brings."""

    __slots__ = ("_alarms", "_clock", "_feed", "_rung", "_timers")

    def __init__(self, timers: Timers, clock: Clock, feed: Callable[[EventT], None]) -> None:
        self._timers = timers
        self._clock = clock
        self._feed = feed
        # Invariant: one entry of the heap for each key.
        self._alarms: dict[EventT, _Alarm] = {}
        # Events that were fed and not taken yet: until then they can be set again or cancelled.
        self._rung: set[EventT] = set()

    def set(self, event: EventT, delay_ms: int) -> None:
        """Feed the event after the delay, in the place of an earlier timer of the same event."""
        self._rung.discard(event)
        deadline_ms = self._clock.monotonic_ms() + delay_ms
        alarm = self._alarms.get(event)
        if alarm is not None and deadline_ms >= alarm.armed_ms:
            alarm.deadline_ms = deadline_ms
            return
        if alarm is not None:
            alarm.handle.cancel()
        handle = self._timers.at(deadline_ms, lambda: self._ring(event))
        self._alarms[event] = _Alarm(deadline_ms, handle)

    def cancel(self, event: EventT) -> None:
        """Do not feed the event, or ignore it if it waits in the inbox."""
        self._rung.discard(event)
        alarm = self._alarms.pop(event, None)
        if alarm is not None:
            alarm.handle.cancel()

    def cancel_all(self) -> None:
        """Cancel every timer."""
        for event in list(self._alarms):
            self.cancel(event)

    def take(self, event: EventT) -> bool:
        """Return whether an event that comes out of the inbox still counts."""
        if event not in self._rung:
            return False
        self._rung.remove(event)
        return True

    def ring(self, event: EventT) -> None:
        """Feed the event now, as if its time had come; nothing where its timer is not set."""
        alarm = self._alarms.pop(event, None)
        if alarm is not None:
            alarm.handle.cancel()
            self._rung.add(event)
            self._feed(event)

    def _ring(self, event: EventT) -> None:
        alarm = self._alarms.get(event)
        if alarm is None:
            return
        if alarm.deadline_ms > self._clock.monotonic_ms():
            alarm.armed_ms = alarm.deadline_ms
            alarm.handle = self._timers.at(alarm.deadline_ms, lambda: self._ring(event))
            return
        self.ring(event)


class Sweep:
    """Takes the steps of `work` every interval, in turns of the event loop, from `start` to `stop`."""

    def __init__(
        self, timers: Timers, clock: Clock, interval_ms: Callable[[], int], work: Callable[[], Iterator[None]]
    ) -> None:
        self._timers = timers
        self._clock = clock
        # Asked before each wait, because the config can change.
        self._interval_ms = interval_ms
        self._work = work
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Arm the timer of the next round."""
        self._timer = self._timers.at(self._clock.monotonic_ms() + self._interval_ms(), self._run)

    def stop(self) -> None:
        """Run no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        keeper().run(self._round(self._timer))

    def _round(self, timer: TimerHandle | None) -> Iterator[None]:
        for _ in self._work():
            yield
            if self._timer is not timer:
                return
        self.start()
