"""When batches are forced to disk: in threads, one fsync at a time a partition, shared by all that wait (group commit).

`flush.messages` makes a produce request wait for the fsync that covers it; `flush.ms` starts one that nobody waits
for. A partition whose fsync failed is told so by its log and takes no more writes: what the kernel dropped cannot be
brought back by asking again. The others go on.

After so many bytes `on_progress` is told: how far each partition is on disk is then worth writing down, because after a
crash the next start reads everything behind what was.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from ...storage.errors import LogClosed, StorageError
from ..timers import Timers
from .partition import Partition

# Of all partitions together. A start reads so much in a tenth of a second, and to write it down takes some fsyncs.
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
        """Returns when all that the partition holds now is on disk. StorageError where that cannot be."""
        end = partition.log.log_end_offset
        while partition.log.recovery_point < end:
            running = self._running.get(partition)
            # One that is done, but whose callbacks have not had their turn, would be awaited with no turn for anybody:
            # for ever.
            if running is None or running.done():
                running = self._start(partition)
            await asyncio.shield(running)

    async def flush_all(self, partitions: Iterable[Partition]) -> dict[Partition, StorageError]:
        """Returns when all that these partitions hold now is on disk; those that could not be, with the reason."""
        asked = list(partitions)
        results = await asyncio.gather(*map(self.flush, asked), return_exceptions=True)
        failures: dict[Partition, StorageError] = {}
        for partition, result in zip(asked, results, strict=True):
            if isinstance(result, StorageError):
                failures[partition] = result
            elif result is not None:
                raise result
        return failures

    async def stop(self) -> None:
        """Waits for the fsyncs that run."""
        running = list(self._running.values())
        if running:
            await asyncio.wait(running)

    def _start(self, partition: Partition) -> "asyncio.Future[None]":
        log = partition.log
        loop = asyncio.get_running_loop()
        flushed_bytes = log.flushed_bytes
        future = loop.run_in_executor(None, log.flush, log.log_end_offset)
        self._running[partition] = future

        def done(_: "asyncio.Future[None]") -> None:
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

    def _done(self, partition: Partition, future: "asyncio.Future[None]") -> None:
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
