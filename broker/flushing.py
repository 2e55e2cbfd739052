"""When batches are forced to disk: in threads, one fsync at a time a partition, shared by all that wait (group commit).

`flush.messages` makes a produce request wait for the fsync that covers it; `flush.ms` starts one that nobody waits
for. A partition whose fsync failed is told so by its log and takes no more writes: what the kernel dropped cannot be
brought back by asking again.
"""

import asyncio
import logging
from typing import TypeVar

from .clock import Clock
from .partition import Partition
from .timers import Timers

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


class Flusher:
    """The fsyncs of one broker."""

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        # Invariant: a partition here has exactly one fsync running.
        self._running: dict[Partition, asyncio.Task[None]] = {}
        self._due: set[Partition] = set()

    def after(self, partitions: list[Partition], answer: Answer) -> "asyncio.Future[Answer]":
        """A future of `answer`, done when all that the partitions hold is on disk. Its exception: a failed fsync."""
        return asyncio.ensure_future(self._after(partitions, answer))

    def start(self, partition: Partition) -> None:
        """Forces to disk what the partition holds, unless that is being done: nobody waits here."""
        if partition not in self._running:
            self._start(partition).add_done_callback(_report)

    def soon(self, partition: Partition, delay_ms: int) -> None:
        """flush.ms: something was appended that must be on disk in so many milliseconds."""
        if partition not in self._due:
            self._due.add(partition)
            self._timers.after(delay_ms, lambda: self._flush_due(partition))

    async def flush(self, partition: Partition) -> None:
        """Returns when all that the partition holds now is on disk."""
        end = partition.log.log_end_offset
        while partition.log.recovery_point < end:
            await asyncio.shield(self._running.get(partition) or self._start(partition))

    async def stop(self) -> None:
        """Waits for the fsyncs that run."""
        running = list(self._running.values())
        if running:
            await asyncio.wait(running)

    async def _after(self, partitions: list[Partition], answer: Answer) -> Answer:
        for partition in partitions:
            await self.flush(partition)
        return answer

    def _start(self, partition: Partition) -> "asyncio.Task[None]":
        task = self._running[partition] = asyncio.create_task(self._flush(partition))
        task.add_done_callback(lambda _: self._running.pop(partition, None))
        return task

    async def _flush(self, partition: Partition) -> None:
        log = partition.log
        now_ms = self._clock.now_ms()
        await asyncio.get_running_loop().run_in_executor(None, log.flush, log.log_end_offset, now_ms)

    def _flush_due(self, partition: Partition) -> None:
        self._due.discard(partition)
        self.start(partition)


def _report(future: "asyncio.Future[None]") -> None:
    if not future.cancelled() and future.exception() is not None:
        _log.error("fsync failed: %s", future.exception())
