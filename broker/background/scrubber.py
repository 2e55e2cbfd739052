"""The scrubber: closed segments are read again in idle time, to know of damage before somebody needs a record.

Every `log.scrub.interval.ms` (0: never) a round begins, or when the last one is through. A thread of the lowest
priority reads segment by segment (segments/scrub.py), a little at a time: it holds up the others' Python for less
than a millisecond, uses a tenth of a core at most and a bounded share of the disk. What it finds is told as any other
damage is, a line in the log with file and position, once, and from then on refused to readers, while all around it is
served.

It only reads. A segment that goes meanwhile, and one that cannot be read at all, are passed over; the latter is told.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...storage.errors import StorageError
from ...storage.segments.damage import Damage
from ...storage.segments.scrub import Stopped, scrub
from ...storage.segments.segment import Segment
from ..threads import in_thread
from ..topics.partition import Partition

if TYPE_CHECKING:
    from ..server import Broker

# Of the disk: what even a slow one has to spare.
MAX_BYTES_PER_SECOND = 32 * 1024 * 1024
# Of a core, while it is at it: 1 / (1 + this).
REST_SHARE = 9
# After so many batches, or bytes, it rests: the interpreter's lock is held no longer than these take.
STEP_BATCHES = 64
STEP_BYTES = 1024 * 1024
LOWEST_PRIORITY = 19

_log = logging.getLogger(__name__)


class _Closed(NamedTuple):
    """A segment that is written to no more."""

    partition: Partition
    segment: Segment
    up_to: int  # where the next one begins


class Scrubber:
    """Of one broker. `start` once its topics are open, `stop` before their logs are closed."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._stopping = threading.Event()
        self._round: asyncio.Future[None] | None = None
        # Files that could not be read, and were told. Bounded by the number of segments.
        self._unreadable: set[str] = set()

    def start(self) -> None:
        """Arms the first round."""
        self._loop = asyncio.get_running_loop()
        self._arm()

    async def stop(self) -> None:
        """Returns when nothing is read any more: after one step at the most."""
        self._stopping.set()
        await self.rests()

    async def rests(self) -> None:
        """Returns when no round is under way."""
        if self._round is not None:
            await asyncio.wait([self._round])

    def _arm(self) -> None:
        interval_ms = self._broker.config.log_scrub_interval_ms
        if interval_ms and not self._stopping.is_set():
            self._broker.timers.after(interval_ms, self._begin)

    def _begin(self) -> None:
        closed = [
            _Closed(partition, segment, following.base_offset)
            for partition in self._broker.topics.partitions()
            if partition.is_online
            for segment, following in pairwise(partition.log.segments)
        ]
        self._round = in_thread(lambda: self._run(closed), "odradek-scrub")
        self._round.add_done_callback(self._done)

    def _done(self, finished: "asyncio.Future[None]") -> None:
        self._round = None
        if not finished.cancelled() and (error := finished.exception()) is not None:
            _log.error("the scrubber failed: %s", error, exc_info=error)
        self._arm()

    # In the thread.

    def _run(self, closed: "list[_Closed]") -> None:
        with contextlib.suppress(OSError, AttributeError):  # a system that knows no priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        for each in closed:
            try:
                self._scrub(each)
            except Stopped:
                return
            except StorageError as error:
                # One that has retired by now has other names, or none.
                if not each.segment.is_retired:
                    self._tell(self._cannot_read, each.partition, error)

    def _scrub(self, each: "_Closed") -> None:
        if each.segment.is_retired or not each.partition.is_online:
            return
        reading = scrub(each.segment.twin(), each.up_to, self._broker.disk, self._stopping.is_set)
        is_through = False
        while not is_through:
            started = time.monotonic()
            read_bytes, is_through = self._step(each, reading)
            spent_s = time.monotonic() - started
            self._stopping.wait(max(spent_s * REST_SHARE, read_bytes / MAX_BYTES_PER_SECOND - spent_s))
            if self._stopping.is_set():
                raise Stopped

    def _step(self, each: "_Closed", reading: Iterator[int | Damage]) -> tuple[int, bool]:
        """Reads a little; returns how much, and whether that was all."""
        read_bytes = 0
        for _ in range(STEP_BATCHES):
            found = next(reading, None)
            if found is None:
                return read_bytes, True
            if isinstance(found, Damage):
                self._tell(self._found, each, found)
                read_bytes += found.size
            else:
                read_bytes += found
            if read_bytes >= STEP_BYTES:
                break
        return read_bytes, False

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(what, *arguments)

    # On the loop again.

    def _found(self, each: "_Closed", damage: Damage) -> None:
        if not each.segment.is_retired:
            each.segment.mark(damage.position, damage.why, damage.end)
            each.partition.report_damage(damage.error())

    def _cannot_read(self, partition: Partition, error: StorageError) -> None:
        if error.message not in self._unreadable:
            self._unreadable.add(error.message)
            _log.error("%s-%d could not be checked: %s", partition.topic, partition.index, error.message)
