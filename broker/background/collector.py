"""Python's collector in the process of `odradek serve`: it leaves out what stays.

A full collection looks at all objects that are not frozen, in one turn of the event loop: 34 ms for 1,000 partitions.
What a start has read is frozen, and so is what was created since, a few hundred partitions at a time. A frozen object
is freed by its reference count as any other. Only a cycle of frozen objects that nobody needs any more would stay;
partitions form none, and of everything else little is alive at these moments.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

from ..topics.topics import Topics

# A full collection looks at so many new partitions at most, which takes some 17 ms.
PARTITIONS_AT_ONCE = 500


class Collector:
    """Freezes what a broker holds at its start, and what it creates later."""

    def __init__(self) -> None:
        self._new_partitions = 0

    @staticmethod
    @contextmanager
    def paused() -> Generator[None]:
        """Collect nothing meanwhile: a start makes objects that stay, and each look at all of them takes longer."""
        gc.disable()
        try:
            yield
        finally:
            gc.enable()

    def start(self, topics: Topics) -> None:
        """Freeze all objects now, and later those of new partitions. The collector belongs to the whole process."""
        gc.freeze()
        topics.factory.on_new = self._note_partition

    def _note_partition(self) -> None:
        self._new_partitions += 1
        if self._new_partitions >= PARTITIONS_AT_ONCE:
            self._new_partitions = 0
            gc.collect(1)  # of the newest objects only, so that little garbage is frozen
            gc.freeze()
