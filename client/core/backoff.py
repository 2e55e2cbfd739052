"""Pauses before retries, as in Kafka's clients (KIP-580): exponential backoff with jitter.

The first pause is `retry_backoff_ms`, each further one twice as long, up to `retry_backoff_max_ms`. A random factor of
0.8 to 1.2 spreads the retries of many clients.
"""

from __future__ import annotations

from collections.abc import Callable
from random import random as _random

_JITTER = 0.2
# More doublings change nothing: 2**16 times the shortest pause is past any cap.
_MAX_DOUBLINGS = 16


class Backoff:
    """Pauses by the number of failures in a row. `draw` returns 0.0 to 1.0; tests pass their own."""

    __slots__ = ("_cap_ms", "_draw", "_first_ms")

    def __init__(self, first_ms: float, cap_ms: float, draw: Callable[[], float] = _random) -> None:
        self._first_ms = first_ms
        self._cap_ms = cap_ms
        self._draw = draw

    def pause_ms(self, failures: int) -> float:
        """Return the pause after `failures` (1 or more) failures in a row."""
        pause = min(self._cap_ms, self._first_ms * 2 ** min(failures - 1, _MAX_DOUBLINGS))
        return pause * (1 - _JITTER + 2 * _JITTER * self._draw())
