"""Whether a marker comes while another broker is asked if a producer's transaction is open in a partition."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager


class MarkerWatch:
    """The producers of one partition that another broker is asked about. A producer has one watch at a time."""

    def __init__(self) -> None:
        # A marker takes the entry of its producer away, a newer watch replaces it.
        self._watches: dict[int, object] = {}

    @contextmanager
    def watch(self, producer_id: int) -> Generator[Callable[[], bool]]:
        """Yield what says whether the watch still stands: no marker of the producer came, and no newer watch."""
        token = self._watches[producer_id] = object()
        try:
            yield lambda: self._watches.get(producer_id) is token
        finally:
            if self._watches.get(producer_id) is token:
                del self._watches[producer_id]

    def note_marker(self, producer_id: int) -> None:
        """Note that a marker of the producer was appended."""
        self._watches.pop(producer_id, None)
