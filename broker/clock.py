"""The clock and randomness: the only sources of time and chance in the broker, except for secrets of logins.

Tests replace the clock, and move time by hand. A simulation draws everything from a seed: `drawn_from` holds for what
runs in the present context, and so for one of several brokers in a process. Otherwise ids come from the system's
source, and jitter from Python's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextvars import ContextVar
from uuid import UUID, uuid4


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


_given: ContextVar[random.Random | None] = ContextVar("randomness", default=None)
_system = random.SystemRandom()
_quick = random.Random()


def ids() -> random.Random:
    """Return the source of ids, which nobody else may have and nobody may guess."""
    return _given.get() or _system


def jitter() -> random.Random:
    """Return the source of what only spreads load: pauses, and which of several brokers is asked."""
    return _given.get() or _quick


def new_uuid() -> UUID:
    """Return a random UUID (version 4)."""
    given = _given.get()
    return uuid4() if given is None else UUID(bytes=given.randbytes(16), version=4)


def drawn_from(source: random.Random) -> None:
    """Draw everything from `source` in the present context, and in what it starts."""
    _given.set(source)
