"""The clock: the only source of time in the broker. Tests replace it and move time by hand."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The wall clock and the monotonic clock, both in whole milliseconds."""

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since the epoch, for timestamps in records and files."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return a clock that never goes back, for deadlines and time-outs."""
        return time.monotonic_ns() // 1_000_000

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        """The same in nanoseconds, for slices (turns.py): a call of Python alone."""
        return time.monotonic_ns
