"""What goes by itself: segments that retention lets go, and the files of what was deleted.

Every `log.retention.check.interval.ms` each topic whose cleanup.policy has `delete` is looked at, a partition a turn of
the event loop and a few segments at a time, so that nobody waits for it. Segments that go are out of every reader's
sight at once, but who reads one already reads on: their files are called `.deleted`, and are removed in a thread after
`file.delete.delay.ms`, by the next start where the broker stops before.

Nothing past the last stable offset goes: what is not committed, and what an open transaction may need. The broker's
own topics are compacted, never cut by age.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...storage.deleted_directory import remove_directory
from ...storage.errors import StorageError
from ...storage.files import Disk
from ...storage.log import Log
from ...storage.retention import LogFacts, Policy, facts_of, new_start, policy_named
from ...storage.segments.segment import Segment
from ..topics.partition import Partition

if TYPE_CHECKING:
    from ..server import Broker
    from ..topics.topic import Topic

# Each is a rename: a turn of the loop takes a millisecond or two at most.
SEGMENTS_A_TURN = 16
# A broker that starts has other things to do first; Kafka's log.initial.task.delay.ms.
FIRST_CHECK_MS = 30_000

# Work in a thread, and what the log says should it fail.
Background = Callable[[Callable[[], None], str], None]

_log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work of one broker. `start` once its topics are open; it ends with the broker's timers."""

    def __init__(self, broker: "Broker", background: Background) -> None:
        self._broker = broker
        self._background = background
        self._policy: Policy = policy_named(broker.config.log_retention_policy)
        # Partitions that this round has yet to look at. Invariant: while it is not empty a turn is scheduled.
        self._due: deque[Partition] = deque()
        self._checkpoint: asyncio.Future[None] | None = None
        self._next_checkpoint: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Arms the first check."""
        interval_ms = self._broker.config.log_retention_check_interval_ms
        self._broker.timers.after(min(interval_ms, FIRST_CHECK_MS), self._check)

    @property
    def is_busy(self) -> bool:
        """Whether a check is on its way through the partitions."""
        return bool(self._due)

    # Retention.

    def _check(self) -> None:
        self._broker.timers.after(self._broker.config.log_retention_check_interval_ms, self._check)
        self.check()

    def check(self) -> None:
        """Looks at every partition, turn by turn."""
        if self._due:
            return  # the last round is not through: one is enough
        for topic in self._broker.topics.all():
            if "delete" in topic.config.cleanup_policy and not topic.is_internal:
                self._due.extend(topic.partitions)
        if self._due:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        partition = self._due[0]
        if partition.is_online and not all(each.knows_times for each in partition.log.segments[:SEGMENTS_A_TURN]):
            self._load_times(partition)
        else:
            self._look_at_next()

    def _load_times(self, partition: Partition) -> None:
        """Asks the disk how old the segments are, in a thread; then goes on."""
        log, loop = partition.log, asyncio.get_running_loop()
        view = log.view()

        def loaded() -> None:
            log.learn(view)
            self._look_at_next()

        def load() -> None:
            try:
                view.load_times(SEGMENTS_A_TURN)
            finally:
                loop.call_soon_threadsafe(loaded)

        self._background(load, f"the times of {partition.topic}-{partition.index} could not be read")

    def _look_at_next(self) -> None:
        partition = self._due.popleft()
        topic = self._broker.topics.get(partition.topic)
        # It may be deleted by now, and another one have its name.
        if topic is not None and topic.partition(partition.index) is partition and self._retain(partition):
            self._due.appendleft(partition)
        if self._due:
            asyncio.get_running_loop().call_soon(self._turn)

    def _retain(self, partition: Partition) -> bool:
        """Lets go what the policy says; True if there is more to be done."""
        if not partition.is_online:
            return False
        log = partition.log
        facts = facts_of(log, self._broker.clock.now_ms(), partition.last_stable_offset)
        try:
            start = new_start(self._policy, facts)
        except StorageError as error:
            self._failed(partition, error)
            return False
        except Exception:  # noqa: BLE001 - the policy may be anybody's: it is told, and costs nobody else anything
            _log.exception("retention policy %s failed", self._broker.config.log_retention_policy)
            return False
        if start <= log.log_start_offset:
            return self.drop(partition)
        if start >= log.log_end_offset and len(facts.segments) <= SEGMENTS_A_TURN:
            return self._advance(partition, facts, start, lambda: log.begin_anew(facts.now_ms))
        # The segment that is written to goes last of all.
        ends = [each.end_offset for each in facts.segments[:SEGMENTS_A_TURN]]
        return self._advance(partition, facts, start, lambda: log.advance_log_start(min(start, ends[-1])))

    def _advance(self, partition: Partition, facts: LogFacts, start: int, advance: Callable[[], None]) -> bool:
        log, before = partition.log, partition.log.size_bytes
        try:
            advance()
        except StorageError as error:
            self._failed(partition, error)
            return False
        finally:
            self.collect(partition)
        _log.info(
            "%s-%d begins at offset %d now, %d bytes went by retention", partition.topic, partition.index,
            log.log_start_offset, before - log.size_bytes,
        )  # fmt: skip
        return log.log_start_offset < start

    def _failed(self, partition: Partition, error: StorageError) -> None:
        _log.error("retention of %s-%d failed: %s", partition.topic, partition.index, error.message)
        partition.note_failure(error)

    # Segments that are below the start already.

    def delete_records(self, partition: Partition, offset: int) -> None:
        """Lets a partition begin at `offset`; whole segments below it follow, a few a turn of the loop.

        OffsetOutOfRange past the end, KAFKA_STORAGE_ERROR where the disk is against it.
        """
        try:
            partition.log.advance_log_start(offset, SEGMENTS_A_TURN)
        except StorageError as error:
            partition.note_failure(error)
            raise
        finally:
            self.collect(partition)
        self._drop_rest(partition)

    def drop(self, partition: Partition) -> bool:
        """Lets a few segments go that are wholly below the start; True if there may be more."""
        log, before = partition.log, partition.log.size_bytes
        try:
            log.advance_log_start(log.log_start_offset, SEGMENTS_A_TURN)
        except StorageError as error:
            self._failed(partition, error)
            return False
        finally:
            self.collect(partition)
        return log.size_bytes < before

    def _drop_rest(self, partition: Partition) -> None:
        if partition.is_online and self.drop(partition):
            asyncio.get_running_loop().call_soon(self._drop_rest, partition)

    def collect(self, partition: Partition) -> None:
        """Sees to it that the segments that have retired from a log are removed when their time has come."""
        log = partition.log
        retired = log.take_retired()
        if retired:
            why = f"files of deleted segments of {partition.topic}-{partition.index} stay in place"
            self.later(log.config.file_delete_delay_ms, lambda: _remove(retired), why)

    def later(self, delay_ms: int, remove: Callable[[], None], failed: str) -> None:
        """Removes files, in a thread, after their delay."""
        self._broker.timers.after(delay_ms, lambda: self._background(remove, failed))

    # Deleted topics.

    def remove_topic(self, topic: "Topic", logs: list[Log]) -> None:
        """The directories of a deleted topic's logs are out of the way: they are removed after file.delete.delay.ms."""
        why = f"files of deleted topic {topic.name} stay in place"
        parents = {log.directory.parent for log in logs}
        disk = self._broker.disk
        for parent in parents:
            self._background(partial(disk.fsync_dir, parent), why)
        self.later(
            topic.config.file_delete_delay_ms, lambda: remove_directories([each.directory for each in logs], disk), why
        )

    def remove_leftovers(self, directories: list[Path]) -> None:
        """What deletions before the last stop had yet to remove."""
        if directories:
            disk = self._broker.disk
            self._background(lambda: remove_directories(directories, disk), "files of deleted topics stay in place")

    # Checkpoints.

    async def checkpoint(self) -> None:
        """Returns when where each partition begins is on disk. Those who ask meanwhile share the next one.

        StorageError where it cannot be written.
        """
        if self._next_checkpoint is None:
            self._next_checkpoint = asyncio.ensure_future(self._run_checkpoint())
        await asyncio.shield(self._next_checkpoint)

    async def _run_checkpoint(self) -> None:
        while self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        self._next_checkpoint = None
        loop = asyncio.get_running_loop()
        self._checkpoint = loop.run_in_executor(None, self._broker.topics.take_checkpoint().write)
        try:
            await self._checkpoint
        finally:
            self._checkpoint = None


def remove_directories(directories: list[Path], disk: Disk) -> None:
    """Removes what deletions have set aside. The first failure is raised after all have been tried."""
    failure: StorageError | None = None
    for each in directories:
        try:
            remove_directory(each, disk)
        except StorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _remove(segments: list[Segment]) -> None:
    for segment in segments:
        segment.unlink()
