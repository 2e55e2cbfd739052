"""The one door through which time enters the broker. Tests replace it and move time by hand."""

import time


class Clock:
    """Two clocks, both in whole milliseconds: the wall for what is written down, the monotonic one for what waits."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch: timestamps in records and files."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Never goes back: deadlines and time-outs."""
        return time.monotonic_ns() // 1_000_000
