"""Look-ups in a log that may have to wait for the disk: in a thread, on a view of the log, never on the event loop.

A fetch from the end of a log is answered from memory, and one of what was read or written lately from the page cache.
What is found on neither is looked up here. A look-up by time goes here always: it may walk through a segment, and
decompresses a batch.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ...storage.errors import CorruptBatch, StorageError
from ...storage.files import FileRange, NotCached
from ...storage.log_view import LogView
from .partition import Partition

# Retention may take a segment away in the middle of a look-up, which then has to begin anew: no more often than this.
MAX_ATTEMPTS = 5

Found = TypeVar("Found")


async def read(partition: Partition, offset: int, max_bytes: int, isolation_level: int) -> FileRange | None:
    """As Partition.read, the first batch whole. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
    try:
        return partition.read(offset, max_bytes, isolation_level, minimum_one=True, cached=True)
    except NotCached:
        up_to = partition.end_for(isolation_level)
        located = await look_up(partition, lambda view: view.locate(offset, up_to))
    if located is None:
        return None
    return partition.read(offset, max_bytes, isolation_level, minimum_one=True, located=located)


async def look_up(partition: Partition, look: Callable[[LogView], Found]) -> Found:
    """The result of `look`, in a thread. Raises OffsetOutOfRange, CorruptBatch, which is told, and DiskError."""
    loop = asyncio.get_running_loop()
    for attempt in range(MAX_ATTEMPTS):
        partition.check_online()
        log = partition.log
        view = log.view()
        # Who is cancelled learns nothing: the thread is still at it.
        try:
            found = await loop.run_in_executor(None, look, view)
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
