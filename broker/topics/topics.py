"""The registry of topics: by name and by id, how they are created, changed, deleted and opened at start.

A topic exists once its record is in the metadata journal. The directories of its partitions follow, and once all of
them exist the topic is served. If one cannot be made, the topic is removed again. After a crash in between, the next
start makes the missing partitions empty. It sets a directory that belongs to no topic aside (`-stray`), and removes
one whose deletion had begun (`-delete`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.errors import StorageError, do_all
from ...storage.files import DISK, Disk
from ...storage.log import Log
from ...storage.recovery_report import recovery_line
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.definition import ConfigError
from ..configs.topic_config import TopicConfig
from ..log_dirs.log_dirs import Checkpoint, LogDirs
from ..purgatory import Purgatory
from ..turns import keeper
from .creation import Creation, Steps
from .disk_failures import DiskFailures
from .flusher import Flusher
from .metadata_journal import Metadata, TopicRecord
from .partition import OfflinePartition, Partition
from .partition_factory import PartitionFactory
from .partition_state import PartitionState, Surroundings
from .producer_limit import ProducerLimit
from .topic import Topic
from .topic_names import (
    CLUSTER_METADATA_TOPIC,
    TRANSACTIONS_TOPIC,
    check_collision,
    check_name,
    check_partition_count,
    new_topic_id,
)

# A stop that closes so many logs of a data directory forces its file system to disk, instead of some six files each:
# 5,000 logs took 16 s, and may take 5. With few, other programs' files on the same file system would cost more.
MANY_LOGS = 100

_log = logging.getLogger(__name__)


class Topics:
    """The topics of this broker. `open_all` at start; `closers` and `last_steps` at stop."""

    def __init__(
        self,
        config: BrokerConfig,
        dirs: LogDirs,
        metadata: Metadata,
        clock: Clock,
        purgatory: Purgatory,
        flusher: Flusher,
        on_offline: Callable[[PartitionState], object],
        disk: Disk = DISK,
    ) -> None:
        """`on_offline` is called for each partition that goes offline."""
        self._config = config
        self._clock = clock
        self._dirs = dirs
        self._metadata = metadata
        self._purgatory = purgatory
        self.disk_failures = DiskFailures(dirs, self.partitions, on_offline)
        self.producer_limit = ProducerLimit(config, clock, self.partitions)
        surroundings = Surroundings(
            clock, purgatory, flusher.schedule, self.disk_failures.partition_failed, self.producer_limit.add
        )
        self.factory = PartitionFactory(config, dirs, metadata, surroundings, self.disk_failures, disk)
        # Invariant: both hold the same topics.
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        # Return the topic of that name, or of that id, or None. Bound once, because each request looks its topics up.
        self.get: Callable[[str], Topic | None] = self._by_name.get
        self.by_id: Callable[[bytes], Topic | None] = self._by_id.get
        # Grows whenever a topic is created, deleted or given partitions.
        self.change_count = 0
        # Topics that have a record, but not all of their partitions yet.
        self._creations: dict[str, Creation] = {}
        # Topics that are served and get more partitions.
        self._growths: dict[str, Creation] = {}
        # Topics that are deleted, and the steps that rename the directories which are left.
        self._deletions: dict[str, Iterator[None]] = {}

    # -- Look-ups --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_name)

    def all(self) -> list[Topic]:
        """Return every topic, in order of name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._by_name)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition, None where there is none."""
        topic = self._by_name.get(name)
        return None if topic is None else topic.partition(index)

    def partitions(self) -> list[Partition]:
        """Return every partition that is online."""
        return [each for topic in self._by_name.values() for each in topic.partitions if each.is_online]

    def producer_epochs(self) -> Iterator[tuple[int, int]]:
        """Yield the id and epoch of each producer in each of these partitions."""
        for each in self.partitions():
            yield from ((producer_id, producer.epoch) for producer_id, producer in each.log.producers.items())

    def is_led_elsewhere(self, name: str, index: int) -> bool:
        """Return whether another broker leads a partition, as far as this one knows."""
        return False

    def requires_fsync(self, place: tuple[str, int]) -> bool:
        """Return whether a partition's topic has flush.messages=1, so that every acknowledged record is on disk."""
        topic = self._by_name.get(place[0])
        return topic is not None and topic.config.flush_messages == 1

    def _with_logs(self) -> list[Partition]:
        """Return every partition that has a log, including those that went offline while the broker ran."""
        every = (each for topic in self._by_name.values() for each in topic.partitions)
        return [each for each in every if not isinstance(each, OfflinePartition)]

    # -- Creation --------------------------------------------------------------------------------------

    def check_new(self, name: str, partitions: int) -> None:
        """Raise the KafkaError of an invalid name, a taken name, or an invalid number of partitions."""
        self.check_free(name)
        check_partition_count(partitions)

    def check_free(self, name: str) -> None:
        """Raise the KafkaError of an invalid name, or of one that is taken."""
        check_name(name)
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self._by_name or name in self._creations:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_collision(name, (*self._by_name, *self._creations))

    def check_config(self, configs: dict[str, str]) -> TopicConfig:
        """Return the effective configs of a topic that sets `configs`. Raises INVALID_CONFIG."""
        try:
            return TopicConfig.resolve(self._config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def create(self, name: str, partitions: int, configs: dict[str, str]) -> Topic:
        """Create a topic, all of it now. Raises KafkaError, as `check_new` and `check_config` do."""
        return self.begin(name, partitions, configs).finish()

    def begin(self, name: str, partitions: int, configs: dict[str, str]) -> Creation:
        """Write the record of a topic; the caller finishes the creation, or waits for it.

        Raises KafkaError, as `check_new` and `check_config` do, and KAFKA_STORAGE_ERROR where every data directory is
        offline.
        """
        self.check_new(name, partitions)
        config = self.check_config(configs)
        self._dirs.check_online()
        if name in self._deletions:
            deque(self._deletions[name], maxlen=0)
        # A power cut could bring back the directory of a deleted topic of this name, perhaps without its topic id.
        self._sync_names()
        self._forget_old_offsets(name)
        record = TopicRecord(name, new_topic_id(), partitions, configs)
        self._metadata.put_topic(record)
        made: list[Partition] = []
        creation = self._creations[name] = Creation(made, self._create(record, config, made))
        return creation

    def coming(self, name: str) -> Creation | None:
        """Return the creation of the topic of that name while it is under way, or None."""
        return self._creations.get(name)

    def _create(self, record: TopicRecord, config: TopicConfig, made: list[Partition]) -> Steps:
        try:
            yield from self._make(record, config, 0, made)
        except KafkaError as error:
            del self._creations[record.name]
            what = "topic %s could be neither created nor removed: %s"
            self._undo(record.name, made, 0, error, partial(self._metadata.delete_topic, record.name), what)
            raise
        del self._creations[record.name]
        count = record.partitions
        _log.info("topic %s created with %d partition%s", record.name, count, "s" if count > 1 else "")
        for partition in made:
            self.disk_failures.note_new(partition)
        topic = self._register(Topic(record, config, made))
        # Those of the broker may have changed meanwhile.
        self._reconfigure(topic, self.check_config(record.configs))
        return topic

    def _make(self, record: TopicRecord, config: TopicConfig, first: int, made: list[Partition]) -> Iterator[None]:
        """Make the partitions of a record from `first` on, one a step."""
        for index in range(first, record.partitions):
            made.append(self.factory.make(record, index, config))
            yield
        self._sync_names()

    def _sync_names(self) -> None:
        """Make the names of partitions' directories durable. Raises StorageError."""
        try:
            self._dirs.sync()
        except StorageError as error:
            self.disk_failures.file_failed(error)
            raise

    def _register(self, topic: Topic) -> Topic:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self.change_count += 1
        return topic

    def _undo(
        self, name: str, made: list[Partition], first: int, cause: KafkaError, unwrite: Callable[[], None], failed: str
    ) -> None:
        """Remove partitions after one could not be made, and their record.

        The record goes even where files stay: a start sets files of no topic aside. If the record stays, the next start
        makes the partitions.
        """
        if isinstance(cause, StorageError):
            # New partitions go to the directory with the fewest: while a dead one counts, it would get each of them.
            self.disk_failures.file_failed(cause)
        for partition in made:
            self._dirs.leave(partition.log)
        indexes = range(first, first + len(made) + 1)
        for remove in (*(partial(self._dirs.unmake, name, index) for index in indexes), unwrite):
            try:
                remove()
            except StorageError as error:
                _log.error(failed, name, error.message)

    def _forget_old_offsets(self, name: str) -> None:
        """Write a checkpoint where the present one knows offsets of a deleted topic of this name."""
        if naming := self._dirs.naming(name):
            self.take_checkpoint().write(naming)

    # -- Growth ----------------------------------------------------------------------------------------

    def check_growth(self, topic: Topic, partitions: int) -> None:
        """Raise the KafkaError that `begin_growth` would raise."""
        if topic.name in self._growths:
            why = f"Topic '{topic.name}' is being given partitions already."
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)
        have = len(topic.partitions)
        if partitions <= have:
            shrunk = f"cannot shrink '{topic.name}' from {have} to {partitions}: partitions can only be added"
            why = shrunk if partitions < have else f"'{topic.name}' has {have} partitions already"
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
        check_partition_count(partitions)

    def begin_growth(self, topic: Topic, partitions: int) -> Creation:
        """Write the record of a topic with more partitions; the caller finishes the creation, or waits for it.

        Raises INVALID_PARTITIONS for a number that is not higher, POLICY_VIOLATION for one that is too high,
        REASSIGNMENT_IN_PROGRESS while other partitions are made.
        """
        self.check_growth(topic, partitions)
        self._dirs.check_online()
        self._forget_old_offsets(topic.name)
        record = replace(self._metadata.topics[topic.name], partitions=partitions)
        self._metadata.put_topic(record)
        made: list[Partition] = []
        growth = self._growths[topic.name] = Creation(made, self._grow(topic, record, made))
        return growth

    def _grow(self, topic: Topic, record: TopicRecord, made: list[Partition]) -> Steps:
        first = len(topic.partitions)
        try:
            yield from self._make(record, topic.config, first, made)
        except KafkaError as error:
            del self._growths[topic.name]
            what = "topic %s could be neither grown nor left as it was: %s"
            self._undo(topic.name, made, first, error, partial(self._put_partition_count, topic.name, first), what)
            raise
        del self._growths[topic.name]
        topic.record = self._metadata.topics[topic.name]
        for partition in made:
            self.disk_failures.note_new(partition)
        topic.partitions.extend(made)
        self.change_count += 1
        self._reconfigure(topic, topic.config)
        _log.info("topic %s has %d partitions now", topic.name, len(topic.partitions))
        return topic

    def _put_partition_count(self, name: str, partitions: int) -> None:
        self._metadata.put_topic(replace(self._metadata.topics[name], partitions=partitions))

    # -- Deletion --------------------------------------------------------------------------------------

    def delete(self, topic: Topic, then: Callable[[list[Log]], None]) -> None:
        """Delete a topic. Its directories are renamed a few a turn; `then` gets the logs, to remove their files.

        A directory that is called `-delete` makes room for a new topic of the old name. If such a topic comes before
        all are renamed, the rest is renamed at once. After a crash the next start removes directories with the new
        name, and sets aside those with the old one.
        """
        growth = self._growths.pop(topic.name, None)
        if growth is not None:
            why = f"topic {topic.name} was deleted"
            growth.cancel(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why))
            topic.partitions.extend(growth.made)
        self._metadata.delete_topic(topic.name)
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self.change_count += 1
        existing = [each for each in topic.partitions if not isinstance(each, OfflinePartition)]
        _log.info("topic %s deleted", topic.name)
        deletion = self._deletions[topic.name] = self._set_aside(topic.name, existing, then)
        keeper().run(deletion)

    def _set_aside(self, name: str, partitions: list[Partition], then: Callable[[list[Log]], None]) -> Iterator[None]:
        """Forget the partitions of a deleted topic, and rename a directory in each step."""
        aside: list[Log] = []
        for partition in partitions:
            self._dirs.leave(partition.log)
            self._purgatory.wake(partition)
            self._purgatory.forget(partition)
            try:
                partition.log.set_aside(durable=False)
                aside.append(partition.log)
            except StorageError as error:
                # The deletion is in the journal already: a start will set the directory aside.
                _log.error("files of deleted topic %s stay in place: %s", name, error.message)
            yield
        del self._deletions[name]
        then(aside)

    # -- Configs ---------------------------------------------------------------------------------------

    def alter(self, topic: Topic, configs: dict[str, str]) -> None:
        """Replace the configs that a topic sets, from the next append on. Raises INVALID_CONFIG."""
        config = self.check_config(configs)
        self._metadata.put_topic(replace(self._metadata.topics[topic.name], configs=configs))
        topic.record = replace(topic.record, configs=configs)
        self._reconfigure(topic, config)
        _log.info("configs of topic %s were changed", topic.name)

    def reconfiguration(self) -> Callable[[], None]:
        """Resolve the configs of every topic again after the broker's changed; return the call that applies them.

        Raises INVALID_CONFIG where a topic's configs do not fit the broker's; nothing has changed then.
        """
        # Thousands of topics have the same few configs.
        known: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        configs: list[tuple[Topic, TopicConfig]] = []
        for topic in self._by_name.values():
            own = frozenset(topic.record.configs.items())
            if own not in known:
                known[own] = self.check_config(topic.record.configs)
            configs.append((topic, known[own]))

        def apply() -> None:
            for topic, config in configs:
                topic.config = config
            keeper().run_now(self._configure([topic for topic, _ in configs]))

        return apply

    def _reconfigure(self, topic: Topic, config: TopicConfig) -> None:
        topic.config = config
        keeper().run_now(self._configure([topic]))

    def _configure(self, topics: list[Topic]) -> Iterator[None]:
        """Have partitions go by the present configs of their topics: some partitions in each turn."""
        for topic in topics:
            for partition in topic.partitions:
                if partition.is_online and self._by_name.get(topic.name) is topic:
                    partition.configure(topic.config, self._config.producer_id_expiration_ms)
                    partition.flush_if_due()
                yield

    # -- Start and stop --------------------------------------------------------------------------------

    def open_all(self) -> list[Path]:
        """Open the partitions of every topic; recover their tails where the last stop was not clean.

        Returns the directories that earlier deletions have left, for the caller to remove.
        """
        began_ms = self._clock.monotonic_ms()
        records = self._metadata.topics.values()
        owned = {f"{each.name}-{index}": each.id for each in records for index in each.held}
        leftovers = self._dirs.tidy(owned)
        self._metadata.note_directories(self._dirs.take_new_dirs(owned, self._metadata.directories))
        for record in records:
            config, held = self.check_config(record.configs), record.held
            partitions = [
                self.factory.reopen(record, index, config) if index in held else self.factory.remote(record, index)
                for index in range(record.partitions)
            ]
            self._register(Topic(record, config, partitions))
        if self._dirs.metadata.is_copy:
            # The logs may be of a later hour.
            logs = [each.log for each in self._with_logs()]
            ids = (number for each in logs for number, _ in each.producers.items())
            self._metadata.pass_over(max((each.epochs.latest for each in logs), default=-1), max(ids, default=-1))
        if not self._dirs.is_clean:
            self._force_found()
            # Recovery may have cut logs below their recovery points, and made directories.
            # Also the first start of all: a checkpoint that is there tells which partitions have been made since.
            for path, write in self.take_checkpoint().writers.items():
                home = self._dirs.at(path)
                try:
                    self._dirs.sync(home)
                    write()
                except StorageError as error:
                    if home.data is self._dirs.metadata:
                        raise
                    self.disk_failures.directory_failed(home, error)
        reports = [each.log.recovery for each in self._with_logs()]
        if not all(each.clean for each in reports):
            _log.info("%s", recovery_line(reports, self._clock.monotonic_ms() - began_ms))
        return leftovers

    def _force_found(self) -> None:
        """Force to disk what a crash has left in the page cache alone, before an answer relies on it.

        Where a topic has flush.messages=1, the states of its transactions are forced to disk, too.
        """
        requires = any(each.config.flush_messages == 1 for each in self._by_name.values())
        for partition in self.partitions():
            if partition.must_flush or (requires and partition.topic == TRANSACTIONS_TOPIC):
                try:
                    partition.log.flush()
                except StorageError as error:
                    partition.note_failure(error)

    def take_checkpoint(self) -> Checkpoint:
        """Note up to where each partition is on disk for certain, and where it starts."""
        return self._dirs.take_checkpoint({each.place: each.log for each in self._with_logs()})

    def abandon_creations(self) -> None:
        """Stop all creations, which the next start completes, and finish all deletions: the broker stops."""
        for creation in (*self._creations.values(), *self._growths.values()):
            creation.cancel(KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is stopping"))
        for deletion in list(self._deletions.values()):
            deque(deletion, maxlen=0)

    @property
    def was_clean(self) -> bool:
        """Whether the last stop closed every log well."""
        return self._dirs.is_clean

    def closers(self, path: Path, count: int) -> list[Callable[[], None]]:
        """Return calls, at most `count`, one for each thread, that together flush and close the logs of a directory.

        Where much is to be written it is one call. Otherwise a disk forces many files out in little more than the time
        of one. Each call raises its first failure after it has tried its whole share.
        """
        logs = self._closing(path)
        if sum(not each.is_resting for each in logs) >= MANY_LOGS:
            return [partial(_close_together, logs, self._dirs.at(path).fsync_all)]
        return [partial(_close, logs[first::count]) for first in range(min(count, len(logs)))]

    def last_steps(self, path: Path) -> list[Callable[[], None]]:
        """Return the calls that write a directory's checkpoint, and then its clean-stop marker if all was closed well.

        Where the first fails the second is not to be made.
        """
        mark = partial(self._mark_clean, path, self._closing(path))
        write = self.take_checkpoint().writers.get(path)
        return [mark] if write is None else [write, mark]

    def _closing(self, path: Path) -> list[Log]:
        return [each.log for each in self._with_logs() if each.log.parent_name == str(path)]

    def _mark_clean(self, path: Path, logs: list[Log]) -> None:
        self._dirs.mark_clean(path, logs, self._metadata.journal_end)


def _close_together(logs: list[Log], fsync_all: Callable[[], bool]) -> None:
    """Close logs with one call that forces all of their files to disk, or one by one where there is no such call."""
    completed: set[Log] = set()
    for log in logs:
        with suppress(StorageError):  # its close fails again, and says why
            log.complete()
            completed.add(log)
    is_on_disk = fsync_all()
    _close(logs, completed if is_on_disk else ())


def _close(logs: list[Log], on_disk: Container[Log] = ()) -> None:
    do_all(partial(log.close, is_on_disk=log in on_disk) for log in logs)
