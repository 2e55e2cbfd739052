"""A sweep: work over everything that a coordinator holds, again and again."""

from __future__ import annotations

from collections.abc import Callable

from .interfaces import Clock, TimerHandle, Timers


class Sweep:
    """Runs `work` every interval, from `start` to `stop`."""

    def __init__(self, timers: Timers, clock: Clock, interval_ms: Callable[[], int], work: Callable[[], None]) -> None:
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
        self._work()
        self.start()
