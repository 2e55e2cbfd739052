"""The cleaner: compacted topics are cleaned, the dirtiest partition first, one at a time, beside the event loop.

The work is done by a process of its own (storage/compaction/worker.py), which is started when there is something to
clean and ends when there is not; here segments are chosen, and what it has written is put in their place: some renames
a group, between two requests. A partition that cannot be cleaned (a damaged batch) is told in the log once, and left
alone until the broker is started again, as in Kafka; reading and writing it goes on.

`cleaner-offset-checkpoint` says how far each partition is clean. Without it, or with an old one, a cleaning does some
work a second time.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...storage import checkpoints
from ...storage.compaction import worker as compaction_worker
from ...storage.compaction.compaction import Cleaned, Job
from ...storage.compaction.plan import Cleanable, CleaningRules, cleanable, job_of
from ...storage.errors import DiskError, StorageError
from ...storage.segments import swap
from ..configs.topic_config import TopicConfig
from ..topics.partition import Partition
from ..topics.topic import Topic
from .retention import Background

if TYPE_CHECKING:
    from ..server import Broker

CHECKPOINT = "cleaner-offset-checkpoint"
# The longest line of the worker's: a group is four numbers, an error names a file.
MAX_LINE_BYTES = 1 << 20
# An idle broker looks at its compacted topics no more often than this, whatever log.cleaner.backoff.ms says.
MIN_BACKOFF_MS = 50

_log = logging.getLogger(__name__)


class CleaningFailed(Exception):
    """The worker could not do a job; the text says why."""


class Cleaner:
    """Of one broker. `start` once its topics are open, `stop` before their logs are closed."""

    def __init__(self, broker: "Broker", background: Background) -> None:
        self._broker = broker
        self._background = background
        self._clean_up_to: dict[tuple[str, int], int] = {}
        self._uncleanable: set[Partition] = set()
        self._round: asyncio.Task[None] | None = None
        self._worker = Worker()
        self._is_stopping = False
        self._writing = Lock()  # the checkpoint: one writer at a time

    def start(self) -> None:
        """Reads how far the partitions are clean, and arms the first round."""
        if not self._broker.config.log_cleaner_enable or not self._broker.config.log_cleaner_threads:
            return
        for directory in self._directories():
            try:
                self._clean_up_to.update(checkpoints.read_offsets(directory / CHECKPOINT, self._broker.disk))
            except StorageError as error:
                _log.warning("all compacted partitions of %s count as dirty: %s", directory, error.message)
        self._arm()

    async def stop(self) -> None:
        """What is being cleaned stays as it was; a swap that has begun is ended."""
        self._is_stopping = True
        self._worker.kill()
        if self._round is not None:
            await asyncio.wait([self._round])
        await self._worker.ended()

    @property
    def is_busy(self) -> bool:
        """Whether something is being cleaned."""
        return self._round is not None

    def forget(self, topic: Topic) -> None:
        """A topic was deleted: another one of its name begins dirty."""
        directories: set[Path] = set()
        for partition in topic.partitions:
            self._uncleanable.discard(partition)
            if self._clean_up_to.pop((topic.name, partition.index), None) is not None:
                directories.add(partition.log.directory.parent)
        for directory in directories:
            self._background(self._checkpoint(directory), f"the cleaner still knows of the deleted topic {topic.name}")

    # Rounds.

    def _arm(self) -> None:
        if not self._is_stopping:
            self._broker.timers.after(max(self._broker.config.log_cleaner_backoff_ms, MIN_BACKOFF_MS), self._begin)

    def _begin(self) -> None:
        if self._dirtiest() is None:
            self._arm()
            return
        self._round = asyncio.ensure_future(self._run())
        self._round.add_done_callback(self._done)

    async def _run(self) -> None:
        while not self._is_stopping and (found := self._dirtiest()) is not None:
            await self._clean(*found)
        self._worker.kill()
        await self._worker.ended()

    def _done(self, finished: "asyncio.Task[None]") -> None:
        self._round = None
        if not finished.cancelled() and (error := finished.exception()) is not None:
            _log.error("the cleaner failed: %s", error, exc_info=error)
        self._arm()

    def _dirtiest(self) -> tuple[Topic, Partition, Cleanable] | None:
        """What is to be cleaned next."""
        best: tuple[Topic, Partition, Cleanable] | None = None
        for topic in self._broker.topics.all():
            if not topic.config.is_compacted:
                continue
            for partition in topic.partitions:
                found = self._look_at(topic, partition)
                if found is not None and (best is None or found.dirty_ratio > best[2].dirty_ratio):
                    best = topic, partition, found
        return best

    def _look_at(self, topic: Topic, partition: Partition) -> Cleanable | None:
        """What is dirty of a partition, if it is time to clean it."""
        if not partition.is_online or partition in self._uncleanable:
            return None
        rules, log = rules_of(topic.config), partition.log
        clean_up_to = self._clean_up_to.get((topic.name, partition.index))
        try:
            now_ms = self._broker.clock.now_ms()
            found = cleanable(log, clean_up_to, partition.last_stable_offset, rules, now_ms)
        except StorageError as error:
            self._give_up(partition, error.message)
            return None
        return found if found.is_due(rules) else None

    # One cleaning.

    async def _clean(self, topic: Topic, partition: Partition, found: Cleanable) -> None:
        config, log = self._broker.config, partition.log
        now_ms, log_start = self._broker.clock.now_ms(), log.log_start_offset
        job = job_of(log, found, rules_of(topic.config), now_ms, config.log_cleaner_dedupe_buffer_size)
        try:
            async for said in self._worker.work(job, config.log_cleaner_io_max_bytes_per_second):
                if "end" in said:
                    await self._cleaned(partition, int(said["end"]), said["stats"])
                elif not await self._put_in_place(partition, found, Cleaned(*said["group"])):
                    break
        except (CleaningFailed, StorageError, OSError) as error:
            # A deletion or retention may have taken the files away under it.
            is_same = self._broker.topics.get(topic.name) is topic and log.log_start_offset == log_start
            if is_same and not self._is_stopping:
                self._give_up(partition, str(error))
        if self._worker.is_working:
            # It stops in the middle of this one: the next gets a new process.
            self._worker.kill()
            await self._worker.ended()
        await _in_thread(lambda: swap.tidy(log.directory, self._broker.disk), f"files are left in {log.directory}")

    async def _put_in_place(self, partition: Partition, found: Cleanable, group: Cleaned) -> bool:
        """False where the log is not any more what it was when the cleaning began: the rest is for another time."""
        at = next(at for at, each in enumerate(found.segments) if each.base_offset == group.base_offset)
        old, log, disk = found.segments[at : at + group.sources], partition.log, self._broker.disk
        if group.size < 0:
            return True
        if not _holds(partition, old):
            return False
        await asyncio.to_thread(swap.prepare, log.directory, group.base_offset, disk)
        if not _holds(partition, old):
            await asyncio.to_thread(swap.abandon, log.directory, group.base_offset, disk)
            return False
        now_ms = self._broker.clock.now_ms()
        try:
            swap.install(log, old, group.base_offset, group.size, group.aborted_bytes, now_ms, disk)
        finally:
            self._broker.housekeeping.collect(partition)
        await asyncio.to_thread(disk.fsync_dir, log.directory)
        return True

    async def _cleaned(self, partition: Partition, end_offset: int, stats: dict[str, int]) -> None:
        name = f"{partition.topic}-{partition.index}"
        _log.info(
            "%s is clean up to offset %d: %d bytes read, %d written, %d of %d records stay", name, end_offset,
            stats["bytes_read"], stats["bytes_written"], stats["records_kept"], stats["records_read"],
        )  # fmt: skip
        self._clean_up_to[partition.topic, partition.index] = end_offset
        write = self._checkpoint(partition.log.directory.parent)
        await _in_thread(write, "how far partitions are clean could not be noted")

    def _checkpoint(self, directory: Path) -> Callable[[], None]:
        """Notes how far the partitions in one data directory are clean; the call that is returned writes it."""
        points = {
            key: self._clean_up_to[key]
            for partition in self._broker.topics.partitions()
            if (key := (partition.topic, partition.index)) in self._clean_up_to
            and partition.log.directory.parent == directory
        }

        def write() -> None:
            with self._writing:
                checkpoints.write_offsets(directory / CHECKPOINT, points, self._broker.disk)

        return write

    def _directories(self) -> set[Path]:
        return {each.log.directory.parent for each in self._broker.topics.partitions()}

    def _give_up(self, partition: Partition, why: str) -> None:
        self._uncleanable.add(partition)
        _log.error("%s-%d is not cleaned any more until a restart: %s", partition.topic, partition.index, why)


class Worker:
    """The process, started with its first job."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        self.is_working = False  # it was given a job and has not told its end

    async def work(self, job: Job, bytes_per_second: float) -> AsyncIterator[dict[str, Any]]:
        """What it says of a job, up to its end. Raises CleaningFailed, OSError."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", compaction_worker.__name__, limit=MAX_LINE_BYTES,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            if self._killed:
                self.kill()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        self.is_working = True
        process.stdin.write(compaction_worker.job_to_json(job, bytes_per_second).encode() + b"\n")
        await process.stdin.drain()
        while self.is_working:
            line = await process.stdout.readline()
            if not line:
                raise CleaningFailed("the process that cleans has ended")
            said: dict[str, Any] = json.loads(line)
            self.is_working = "group" in said
            if "error" in said:
                raise CleaningFailed(said["error"])
            yield said

    def kill(self) -> None:
        """End it at once; it holds nothing that is needed."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def ended(self) -> None:
        """Returns when it has; another job gets another process."""
        if self._process is not None:
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = None
        self._killed = self.is_working = False


def rules_of(config: TopicConfig) -> CleaningRules:
    """What a topic's configs say of its cleaning."""
    return CleaningRules(
        config.min_cleanable_dirty_ratio,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.delete_retention_ms,
    )


def _holds(partition: Partition, segments: tuple[Any, ...]) -> bool:
    """Whether the log still has these segments, side by side."""
    if not partition.is_online:
        return False
    there = partition.log.segments
    return segments[0] in there and there[(at := there.index(segments[0])) : at + len(segments)] == segments


async def _in_thread(work: Callable[[], None], what: str) -> None:
    try:
        await asyncio.to_thread(work)
    except (DiskError, OSError) as error:
        _log.error("%s: %s", what, error)
