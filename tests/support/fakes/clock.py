"""A fake clock, which stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.clock import Clock


class FakeClock(Clock):
    """The wall clock and the monotonic clock, moved by hand. They are one unless a test sets the wall clock ahead."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self.time_ms + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        return lambda: self.time_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        """Move the clock forward."""
        self.time_ms += by_ms


class SkewedClock(Clock):
    """The clock of a machine that is ahead of others, or behind."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms
