"""Fsyncs of partitions: in threads, one at a time for each partition, shared by all that wait (group commit).

`flush.messages` makes a produce request wait for the fsync that covers it; `flush.ms` starts one that nobody waits
for. A partition whose fsync failed takes no more writes: what the kernel dropped cannot be written by another fsync.
All other partitions go on.

After PROGRESS_BYTES the flusher calls `on_progress`, so that a checkpoint is written: after a crash the next start
reads everything behind the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ...storage.errors import LogClosed, StorageError
from ..timers import Timers
from .partition import Partition

# Of all partitions together. A start reads so much in a tenth of a second; a checkpoint takes some fsyncs.
PROGRESS_BYTES = 128 * 1024 * 1024

_log = logging.getLogger(__name__)


class Flusher:
    """The fsyncs of one broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        # Invariant: a partition here has exactly one fsync running.
        self._running: dict[Partition, asyncio.Future[None]] = {}
        self._due: set[Partition] = set()
        # Since on_progress was called.
        self._progress_bytes = 0
        self.on_progress: Callable[[], object] | None = None

    def schedule(self, partition: Partition, delay_ms: int) -> None:
        """Start the fsync of a partition in `delay_ms` (flush.ms) unless one is scheduled or runs; nobody waits for it.

        0 starts it now.
        """
        if not delay_ms:
            if partition not in self._running:
                self._start(partition)
        elif partition not in self._due:
            self._due.add(partition)
            self._timers.after(delay_ms, lambda: self._flush_due(partition))

    async def flush(self, partition: Partition) -> None:
        """Wait until everything that the partition holds now is on disk. Raises StorageError."""
        end = partition.log.log_end_offset
        while partition.log.recovery_point < end:
            running = self._running.get(partition)
            # To await one that is done, before its callbacks ran, would give nobody a turn: the loop would never end.
            if running is None or running.done():
                running = self._start(partition)
            await asyncio.shield(running)

    async def flush_all(self, partitions: Iterable[Partition]) -> dict[Partition, StorageError]:
        """Wait until all that these partitions hold now is on disk; return those that failed, with their errors."""
        waited_for = list(partitions)
        results = await asyncio.gather(*map(self.flush, waited_for), return_exceptions=True)
        failures: dict[Partition, StorageError] = {}
        for partition, result in zip(waited_for, results, strict=True):
            if isinstance(result, StorageError):
                failures[partition] = result
            elif result is not None:
                raise result
        return failures

    async def stop(self) -> None:
        """Wait for the fsyncs that run."""
        running = list(self._running.values())
        if running:
            await asyncio.wait(running)

    def _start(self, partition: Partition) -> asyncio.Future[None]:
        log = partition.log
        loop = asyncio.get_running_loop()
        flushed_bytes = log.flushed_bytes
        future = loop.run_in_executor(None, log.flush, log.log_end_offset)
        self._running[partition] = future

        def done(_: asyncio.Future[None]) -> None:
            self._done(partition, future)
            self._note_progress(log.flushed_bytes - flushed_bytes)

        future.add_done_callback(done)
        return future

    def _note_progress(self, flushed_bytes: int) -> None:
        self._progress_bytes += flushed_bytes
        if self._progress_bytes >= PROGRESS_BYTES:
            self._progress_bytes = 0
            if self.on_progress is not None:
                self.on_progress()

    def _done(self, partition: Partition, future: asyncio.Future[None]) -> None:
        if self._running.get(partition) is future:
            del self._running[partition]
        error = None if future.cancelled() else future.exception()
        if isinstance(error, StorageError):
            partition.note_failure(error)
        # A closed log was deleted, or has failed before, which is in the log already.
        if error is not None and partition.is_online and not isinstance(error, LogClosed):
            _log.error("%s-%d could not be forced to disk: %s", partition.topic, partition.index, error)

    def _flush_due(self, partition: Partition) -> None:
        self._due.discard(partition)
        self.schedule(partition, 0)
