"""`odradek serve` on a machine whose clock is ahead of the others, or behind.

python skewed_broker.py AHEAD_MS serve ...
"""

from __future__ import annotations

import sys
import time

from odradek.broker.clock import Clock
from odradek.cli import main


def program(ahead_ms: int) -> list[str]:
    """Return what Python runs for a broker with such a clock."""
    return ["-m", "odradek.tests.support.clusters.skewed_broker", str(ahead_ms)]


def skew(ahead_ms: int) -> None:
    """Set the wall clock of this process ahead."""
    Clock.now_ms = lambda self: time.time_ns() // 1_000_000 + ahead_ms  # type: ignore[method-assign]


if __name__ == "__main__":
    skew(int(sys.argv.pop(1)))
    main()
