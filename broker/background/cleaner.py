"""The cleaner: compacts the dirtiest partition of all compacted topics first, one at a time, beside the event loop.

The cleaner chooses segments, and a process of its own (compaction_process.py) compacts them. The process runs only
while there is something to clean. Its result replaces the segments by a few renames a group, between two requests.

A partition that cannot be cleaned (a damaged batch) gets one line in the log. As in Kafka, the cleaner leaves it alone
until the next start; clients still read and write it. Without room, it waits for the next round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...storage.config import LogConfig
from ...storage.errors import DiskError, StorageError, may_pass
from ...storage.files import Disk
from ...storage.segments import swap
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..log_dirs.log_dirs import LogDirs
from ..threads import DiskThreads, Work
from ..timers import TimerHandle, Timers
from ..topics.flusher import Flusher
from ..topics.partition import Partition
from ..topics.topic import Topic
from ..topics.topics import Topics
from ..turns import keeper
from .compaction_process import CompactionFailed, CompactionProcess
from .file_removal import FileRemoval

if TYPE_CHECKING:
    # The first look for something to clean imports these, so that no start waits for them.
    from ...storage.compaction.compaction import Cleaned
    from ...storage.compaction.plan import Cleanable

# An idle broker looks at its compacted topics no more often than this, whatever log.cleaner.backoff.ms says.
MIN_BACKOFF_MS = 50

_log = logging.getLogger(__name__)


class _Dirty(NamedTuple):
    """A partition that is due for cleaning, and its segments."""

    topic: Topic
    partition: Partition
    found: Cleanable


class Cleaner:
    """The cleaner of one broker. `start` it once the topics are open, `stop` it before their logs are closed."""

    def __init__(
        self,
        config: BrokerConfig,
        log_dirs: LogDirs,
        topics: Topics,
        timers: Timers,
        clock: Clock,
        disk: Disk,
        flusher: Flusher,
        threads: DiskThreads,
        file_removal: FileRemoval,
    ) -> None:
        self._config = config
        self._dirs = log_dirs
        self._topics = topics
        self._timers = timers
        self._clock = clock
        self._disk = disk
        self._flusher = flusher
        self._threads = threads
        self._file_removal = file_removal
        self._uncleanable: dict[Partition, LogConfig] = {}
        # What this round could not clean, for a reason that may pass.
        self._postponed: set[Partition] = set()
        self._round: asyncio.Task[None] | None = None
        self._rest: TimerHandle | None = None
        self._process = CompactionProcess()
        self._is_stopping = False
        self._is_imported = False

    def start(self) -> None:
        """Schedule the first round."""
        if self._config.log_cleaner_enable and self._config.log_cleaner_threads:
            self._schedule_round()

    def reconfigure(self) -> None:
        """Rest no longer than log.cleaner.backoff.ms says now."""
        if self._rest is not None and self._rest.active and self._rest.deadline_ms > self._next_round_ms():
            self._rest.cancel()
            self._schedule_round()

    async def stop(self) -> None:
        """Abandon the cleaning that is under way. A replacement of segments that has begun is completed."""
        self._is_stopping = True
        self._process.kill()
        if self._round is not None:
            await asyncio.wait([self._round])
        await self._process.wait_ended()

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return self._round is not None

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that this broker holds no longer."""
        for each in partitions:
            self._uncleanable.pop(each, None)

    # -- Rounds

    def clean_now(self, topic: Topic) -> None:
        """Begin a round that cleans one topic, however little of it is dirty. Not while a round is under way."""
        if self._rest is not None:
            self._rest.cancel()
        self._watch(self._clean_topic(topic))

    async def _clean_topic(self, topic: Topic) -> None:
        await self._threads.alone(_import_compaction, "odradek-import")
        for partition in topic.partitions:
            found = self._look_at(topic, partition)
            if found is not None and found.dirty_bytes:
                await self._clean(_Dirty(topic, partition, found))
        await self._end_process()

    def _schedule_round(self) -> None:
        if not self._is_stopping:
            self._rest = self._timers.at(self._next_round_ms(), lambda: self._watch(self._run_round()))

    def _next_round_ms(self) -> int:
        """Return the time of a round if the rest begins now, by the monotonic clock."""
        return self._clock.monotonic_ms() + max(self._config.log_cleaner_backoff_ms, MIN_BACKOFF_MS)

    def _watch(self, cleaning: Coroutine[Any, Any, None]) -> None:
        self._postponed.clear()
        self._round = asyncio.ensure_future(cleaning)
        self._round.add_done_callback(self._round_done)

    async def _run_round(self) -> None:
        while (dirty := await self._dirtiest()) is not None and not self._is_stopping:
            await self._clean(dirty)
        await self._end_process()

    def _round_done(self, finished: asyncio.Task[None]) -> None:
        self._round = None
        if not finished.cancelled() and (error := finished.exception()) is not None:
            _log.error("the cleaner failed: %s", error, exc_info=error)
        self._schedule_round()

    async def _dirtiest(self) -> _Dirty | None:
        """Return the partition to clean next. Look at a part of the partitions a turn of the event loop."""
        best: _Dirty | None = None
        candidates = self._candidates()
        if candidates and not self._is_imported:
            await self._threads.alone(_import_compaction, "odradek-import")
            self._is_imported = True
        for topic, partition in candidates:
            await keeper().pause()
            found = self._cleanable(topic, partition)
            if found is not None and (best is None or found.dirty_ratio > best.found.dirty_ratio):
                best = _Dirty(topic, partition, found)
        # The topic may have been deleted meanwhile, and another one may have its name.
        is_there = best is not None and self._topics.get(best.topic.name) is best.topic
        return best if is_there else None

    def _candidates(self) -> list[tuple[Topic, Partition]]:
        """Return the compacted partitions with a closed segment. The active one is never cleaned.

        Most partitions of a broker with thousands have no other, and this passes over one in 0.2 us instead of 10.
        """
        compacted = [each for each in self._topics.all() if each.config.is_compacted]
        return [
            (topic, each)
            for topic in compacted
            for each in topic.partitions
            if each.is_online and len(each.log.segments) > 1
        ]

    def _cleanable(self, topic: Topic, partition: Partition) -> Cleanable | None:
        """Return the dirty segments of a partition if it is due for cleaning."""
        found = self._look_at(topic, partition)
        return found if found is not None and found.is_due(partition.log.config) else None

    def _look_at(self, topic: Topic, partition: Partition) -> Cleanable | None:
        """Return the segments of a partition that can be cleaned; None where the cleaner leaves it alone."""
        is_there = self._topics.get(topic.name) is topic and partition.is_online
        if not is_there or partition in self._postponed:
            return None
        if self._uncleanable.get(partition) is partition.log.config:
            return None
        from ...storage.compaction.plan import cleanable

        clean_up_to = self._dirs.cleaner_offset(partition.place, partition.log)
        try:
            return cleanable(partition.log, clean_up_to, partition.last_stable_offset, self._clock.now_ms())
        except StorageError as error:
            self._give_up(partition, error)
            return None

    # -- One cleaning

    async def _clean(self, dirty: _Dirty) -> None:
        topic, partition = dirty.topic, dirty.partition
        log_start = partition.log.log_start_offset
        try:
            await self._compact(dirty)
        except (CompactionFailed, StorageError, OSError) as error:
            # Deletion of the topic, retention, or a leader may have removed or cut the files meanwhile.
            log = partition.log
            is_same = self._topics.get(topic.name) is topic and log.log_start_offset == log_start
            is_same = is_same and log.cuts == dirty.found.cuts
            if is_same and not self._is_stopping:
                self._give_up(partition, error)
                if isinstance(error, StorageError):
                    partition.note_failure(error)
        if self._process.is_working:
            # The process stops in the middle of this job: the next job gets a new process.
            await self._end_process()
        if partition.is_online:
            directory = partition.log.directory
            await self._in_thread(directory.parent, self._tidy(partition), f"files are left in {directory}")

    async def _compact(self, dirty: _Dirty) -> None:
        from ...storage.compaction.compaction import Cleaned
        from ...storage.compaction.plan import job_of

        topic, partition, found = dirty
        # A full disk may have kept the last cleaning from it.
        await self._wait_for(partition.log.directory.parent, self._tidy(partition))
        # job_of says why.
        await self._flusher.flush(partition)
        buffer_bytes = self._config.log_cleaner_dedupe_buffer_size
        job = job_of(partition.log, found, self._clock.now_ms(), buffer_bytes)
        async for report in self._process.run(job, self._config.log_cleaner_io_max_bytes_per_second):
            if "end" in report:
                # The topic may have been deleted meanwhile, and another one may have its name.
                is_same = self._topics.get(topic.name) is topic and partition.is_online
                if is_same and partition.log.cuts == found.cuts:
                    await self._note_clean(partition, int(report["end"]), report["stats"])
            elif not await self._replace(partition, found, Cleaned(*report["group"])):
                break

    async def _replace(self, partition: Partition, found: Cleanable, group: Cleaned) -> bool:
        """Replace segments by their compacted group. False if the log has changed: the rest waits for another round."""
        at = next(at for at, each in enumerate(found.segments) if each.base_offset == group.base_offset)
        old, log, disk = found.segments[at : at + group.sources], partition.log, self._disk
        if group.size < 0:
            return True
        if not _holds(partition, found, old):
            return False
        with self._flusher.swapping(partition):
            await self._wait_for(log.directory.parent, partial(swap.prepare, log.directory, group.base_offset, disk))
            if is_there := _holds(partition, found, old):
                log.replace_segments(old, group.base_offset, group.size, group.aborted_bytes, self._clock.now_ms())
                self._file_removal.remove_segments(partition)
            await self._wait_for(log.directory.parent, partial(swap.finish, log.directory, group.base_offset, disk))
        return is_there

    async def _note_clean(self, partition: Partition, end_offset: int, stats: dict[str, int]) -> None:
        _log.info(
            "%s is clean up to offset %d: %d bytes read, %d written, %d of %d records stay", partition, end_offset,
            stats["bytes_read"], stats["bytes_written"], stats["records_kept"], stats["records_read"],
        )  # fmt: skip
        self._dirs.note_cleaned(partition.place, partition.log, end_offset)
        home = partition.log.directory.parent
        write = self._topics.take_checkpoint().writers.get(home)
        if write is not None:  # otherwise its disk has failed meanwhile
            await self._in_thread(home, write, "how far partitions are clean could not be noted")

    async def _end_process(self) -> None:
        self._process.kill()
        await self._process.wait_ended()

    def _tidy(self, partition: Partition) -> Callable[[], None]:
        return partial(swap.tidy, partition.log.directory, self._disk)

    def _wait_for(self, directory: Path, work: Callable[[], None]) -> asyncio.Future[None]:
        return self._threads.run(Work.BACKGROUND, directory, work)

    async def _in_thread(self, directory: Path, work: Callable[[], None], failed: str) -> None:
        try:
            await self._wait_for(directory, work)
        except (DiskError, OSError) as error:
            _log.error("%s: %s", failed, error)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        passes = error.may_pass if isinstance(error, CompactionFailed) else may_pass(error)
        if passes:
            self._postponed.add(partition)
        elif partition.is_online:
            # Its configs may be the reason, such as max.decompressed.message.bytes: a change of them is worth a try.
            self._uncleanable[partition] = partition.log.config
        until = "the next round" if passes else "a restart, or a change of its configs"
        _log.error("%s is not cleaned any more until %s: %s", partition, until, error)


def _import_compaction() -> None:
    """Import what the first cleaning needs. A thread does it, because it takes some 10 ms."""
    for name in ("plan", "worker"):
        import_module(f"...storage.compaction.{name}", __package__)


def _holds(partition: Partition, found: Cleanable, segments: tuple[Any, ...]) -> bool:
    """Return whether the log still has these segments, side by side, as they were found."""
    if not partition.is_online or partition.log.cuts != found.cuts:
        return False
    present = partition.log.segments
    return segments[0] in present and present[(at := present.index(segments[0])) : at + len(segments)] == segments
