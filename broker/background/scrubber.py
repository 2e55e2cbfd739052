"""The scrubber: reads closed segments again in idle time, to find damage before a client needs the records.

A round begins every log.scrub.interval.ms (0: never), or when the last one ends. A thread of the lowest priority reads
segment by segment (storage/segments/scrub.py), a little at a time: it holds the interpreter's lock for less than a
millisecond, uses at most a tenth of a core, and a bounded share of the disk. It logs damage once, with file and
position. From then on readers get an error for the damaged batches, and everything around them is served.

The scrubber only reads. It skips a segment that is deleted meanwhile, and logs one that cannot be read at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ...storage.errors import StorageError
from ...storage.files import Disk
from ...storage.segments.damage import Damage
from ...storage.segments.scrub import Stopped, scrub
from ...storage.segments.segment import Segment
from ..configs.broker_config import BrokerConfig
from ..threads import in_thread
from ..timers import Timers
from ..topics.partition import Partition
from ..topics.topics import Topics

# Even a slow disk has this much to spare.
MAX_BYTES_PER_SECOND = 32 * 1024 * 1024
# The scrubber rests so many times as long as it works: it uses 1 / (1 + REST_SHARE) of a core.
REST_SHARE = 9
# The scrubber rests after so many batches or bytes. It holds the interpreter's lock for no longer than these take.
STEP_BATCHES = 64
STEP_BYTES = 1024 * 1024
LOWEST_PRIORITY = 19

_log = logging.getLogger(__name__)


class _Closed(NamedTuple):
    """A segment that is closed: nothing is appended to it any more."""

    partition: Partition
    segment: Segment
    # The base offset of the next segment.
    end_offset: int


class Scrubber:
    """The scrubber of one broker. `start` it once the topics are open, `stop` it before their logs are closed."""

    def __init__(self, config: BrokerConfig, topics: Topics, timers: Timers, disk: Disk) -> None:
        self._config = config
        self._topics = topics
        self._timers = timers
        self._disk = disk
        self._stopping = threading.Event()
        self._round: asyncio.Future[None] | None = None
        # Errors that were logged. Bounded by the number of segments.
        self._logged: set[str] = set()

    def start(self) -> None:
        """Schedule the first round."""
        self._loop = asyncio.get_running_loop()
        self._schedule_round()

    async def stop(self) -> None:
        """Return when nothing is read any more: after one step at most."""
        self._stopping.set()
        await self.wait_idle()

    async def wait_idle(self) -> None:
        """Return when no round is under way."""
        if self._round is not None:
            await asyncio.wait([self._round])

    def _schedule_round(self) -> None:
        interval_ms = self._config.log_scrub_interval_ms
        if interval_ms and not self._stopping.is_set():
            self._timers.after(interval_ms, self._begin_round)

    def _begin_round(self) -> None:
        closed = [
            _Closed(partition, segment, following.base_offset)
            for partition in self._topics.partitions()
            if partition.is_online
            for segment, following in pairwise(partition.log.segments)
        ]
        self._round = in_thread(lambda: self._run(closed), "odradek-scrub")
        self._round.add_done_callback(self._round_done)

    def _round_done(self, finished: asyncio.Future[None]) -> None:
        self._round = None
        if not finished.cancelled() and (error := finished.exception()) is not None:
            _log.error("the scrubber failed: %s", error, exc_info=error)
        self._schedule_round()

    # -- In the thread

    def _run(self, closed: list[_Closed]) -> None:
        with contextlib.suppress(OSError, AttributeError):  # a system without priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        for each in closed:
            try:
                self._scrub(each)
            except Stopped:
                return
            except StorageError as error:
                # The files of a retired segment have other names, or are gone.
                if not each.segment.is_retired:
                    self._on_loop(self._unreadable_segment, each.partition, error)

    def _scrub(self, each: _Closed) -> None:
        if each.segment.is_retired or not each.partition.is_online:
            return
        reading = scrub(each.segment.twin(), each.end_offset, self._disk, self._stopping.is_set)
        is_through = False
        while not is_through:
            started = time.monotonic()
            read_bytes, is_through = self._step(each, reading)
            spent_s = time.monotonic() - started
            self._stopping.wait(max(spent_s * REST_SHARE, read_bytes / MAX_BYTES_PER_SECOND - spent_s))
            if self._stopping.is_set():
                raise Stopped

    def _step(self, each: _Closed, reading: Iterator[int | Damage]) -> tuple[int, bool]:
        """Read a little; return how many bytes, and whether that was all."""
        read_bytes = 0
        for _ in range(STEP_BATCHES):
            found = next(reading, None)
            if found is None:
                return read_bytes, True
            if isinstance(found, Damage):
                self._on_loop(self._found, each, found)
                read_bytes += found.size
            else:
                read_bytes += found
            if read_bytes >= STEP_BYTES:
                break
        return read_bytes, False

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has stopped
            self._loop.call_soon_threadsafe(call, *arguments)

    # -- On the event loop again

    def _found(self, each: _Closed, damage: Damage) -> None:
        if not each.segment.is_retired:
            each.segment.mark(damage.position, damage.why, damage.end)
            each.partition.report_damage(damage.error())

    def _unreadable_segment(self, partition: Partition, error: StorageError) -> None:
        if error.message not in self._logged:
            self._logged.add(error.message)
            _log.error("%s-%d could not be checked: %s", partition.topic, partition.index, error.message)
