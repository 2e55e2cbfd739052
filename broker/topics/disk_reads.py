"""Reads of a log that may wait for the disk: they run in a thread, on a view of the log.

A fetch from the end of a log is answered from memory, and one of what was read or written lately from the page cache.
Everything else is read here, and every look-up by time: it may walk through a segment and decompress a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ...storage.errors import CorruptBatch, StorageError
from ...storage.files import FileRange, NotCached
from ...storage.log_view import LogView
from .partition import Partition

# Retention may delete a segment in the middle of a read, which then begins again, at most so often.
MAX_ATTEMPTS = 5

Found = TypeVar("Found")


async def read(partition: Partition, offset: int, max_bytes: int, isolation_level: int) -> FileRange | None:
    """Return what Partition.read returns, the first batch whole. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
    try:
        return partition.read(offset, max_bytes, isolation_level, minimum_one=True, cached=True)
    except NotCached:
        up_to = partition.end_for(isolation_level)
        located = await read_from_disk(partition, lambda view: view.locate(offset, up_to))
    if located is None:
        return None
    return partition.read(offset, max_bytes, isolation_level, minimum_one=True, located=located)


async def read_from_disk(partition: Partition, look_up: Callable[[LogView], Found]) -> Found:
    """Return the result of `look_up`, run in a thread. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
    loop = asyncio.get_running_loop()
    for attempt in range(MAX_ATTEMPTS):
        partition.check_online()
        log = partition.log
        view = log.view()
        # Cancelling the caller does not stop the thread, so that a cancelled read must not learn from the view.
        try:
            found = await loop.run_in_executor(None, look_up, view)
        except CorruptBatch as error:
            log.learn(view)
            partition.report_damage(error)
            raise
        except StorageError as error:
            log.learn(view)
            if log.segments is view.originals or attempt + 1 == MAX_ATTEMPTS:
                partition.note_failure(error)
                raise
        else:
            log.learn(view)
            return found
    raise AssertionError("the last attempt raises")
