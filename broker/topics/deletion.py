"""A topic on its way out: nobody can see it any more, its partitions' directories follow, a few a turn of the loop.

Each gets another name (`-delete`), so that a new topic of the old name finds its place free; if one comes before all
are renamed, the rest is done at once. What lies in them is removed in a thread after file.delete.delay.ms. A crash
leaves directories with the new name, which the next start removes, or with the old one, which it sets aside.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from ...storage.errors import StorageError
from ...storage.log import Log
from .partition import Partition

# Closing a log's files and renaming its directory takes some 50 microseconds.
PARTITIONS_A_TURN = 20

_log = logging.getLogger(__name__)


class Deletion:
    """`start` it, or `finish` it at once. `then` gets the logs whose directories may be removed, in the end, once."""

    def __init__(self, topic: str, partitions: Iterable[Partition], then: Callable[[list[Log]], None]) -> None:
        self._topic = topic
        self._left = deque(partitions)
        self._then: Callable[[list[Log]], None] | None = then
        self._aside: list[Log] = []

    @property
    def is_done(self) -> bool:
        return self._then is None

    def start(self) -> None:
        """Goes on by itself, turn by turn of the event loop."""
        if not self.is_done:
            self._step()
        if not self.is_done:
            asyncio.get_running_loop().call_soon(self.start)

    def finish(self) -> None:
        """All of it, now."""
        while not self.is_done:
            self._step()

    def _step(self) -> None:
        for _ in range(min(len(self._left), PARTITIONS_A_TURN)):
            partition = self._left.popleft()
            try:
                partition.log.set_aside(durable=False)
                self._aside.append(partition.log)
            except StorageError as error:
                # The journal has its word already: a start will set the directory aside.
                _log.error("files of deleted topic %s stay in place: %s", self._topic, error.message)
        if not self._left and self._then is not None:
            then, self._then = self._then, None
            then(self._aside)
