"""Reads the ends of logs ahead, after a start that has not opened them.

The first append to each log reads its end. Produce requests, markers of transactions and copies of a leader's batches
let a thread do that (`disk_reads.warm_up`), and wait less where the end is in the page cache by then.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from ...storage.errors import StorageError
from ...storage.log import Log
from ..threads import DiskThreads
from ..topics.topics import Topics


class ReadAhead:
    """`start` it once the topics are open, `stop` it before their logs are closed."""

    def __init__(self, topics: Topics, threads: DiskThreads) -> None:
        self._topics = topics
        self._threads = threads
        self._stopping = threading.Event()
        self._reading: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin, if there are logs that the start has not opened."""
        logs = [each.log for each in self._topics.partitions() if each.is_online and each.log.is_resting]
        if logs:
            self._reading = self._threads.alone(lambda: self._read(logs), "odradek-read-ahead")

    async def stop(self) -> None:
        """Return when nothing is read any more: after one log at most."""
        self._stopping.set()
        await self.wait_idle()

    async def wait_idle(self) -> None:
        """Return when all is read."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _read(self, logs: list[Log]) -> None:
        for log in logs:
            if self._stopping.is_set():
                return
            with suppress(StorageError):  # the first append meets the same error, and reports it
                log.segments[-1].read_ahead()
