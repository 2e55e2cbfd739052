"""How long to wait before trying again: doubling, capped, and scattered so that a crowd does not come back at once.

As Kafka's clients have it (KIP-580): `retry_backoff_ms` the first time, twice that the next, `retry_backoff_max_ms`
at most, each times a random factor between 0.8 and 1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from random import random as _random

_JITTER = 0.2
# Doubling further than this changes nothing: 2**16 times the shortest pause is past any cap.
_MAX_DOUBLINGS = 16


class Backoff:
    """Pauses in milliseconds by the number of failures so far. `draw` gives 0.0 to 1.0; tests give their own."""

    __slots__ = ("_cap_ms", "_draw", "_first_ms")

    def __init__(self, first_ms: float, cap_ms: float, draw: Callable[[], float] = _random) -> None:
        self._first_ms = first_ms
        self._cap_ms = cap_ms
        self._draw = draw

    def pause_ms(self, failures: int) -> float:
        """The pause after `failures` (1 or more) failures in a row."""
        pause = min(self._cap_ms, self._first_ms * 2 ** min(failures - 1, _MAX_DOUBLINGS))
        return pause * (1 - _JITTER + 2 * _JITTER * self._draw())
