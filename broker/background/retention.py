"""Retention: deletes the oldest segments of topics whose cleanup.policy has `delete`.

A round begins every log.retention.check.interval.ms. It looks at partitions in turns of the event loop and drops a few
segments at a time, so that no client waits for it. A dropped segment is out of sight at once; its files are removed
later (file_removal.py).

Retention never passes the last stable offset, because uncommitted records and open transactions still need what lies
there. It skips internal topics: they are compacted, never cut by age.

DeleteRecords moves the start of a log too, and drops the segments that lie wholly below it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from ...storage.errors import LogClosed, StorageError
from ...storage.retention import LogFacts, Policy, facts_of, new_start, policy_named
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..threads import BackgroundWork, Work
from ..timers import Timers
from ..topics.partition import Partition
from ..topics.topics import Topics
from ..turns import keeper
from .file_removal import FileRemoval

# The keeper's clock ends turns between steps. To drop a segment takes a rename; a step looks at all segments once.
SEGMENTS_A_STEP = 16
# A broker that starts has other things to do first; Kafka's log.initial.task.delay.ms.
FIRST_CHECK_MS = 30_000

_log = logging.getLogger(__name__)


class RecordDeletion:
    """Drops segments, a few a step, so that no client waits for it."""

    def __init__(self, file_removal: FileRemoval) -> None:
        self._file_removal = file_removal

    def delete_records(self, partition: Partition, offset: int) -> None:
        """Make `offset` the log start offset at once; drop the segments below it in this and the next turns.

        OffsetOutOfRange if it is past the end of the log, KAFKA_STORAGE_ERROR if the disk has failed.
        """
        partition.log.advance_log_start(offset, 0)
        partition.note_log_start()
        keeper().run(self._drop_all(partition))

    def drop_segments(self, partition: Partition) -> bool:
        """Drop a few segments that lie wholly below the log start offset; return whether there may be more."""
        log, before = partition.log, partition.log.size_bytes
        try:
            log.advance_log_start(log.log_start_offset, SEGMENTS_A_STEP)
        except LogClosed:
            # The topic was deleted meanwhile, or the disk has failed before.
            return False
        except StorageError as error:
            _log.error("segments of %s could not be dropped: %s", partition, error.message)
            partition.note_failure(error)
            return False
        finally:
            self._file_removal.remove_segments(partition)
        return log.size_bytes < before

    def _drop_all(self, partition: Partition) -> Iterator[None]:
        while partition.is_online and self.drop_segments(partition):
            yield


class Retention:
    """The rounds of one broker. `start` them once its topics are open; they end with the broker's timers."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        timers: Timers,
        clock: Clock,
        work: BackgroundWork,
        record_deletion: RecordDeletion,
        file_removal: FileRemoval,
    ) -> None:
        self._config = config
        self._topics = topics
        self._timers = timers
        self._clock = clock
        self._work = work
        self._record_deletion = record_deletion
        self._file_removal = file_removal
        self._policy: Policy = policy_named(config.log_retention_policy)
        # Partitions that this round has yet to look at. Invariant: while it is not empty a turn is scheduled.
        self._due: deque[Partition] = deque()

    def start(self) -> None:
        """Schedule the first round."""
        self._timers.after(min(self._config.log_retention_check_interval_ms, FIRST_CHECK_MS), self._begin_round)

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return bool(self._due)

    # -- Rounds

    def _begin_round(self) -> None:
        self._timers.after(self._config.log_retention_check_interval_ms, self._begin_round)
        self.check()

    def check(self, name: str | None = None) -> None:
        """Begin a round, unless one is still under way: of every topic, or of the one of that name."""
        if self._due:
            return
        for topic in self._topics.all():
            if name in (None, topic.name) and "delete" in topic.config.cleanup_policy and not topic.is_internal:
                self._due.extend(topic.partitions)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if self._due:
            keeper().queue(self._turn)

    def _turn(self) -> None:
        partition = self._due[0]
        if partition.is_online and not all(each.knows_times for each in partition.log.segments[:SEGMENTS_A_STEP]):
            self._load_times(partition)
        else:
            self._check_next()

    def _load_times(self, partition: Partition) -> None:
        """Read how old the segments are from disk, in a thread; then go on."""
        log, loop = partition.log, asyncio.get_running_loop()
        view = log.view()

        def loaded() -> None:
            log.learn(view)
            self._check_next()

        def load() -> None:
            try:
                view.load_times(SEGMENTS_A_STEP)
            finally:
                loop.call_soon_threadsafe(loaded)

        failed = f"the times of {partition} could not be read"
        self._work.run(load, log.directory.parent, failed, Work.LOOK_UP)

    def _check_next(self) -> None:
        partition = self._due.popleft()
        topic = self._topics.get(partition.topic)
        # The topic may have been deleted since, and another one may have its name.
        if topic is not None and topic.partition(partition.index) is partition and self._retain(partition):
            self._due.appendleft(partition)
        self._schedule_turn()

    # -- One partition

    def _retain(self, partition: Partition) -> bool:
        """Drop what the policy no longer retains, a few segments; return whether there is more."""
        if not partition.is_online:
            return False
        log = partition.log
        facts = facts_of(log, self._clock.now_ms(), partition.last_stable_offset)
        try:
            start = new_start(self._policy, facts)
        except StorageError as error:
            self._failed(partition, error)
            return False
        except Exception:  # noqa: BLE001 - the policy may be anybody's code: log its failure and go on
            _log.exception("retention policy %s failed", self._config.log_retention_policy)
            return False
        if start <= log.log_start_offset:
            return self._record_deletion.drop_segments(partition)
        if start >= log.log_end_offset and len(facts.segments) <= SEGMENTS_A_STEP:
            return self._advance(partition, start, lambda: log.begin_anew(facts.now_ms))
        return self._advance(partition, start, lambda: log.advance_log_start(_next_start(facts, start)))

    def _advance(self, partition: Partition, start: int, advance: Callable[[], None]) -> bool:
        log, before = partition.log, partition.log.size_bytes
        try:
            advance()
        except StorageError as error:
            self._failed(partition, error)
            return False
        finally:
            self._file_removal.remove_segments(partition)
        partition.note_log_start()
        text = "%s begins at offset %d now: retention removed %d bytes"
        _log.info(text, partition, log.log_start_offset, before - log.size_bytes)
        return log.log_start_offset < start

    def _failed(self, partition: Partition, error: StorageError) -> None:
        _log.error("retention of %s failed: %s", partition, error.message)
        partition.note_failure(error)


def _next_start(facts: LogFacts, start: int) -> int:
    """Return how far the log start may move in one turn. The active segment is dropped last of all."""
    ends = [each.end_offset for each in facts.segments[:SEGMENTS_A_STEP]]
    return min(start, ends[-1])
