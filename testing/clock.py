"""The clock of a broker in a test: it runs as the real one, and a test moves it forward.

Sessions, transactions, retention, compaction and producer ids of the broker go by it. Clients have clocks of their own,
which stay real: a client that waits a second for its next heartbeat waits a real second.
"""

from __future__ import annotations

from ..broker.clock import Clock


class MovableClock(Clock):
    """The real clock plus what a test has added."""

    def __init__(self) -> None:
        # Written by the broker's thread alone.
        self.added_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.added_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.added_ms
