"""The times of the first records that groups have not committed: what their lag in seconds is counted from.

A time is read from the batch at the committed offset, in a thread that may wait for the disk. A scrape has at most
`READS_PER_SCRAPE` read, those first that it knew nothing of. Where a group has moved on since its last look-up, the
older time stands until its turn comes: the lag is then shown too long, never too short. A batch has one time here, that
of its first record.

Bound: one time for each committed partition of the groups that the last scrape showed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import KafkaError
from ...protocol.records.batch import HEADER_SIZE, LOG_APPEND_TIME, read_header
from ...protocol.records.errors import RecordError
from ...storage.files import DISK, Disk, FileRange
from ...storage.log_view import LogView
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk
from ..topics.partition import Partition

# Each takes some 0.2 ms of a thread, which shares Python's lock with the event loop.
READS_PER_SCRAPE = 200
# A disk that hangs holds a scrape no longer than this; the times that are known then are shown.
READ_WITHIN_S = 1.0

_log = logging.getLogger(__name__)


class Unread(NamedTuple):
    """A partition that a group has not read to its end, and the offset that it has committed."""

    group: str
    partition: Partition
    offset: int
    # Whether retention deletes records of the topic.
    may_expire: bool


class _Known(NamedTuple):
    offset: int
    time_ms: int


class UnreadAges:
    """What is known of unread records, from scrape to scrape."""

    def __init__(self, threads: DiskThreads, disk: Disk = DISK) -> None:
        self._threads = threads
        self._disk = disk
        self._known: dict[tuple[str, Partition], _Known] = {}
        # Invariant: one look-up round at a time, also with several scrapers.
        self._reading = False

    def time_ms(self, group: str, partition: Partition) -> int | None:
        """Return the time of the first record that a group has not committed; None: it is not known yet."""
        known = self._known.get((group, partition))
        return known.time_ms if known is not None else None

    async def refresh(self, unread: Iterable[Unread]) -> None:
        """Look up what has changed, and forget what is not in `unread` any more."""
        if self._reading:
            return
        self._reading = True
        try:
            wanted = {(each.group, each.partition): each for each in unread}
            self._known = {key: known for key, known in self._known.items() if key in wanted}
            stale = [each for key, each in wanted.items() if self._is_stale(key, each.offset)]
            # First what is not known at all: a group without a time has no lag in seconds.
            stale.sort(key=lambda each: (each.group, each.partition) in self._known)
            async with asyncio.timeout(READ_WITHIN_S):
                for each in stale[:READS_PER_SCRAPE]:
                    await self._look_up(each)
        except TimeoutError:
            _log.info("look-ups of the groups' lag in seconds took longer than %g s", READ_WITHIN_S)
        finally:
            self._reading = False

    def _is_stale(self, key: tuple[str, Partition], offset: int) -> bool:
        known = self._known.pop(key, None)
        if known is None:
            return True
        # What was looked up last goes to the end, so that each has its turn.
        self._known[key] = known
        return known.offset != offset

    async def _look_up(self, unread: Unread) -> None:
        partition = unread.partition

        def read(view: LogView) -> int | None:
            start = max(unread.offset, view.start_offset)
            found = view.locate(start, view.end_offset)
            if found is None:
                return None
            header = read_header(FileRange(found.file, found.position, HEADER_SIZE, self._disk).read())
            time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp
            return time_ms if time_ms >= 0 else None  # records of very old clients have none

        try:
            time_ms = await read_from_disk(partition, read, self._threads)
        except (KafkaError, RecordError) as error:
            # The partition's own reports tell of damage. Without a time it has no lag in seconds.
            _log.debug("no time of %s-%d at offset %d: %s", partition.topic, partition.index, unread.offset, error)
            return
        if time_ms is not None:
            self._known[unread.group, partition] = _Known(unread.offset, time_ms)
