"""Reads of a log that may wait for the disk: they run in a thread, on a view of the log.

A fetch from the end of a log is answered from memory, and one of what was read or written lately from the page cache.
Everything else is read here, and every look-up by time: it may walk through a segment and decompress a batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ...protocol.errors import KafkaError
from ...protocol.records.errors import RecordTooLarge
from ...storage.errors import CorruptBatch, DiskError, StorageError, is_unreadable
from ...storage.files import FileRange, NotCached
from ...storage.log import Log
from ...storage.log_view import LogView
from ...storage.segments.segment import Segment
from ..threads import DiskThreads, Work
from .partition import Partition
from .topics import Topics

# A cleaning may replace a segment in the middle of a look-up, retention may delete it, and a follower may cut it. The
# look-up then begins again, at most so often.
MAX_ATTEMPTS = 5
# Reads of one request that wait for threads at the same time. Each is a task of the event loop, which some 50
# microseconds go to.
READS_AT_ONCE = 64

Found = TypeVar("Found")
_log = logging.getLogger(__name__)


async def read(
    partition: Partition, offset: int, max_bytes: int, isolation_level: int, threads: DiskThreads
) -> FileRange | None:
    """Return what Partition.read returns, the first batch whole. Raises OffsetOutOfRange, CorruptBatch, DiskError."""
    try:
        return partition.read(offset, max_bytes, isolation_level, minimum_one=True, cached=True)
    except NotCached:
        up_to = partition.end_for(isolation_level)
        located = await read_from_disk(partition, lambda view: view.locate(offset, up_to), threads)
    if located is None:
        return None
    return partition.read(offset, max_bytes, isolation_level, minimum_one=True, located=located)


async def read_from_disk(partition: Partition, look_up: Callable[[LogView], Found], threads: DiskThreads) -> Found:
    """Return the result of `look_up`, run in a thread.

    Raises OffsetOutOfRange, CorruptBatch, DiskError, INVALID_RECORD for a record above max.decompressed.message.bytes.
    """
    log, view = partition.log, partition.log.view()
    for attempt in range(MAX_ATTEMPTS):
        partition.check_online()

        def run(view: LogView = view) -> tuple[Found, list[StorageError]]:
            return look_up(view), view.mend_indexes()

        # Cancelling the caller does not stop the thread, so that a cancelled read must not learn from the view.
        try:
            found, met = await threads.run(Work.LOOK_UP, log.directory.parent, run)
        except RecordTooLarge as error:
            raise KafkaError(error.code, str(error)) from error
        except StorageError as error:
            log.learn(view)
            if log.segments is view.originals or attempt + 1 == MAX_ATTEMPTS:
                _report(partition, error)
                raise
            if partition.log is log:
                view = log.view_after(view, error)
            else:
                log, view = partition.log, partition.log.view()
        else:
            log.learn(view)
            for error in met:
                partition.report_failure(error)
            return found
    raise AssertionError("the last attempt raises")


async def read_each(reads: Iterable[Coroutine[Any, Any, Found]]) -> list[Found | KafkaError]:
    """Return in order what the reads of one request find, or the KafkaErrors that they raise."""
    found: list[Found | KafkaError] = []
    left = iter(reads)
    while some := list(islice(left, READS_AT_ONCE)):
        for each in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(each, BaseException) and not isinstance(each, KafkaError):
                raise each
            found.append(each)
    return found


def _report(partition: Partition, error: StorageError) -> None:
    if isinstance(error, CorruptBatch):
        partition.report_damage(error)
    else:
        partition.report_failure(error)


class ColdReads:
    """Reads of what a response takes from files and the page cache does not hold, each in a thread."""

    def __init__(self, threads: DiskThreads, topics: Topics) -> None:
        self._threads = threads
        self._topics = topics

    async def read(self, piece: FileRange) -> bytes:
        """Return the bytes of `piece`.

        Raises StorageError. Where the disk cannot read a batch, its partition knows by then: the next fetch of the
        batch gets an error, and does not begin a response that cannot be completed.
        """
        try:
            # A file of a segment lies in the directory of a partition, which lies in a data directory.
            return await self._threads.run(Work.READ, piece.file.path.parent.parent, piece.read)
        except DiskError as error:
            if is_unreadable(error):
                await self._note(error)
            raise

    async def _note(self, error: DiskError) -> None:
        for partition in self._topics.partitions():
            if partition.is_online and partition.log.directory == error.path.parent:
                await note_unreadable(partition, error, self._threads)


async def warm_up(partitions: Iterable[Partition], threads: DiskThreads) -> None:
    """Have threads read the ends of those logs that are cold: their next appends find them in the page cache.

    Where an end cannot be read, the append meets the error, and reports it.
    """
    cold = [each for each in partitions if each.is_cold]
    logs: dict[Path, list[Log]] = {}
    for each in cold:
        logs.setdefault(each.log.directory.parent, []).append(each.log)
    await asyncio.gather(*(threads.run(Work.LOOK_UP, at, partial(_read_ends, some)) for at, some in logs.items()))
    for each in cold:
        each.is_cold = False


def _read_ends(logs: list[Log]) -> None:
    # The disk works on all of them at a time: no read waits for the one before.
    for step in (Segment.read_ahead, Segment.read_end):
        for log in logs:
            with suppress(StorageError):
                step(log.segments[-1])


async def note_unreadable(partition: Partition, error: DiskError, threads: DiskThreads) -> None:
    """Mark the batch that the disk could not read as damaged, and report that once."""
    try:
        damage = await read_from_disk(partition, lambda view: view.mark_unreadable(error), threads)
    except KafkaError as another:
        # The partition went offline, or its disk fails elsewhere too. The next fetch meets that.
        _log.error("%s: %s, and then: %s", partition, error.message, another.message)
        return
    if damage is not None:
        partition.report_damage(damage.error())
