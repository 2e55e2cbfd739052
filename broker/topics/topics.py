"""The topics of this broker: by name and by id, their partitions, how they come and go.

A topic exists once its record is in the metadata journal; the directories of its partitions follow, and once all are
there it is served. A crash between the two is made good at start: a partition whose directory is missing begins empty,
and a directory that no topic owns is set aside (`-stray`), not deleted, unless it was being deleted already
(`-delete`). Where a directory cannot be made the topic is taken back.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.config import LogConfig
from ...storage.errors import DiskError, StorageError, of_device
from ...storage.files import DISK, Disk
from ...storage.log import Log
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.settings import ConfigError
from ..configs.topic_config import TopicConfig
from ..log_dirs.log_dirs import LogDir, LogDirs
from ..purgatory import Purgatory
from .creation import Creation
from .deletion import Deletion
from .flusher import Flusher
from .metadata_journal import Metadata, TopicRecord
from .offline_partition import OfflinePartition
from .partition import Partition
from .topic import Topic
from .topic_names import check_collision, check_name, check_partition_count, new_topic_id
from .validation import rules_of

_log = logging.getLogger(__name__)


class Topics:
    """The registry. `open_all` at start, `close` at stop."""

    def __init__(
        self,
        config: BrokerConfig,
        dirs: LogDirs,
        metadata: Metadata,
        clock: Clock,
        purgatory: Purgatory,
        flusher: Flusher,
        disk: Disk = DISK,
    ) -> None:
        self._config = config
        self._disk = disk
        self._dirs = dirs
        self._metadata = metadata
        self._clock = clock
        self._purgatory = purgatory
        self._flusher = flusher
        # Invariant: both hold the same topics.
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        # Topics that have a record, but not all of their directories yet.
        self._coming: dict[str, Creation] = {}
        # Topics that are served and have partitions on their way.
        self._growing: dict[str, Creation] = {}
        # Topics that are gone, and whose directories are not all out of the way yet.
        self._going: dict[str, Deletion] = {}
        # Told of each partition that goes offline while the broker runs.
        self.on_offline: Callable[[Partition], object] = id

    def __iter__(self) -> Iterable[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    # Look-ups.

    def get(self, name: str) -> Topic | None:
        """The topic of that name, or None."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id, or None."""
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Every topic, in order of name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partitions(self) -> list[Partition]:
        """Every partition of every topic that is online."""
        return [each for topic in self._by_name.values() for each in topic.partitions if each.is_online]

    # Coming and going.

    def create(self, name: str, partitions: int, configs: dict[str, str]) -> Topic:
        """Creates a topic. The caller has checked the request (`check_new`); errors are KafkaErrors all the same."""
        return self.begin(name, partitions, configs).finish()

    def begin(self, name: str, partitions: int, configs: dict[str, str]) -> Creation:
        """As `create`, but only the record is written: the caller has the rest made, at once or by and by."""
        self.check_new(name, partitions)
        config = self._topic_config(configs)
        if name in self._going:
            self._going.pop(name).finish()
        if self._dirs.may_name(name):
            self.checkpoint()()
        record = TopicRecord(name, new_topic_id(), partitions, configs)
        self._metadata.put_topic(record)
        creation = self._coming[name] = Creation(self, record, config)
        return creation

    def coming(self, name: str) -> Creation | None:
        """The topic of that name that is being made, or None."""
        return self._coming.get(name)

    def growing(self, name: str) -> Creation | None:
        """The partitions that are being made for a topic that is served, or None."""
        return self._growing.get(name)

    def begin_growth(self, topic: Topic, partitions: int) -> Creation:
        """Raises a topic's number of partitions: the record is written, the caller has the partitions made.

        INVALID_PARTITIONS for a number that is not higher, POLICY_VIOLATION for one that is too high,
        REASSIGNMENT_IN_PROGRESS while others are made.
        """
        self.check_growth(topic, partitions)
        if self._dirs.may_name(topic.name):
            self.checkpoint()()
        record = replace(self._metadata.topics[topic.name], partitions=partitions)
        self._metadata.put_topic(record)
        creation = self._growing[topic.name] = Creation(self, record, topic.config, topic)
        return creation

    def check_growth(self, topic: Topic, partitions: int) -> None:
        """As `begin_growth`, without doing it."""
        if topic.name in self._growing:
            why = f"Topic '{topic.name}' is being given partitions already."
            raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, why)
        have = len(topic.partitions)
        if partitions <= have:
            more = "that many" if partitions == have else "more"
            why = f"Topic '{topic.name}' has {more} already: {have} partitions, and {partitions} were asked for."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
        check_partition_count(partitions)

    def check_new(self, name: str, partitions: int) -> None:
        """Refuses a name out of rule, a name taken, and a number of partitions that cannot be."""
        self.check_free(name)
        check_partition_count(partitions)

    def check_free(self, name: str) -> None:
        """Refuses a name out of rule, and one that is taken."""
        check_name(name)
        if name in self._by_name or name in self._coming:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_collision(name, (*self._by_name, *self._coming))

    def check_config(self, configs: dict[str, str]) -> TopicConfig:
        """The configs that a topic would have; INVALID_CONFIG where one cannot be."""
        return self._topic_config(configs)

    def delete(self, topic: Topic, then: Callable[[list[Log]], None]) -> None:
        """The topic is gone at once, its directories are by and by; then the caller removes what is in them."""
        growth = self._growing.pop(topic.name, None)
        if growth is not None:
            topic.partitions.extend(growth.give_up())
        self._metadata.delete_topic(topic.name)
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        there = [each for each in topic.partitions if not isinstance(each, OfflinePartition)]
        for partition in there:
            self._dirs.of(partition.log).count -= 1
            self._purgatory.wake(partition)
        _log.info("topic %s deleted", topic.name)
        deletion = self._going[topic.name] = Deletion(topic.name, there, lambda logs: self._gone(topic, logs, then))
        deletion.start()

    def _gone(self, topic: Topic, logs: list[Log], then: Callable[[list[Log]], None]) -> None:
        self._going.pop(topic.name, None)
        then(logs)

    # Configs.

    def alter(self, topic: Topic, configs: dict[str, str]) -> None:
        """Gives a topic these configs, and no others, from the next append on. INVALID_CONFIG where one cannot be."""
        config = self._topic_config(configs)
        self._metadata.put_topic(replace(self._metadata.topics[topic.name], configs=configs))
        topic.record = replace(topic.record, configs=configs)
        self._reconfigure(topic, config)
        _log.info("topic %s has other configs now", topic.name)

    def reconfiguration(self) -> Callable[[], None]:
        """The broker's own configs have changed: what topics have from there reaches them by the call that is returned.

        INVALID_CONFIG where a topic's configs cannot be beside them; nothing has changed then.
        """
        configs = [(topic, self._topic_config(topic.record.configs)) for topic in self._by_name.values()]

        def apply() -> None:
            for topic, config in configs:
                self._reconfigure(topic, config)

        return apply

    def _reconfigure(self, topic: Topic, config: TopicConfig) -> None:
        topic.config = config
        for partition in topic.partitions:
            if not partition.is_online:
                continue
            apply_config(partition, config, self._config.producer_id_expiration_ms)
            partition.flush_if_due()

    # Called by a Creation.

    def make_partition(self, record: TopicRecord, index: int, config: TopicConfig) -> Partition:
        """A new partition in a new directory."""
        return self._open_partition(record, index, config, self._dirs.make(record.name, index, record.id), clean=True)

    def add(self, record: TopicRecord, config: TopicConfig, partitions: list[Partition]) -> Topic:
        """All partitions are made: from here on the topic is served."""
        self._dirs.sync()
        del self._coming[record.name]
        count = record.partitions
        _log.info("topic %s created with %d partition%s", record.name, count, "s" if count > 1 else "")
        return self._register(Topic(record, config, partitions))

    def take_back(self, record: TopicRecord, partitions: list[Partition]) -> None:
        """A partition could not be made: the topic never was. If not even that can be said, the next start makes it."""
        del self._coming[record.name]
        try:
            for partition in partitions:
                partition.log.delete()
            self._dirs.unmake(record.name, len(partitions))
            self._metadata.delete_topic(record.name)
        except StorageError as error:
            _log.error("topic %s could be neither created nor taken back: %s", record.name, error.message)

    def extend(self, topic: Topic, partitions: list[Partition]) -> Topic:
        """The partitions that a topic lacked are made: from here on they are served."""
        self._dirs.sync()
        del self._growing[topic.name]
        topic.record = self._metadata.topics[topic.name]
        topic.partitions.extend(partitions)
        self._reconfigure(topic, topic.config)
        _log.info("topic %s has %d partitions now", topic.name, len(topic.partitions))
        return topic

    def take_back_growth(self, topic: Topic, partitions: list[Partition]) -> None:
        """A partition could not be made: the topic stays as it was. If not even that can be said, the next start
        makes it.
        """
        del self._growing[topic.name]
        have = len(topic.partitions)
        try:
            for partition in partitions:
                partition.log.delete()
            self._dirs.unmake(topic.name, have + len(partitions))
            self._metadata.put_topic(replace(self._metadata.topics[topic.name], partitions=have))
        except StorageError as error:
            _log.error("topic %s could be neither grown nor left as it was: %s", topic.name, error.message)

    # Start and stop.

    def open_all(self) -> list[Path]:
        """Opens the partitions of every topic, checking their tails where the last stop was not clean.

        Answers with the directories that deletions have left: the caller removes them.
        """
        records = self._metadata.topics.values()
        owned = {f"{each.name}-{index}": each.id for each in records for index in range(each.partitions)}
        leftovers = self._dirs.tidy(owned)
        for record in records:
            self._register(self._open(record, self._topic_config(record.configs)))
        if records and not self._dirs.is_clean:
            # Where a log was cut, so is what is certain; and the names that were made are to last.
            self._dirs.sync_all()
            self.checkpoint()()
        return leftovers

    def checkpoint(self) -> Callable[[], None]:
        """Notes up to where each partition is on disk for certain; the call that is returned writes it."""
        return self._dirs.checkpoint(self._with_logs())

    def abandon_creations(self) -> None:
        """The broker stops: nobody waits any more for a topic that is being made."""
        for creation in (*self._coming.values(), *self._growing.values()):
            creation.abandon()
        for deletion in list(self._going.values()):
            deletion.finish()

    def closers(self, count: int) -> list[Callable[[], None]]:
        """Calls that together flush and close every log, each its share: for as many threads, as a disk forces many
        files out in little more than the time of one. Each raises its first failure after all have been tried.
        """
        partitions = self._with_logs()
        return [lambda share=partitions[first::count]: _close(share) for first in range(min(count, len(partitions)))]

    def mark_clean(self) -> None:
        """Every log was closed: the next start need not check those directories where all went well."""
        self._dirs.mark_clean([each.log for each in self._with_logs() if not each.log.is_whole])

    # Failing.

    def note_failure(self, error: StorageError) -> None:
        """A thread could not write something. Takes the data directory offline if it is its device that failed."""
        home = self._dirs.holding(error.path) if isinstance(error, DiskError) else None
        if home is not None and of_device(error):
            self._fail(home, error)

    def _failed(self, partition: Partition, error: StorageError) -> None:
        if of_device(error):
            self._fail(self._dirs.of(partition.log), error)
        else:
            partition.go_offline(error)
            self.on_offline(partition)

    def _fail(self, home: LogDir, error: StorageError) -> None:
        for partition in self._dirs.fail(home, error, self.partitions()):
            self.on_offline(partition)

    def _with_logs(self) -> list[Partition]:
        """Also those that went offline while the broker ran."""
        every = (each for topic in self._by_name.values() for each in topic.partitions)
        return [each for each in every if not isinstance(each, OfflinePartition)]

    # Parts.

    def _register(self, topic: Topic) -> Topic:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        return topic

    def _open(self, record: TopicRecord, config: TopicConfig) -> Topic:
        return Topic(record, config, [self._reopened(record, at, config) for at in range(record.partitions)])

    def _reopened(self, record: TopicRecord, index: int, config: TopicConfig) -> Partition:
        """A partition that was there before, online or not."""
        key = record.name, index
        found = self._dirs.find(*key, record.id)
        if found is not None:
            home, directory = found
            point = home.checkpoints.recovery_points.get(key, 0)
            start = home.checkpoints.log_starts.get(key, 0)
            try:
                return self._open_partition(record, index, config, directory, home.is_clean, point, start)
            except StorageError as error:
                if not of_device(error):
                    raise
                self._fail(home, error)
        return OfflinePartition(record.name, index, self._metadata.leader_epoch)

    def _open_partition(
        self,
        record: TopicRecord,
        index: int,
        config: TopicConfig,
        directory: Path,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> Partition:
        log = Log.open(
            directory,
            _log_config(config, self._config.producer_id_expiration_ms),
            clean=clean,
            now_ms=self._clock.now_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            disk=self._disk,
        )
        for cut in log.recovery.lines():
            _log.warning("%s-%d: %s", record.name, index, cut)
        partition = Partition(
            record.name, index, log, self._metadata.leader_epoch, self._clock, self._purgatory, self._flusher
        )
        partition.on_failure = self._failed
        apply_config(partition, config)
        return partition

    def _topic_config(self, configs: dict[str, str]) -> TopicConfig:
        try:
            return TopicConfig.resolve(self._config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _close(partitions: list[Partition]) -> None:
    failure: StorageError | None = None
    for partition in partitions:
        try:
            partition.log.close()
        except StorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def apply_config(partition: Partition, config: TopicConfig, producer_id_expiration_ms: int | None = None) -> None:
    """The one way by which configs reach a partition, when it is opened and when they change.

    `producer_id_expiration_ms` is the broker's; None leaves it as it is.
    """
    log = partition.log
    log.reconfigure(_log_config(config, producer_id_expiration_ms or log.config.producer_id_expiration_ms))
    partition.max_message_bytes = config.max_message_bytes
    partition.log_append_time = config.message_timestamp_type == "LogAppendTime"
    partition.timestamp_after_max_ms = config.message_timestamp_after_max_ms
    partition.rules = rules_of(config)


def _log_config(config: TopicConfig, producer_id_expiration_ms: int) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_size_bytes,
        segment_ms=config.segment_age_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        segment_index_bytes=config.segment_index_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
