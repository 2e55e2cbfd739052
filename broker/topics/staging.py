"""Staging: a thread writes a very large batch to a file of its own, which the partition's log then takes.

A write of 100 MiB takes a tenth of a second in memory alone, and longer where the system makes the writer wait for the
disk. On the event loop nobody would be served meanwhile. So the loop only renames a file, in one turn with all checks
of the append: the order of batches stays that of their appends, and nothing else in a partition has to wait. In the log
the batch begins a segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

from ...storage.errors import StorageError
from ...storage.segments.staged_batch import StagedBatch
from ..threads import BackgroundWork, DiskThreads, Work
from .partition import Partition
from .validation import is_very_large


class Staging:
    """Stages batches for all partitions."""

    def __init__(self, threads: DiskThreads, removal: BackgroundWork) -> None:
        self._threads = threads
        self._removal = removal
        self._numbers = count()

    @asynccontextmanager
    async def staged(self, partition: Partition, records: memoryview) -> AsyncGenerator[StagedBatch | None]:
        """Give the staged batch for an append in the block; None for a batch that the loop may write itself.

        What the block leaves is removed. Raises StorageError.
        """
        if not is_very_large(records):
            yield None
            return
        log = partition.log
        write = partial(log.stage, next(self._numbers), records)
        writing = self._threads.run(Work.WRITE, log.directory.parent, write)
        try:
            batch = await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The client is gone, but the thread writes on.
            writing.add_done_callback(partial(self._discard_written, partition))
            raise
        except StorageError as error:
            partition.note_failure(error)
            raise
        try:
            yield batch
        finally:
            self._discard(partition, batch)

    def _discard_written(self, partition: Partition, writing: asyncio.Future[StagedBatch]) -> None:
        error = None if writing.cancelled() else writing.exception()
        if isinstance(error, StorageError):
            partition.note_failure(error)
        elif not writing.cancelled() and error is None:
            self._discard(partition, writing.result())

    def _discard(self, partition: Partition, batch: StagedBatch) -> None:
        if not batch.is_taken:
            failed = f"a batch for {partition} that was not appended stays in place"
            self._removal.run(batch.discard, batch.file.path.parent.parent, failed)
