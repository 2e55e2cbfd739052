"""The deletion of a topic: clients no longer see it, and its directories are renamed, a few a turn of the event loop.

A directory that is called `-delete` makes room for a new topic of the old name. If such a topic comes before all are
renamed, the rest is renamed at once. A thread removes the files after file.delete.delay.ms. After a crash the next
start removes directories with the new name, and sets aside those with the old one.
"""

from __future__ import annotations

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
    """`start` it, or `finish` it at once. At the end `then` gets the logs whose directories may be removed, once."""

    def __init__(self, topic: str, partitions: Iterable[Partition], then: Callable[[list[Log]], None]) -> None:
        self._topic = topic
        self._left = deque(partitions)
        self._then: Callable[[list[Log]], None] | None = then
        self._aside: list[Log] = []

    @property
    def is_done(self) -> bool:
        return self._then is None

    def start(self) -> None:
        """Rename a few directories in each turn of the event loop, from now on."""
        if not self.is_done:
            self._step()
        if not self.is_done:
            asyncio.get_running_loop().call_soon(self.start)

    def finish(self) -> None:
        """Rename all that is left, now."""
        while not self.is_done:
            self._step()

    def _step(self) -> None:
        for _ in range(min(len(self._left), PARTITIONS_A_TURN)):
            partition = self._left.popleft()
            try:
                partition.log.set_aside(durable=False)
                self._aside.append(partition.log)
            except StorageError as error:
                # The deletion is in the journal already: a start will set the directory aside.
                _log.error("files of deleted topic %s stay in place: %s", self._topic, error.message)
        if not self._left and self._then is not None:
            then, self._then = self._then, None
            then(self._aside)
