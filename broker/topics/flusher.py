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
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from ...storage.errors import LogClosed, StorageError, is_lasting
from ...storage.log import Log
from ..threads import DiskThreads, Work
from ..timers import TimerHandle, Timers
from .partition_state import PartitionState

# Of all partitions together. A start reads so much in a tenth of a second; a checkpoint takes some fsyncs.
PROGRESS_BYTES = 128 * 1024 * 1024
# After a flush that failed for a reason that may pass, such as a full disk. Trying at once would keep a thread busy.
RETRY_MS = 1000

_DEADLINE = attrgetter("deadline_ms")
_log = logging.getLogger(__name__)


class _Due(NamedTuple):
    """A flush at a later time."""

    delay_ms: int
    timer: TimerHandle


class Flusher:
    """The fsyncs of one broker."""

    def __init__(self, timers: Timers, threads: DiskThreads, on_progress: Callable[[], object]) -> None:
        self._timers = timers
        self._threads = threads
        # Invariant: a partition here has exactly one fsync running.
        self._running: dict[PartitionState, asyncio.Future[None]] = {}
        # Partitions whose segments are swapped now: their files must not be cut meanwhile.
        self._swapping: dict[PartitionState, asyncio.Future[None]] = {}
        # Partitions whose flush is due while one runs: that one may not cover their last batches.
        self._again: set[PartitionState] = set()
        # Invariant: every timer here is active.
        self._due: dict[PartitionState, _Due] = {}
        self._stopping = False
        self._on_progress = on_progress
        # Since it was called.
        self._progress_bytes = 0

    def schedule(self, partition: PartitionState, delay_ms: int) -> None:
        """Start an fsync of a partition in `delay_ms` (flush.ms) at the latest; nobody waits for it.

        0 starts it now or, where one runs, as soon as that has ended.
        """
        if not delay_ms:
            if partition in self._running:
                self._again.add(partition)
            else:
                self._start(partition)
            return
        due = self._due.get(partition)
        if due is None or delay_ms < due.delay_ms:
            timer = self._timers.after(delay_ms, partial(self._flush_due, partition))
            if due is not None:
                timer, later = sorted((due.timer, timer), key=_DEADLINE)
                later.cancel()
            self._due[partition] = _Due(delay_ms, timer)

    async def flush(self, partition: PartitionState) -> None:
        """Wait until everything that the partition holds now is on disk. Raises StorageError."""
        log = partition.log
        end = log.log_end_offset
        # A follower may be cut back meanwhile.
        while log.recovery_point < min(end, log.log_end_offset):
            running = self._running.get(partition)
            # To await one that is done, before its callbacks ran, would give nobody a turn: the loop would never end.
            if running is None or running.done():
                running = self._start(partition)
            await asyncio.shield(running)

    async def force(self, partition: PartitionState) -> None:
        """Wait for an fsync that begins now, also where the recovery point tells of none. Raises StorageError."""
        await self.idle(partition)
        await asyncio.shield(self._start(partition))

    async def idle(self, partition: PartitionState) -> None:
        """Return when no fsync and no swap of the partition runs: in this turn of the loop its files may be cut."""
        while (running := self._running.get(partition) or self._swapping.get(partition)) is not None:
            await asyncio.wait([running])
            if running.done() and self._running.get(partition) is running:
                # Its callbacks run in the next turn.
                await asyncio.sleep(0)

    @contextmanager
    def swapping(self, partition: PartitionState) -> Generator[None]:
        """Have `idle` wait: a start after a crash would complete the swap of segments over what a cut has left."""
        done = self._swapping[partition] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._swapping[partition]
            done.set_result(None)

    async def flush_all(self, partitions: Iterable[PartitionState]) -> dict[PartitionState, StorageError]:
        """Wait until all that these partitions hold now is on disk; return those that failed, with their errors."""
        waited_for = list(partitions)
        results = await asyncio.gather(*map(self.flush, waited_for), return_exceptions=True)
        failures: dict[PartitionState, StorageError] = {}
        for partition, result in zip(waited_for, results, strict=True):
            if isinstance(result, StorageError):
                failures[partition] = result
            elif result is not None:
                raise result
        return failures

    async def stop(self) -> None:
        """Start no more fsyncs, and wait for those that run: closing the logs forces the rest to disk."""
        self._stopping = True
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def _start(self, partition: PartitionState) -> asyncio.Future[None]:
        # Thousands may wait for a thread, and Python's collector looks at all that is made for each: no closures here.
        log = partition.log
        done = partial(self._done, partition, log, log.flushed_bytes)
        future = self._threads.run(Work.FSYNC, log.directory.parent, partial(log.flush, log.log_end_offset))
        self._running[partition] = future
        future.add_done_callback(done)
        return future

    def _note_progress(self, flushed_bytes: int) -> None:
        self._progress_bytes += flushed_bytes
        if self._progress_bytes >= PROGRESS_BYTES:
            self._progress_bytes = 0
            self._on_progress()

    def _done(self, partition: PartitionState, log: Log, flushed_before: int, future: asyncio.Future[None]) -> None:
        self._settle(partition, future)
        self._note_progress(log.flushed_bytes - flushed_before)

    def _settle(self, partition: PartitionState, future: asyncio.Future[None]) -> None:
        if self._running.get(partition) is future:
            del self._running[partition]
        error = None if future.cancelled() else future.exception()
        if isinstance(error, StorageError):
            partition.note_failure(error)
        # A closed log was deleted, or has failed before, which is in the log already.
        if error is not None and partition.is_online and not isinstance(error, LogClosed):
            _log.error("%s could not be forced to disk: %s", partition, error)
            if isinstance(error, StorageError) and not is_lasting(error) and not self._stopping:
                self.schedule(partition, RETRY_MS)
        self._go_on(partition)

    def _go_on(self, partition: PartitionState) -> None:
        """Start the flush that became due while the last one ran, unless that one has covered everything."""
        if partition not in self._again:
            return
        self._again.discard(partition)
        log = partition.log
        if partition.is_online and log.recovery_point < log.log_end_offset and not self._stopping:
            self.schedule(partition, 0)

    # -- Later -----------------------------------------------------------------------------------------

    def _flush_due(self, partition: PartitionState) -> None:
        del self._due[partition]
        self.schedule(partition, 0)
