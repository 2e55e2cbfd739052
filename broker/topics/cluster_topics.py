"""The topics of a broker in a cluster: the controller decides which exist, and which partitions this broker holds.

Every topic of the cluster is known here with all its partitions. Those that this broker holds have a log; each other is
a RemotePartition. The metadata journal keeps topics and indexes of what is held, so that a start opens the logs before
the controller has said anything. A partition is neither led nor followed until then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...storage import checkpoints
from ...storage.errors import StorageError
from ...storage.files import Disk
from ...storage.log import Log
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.topic_config import TopicConfig
from ..log_dirs.log_dirs import LogDirs
from ..purgatory import Purgatory
from .creation import Creation
from .flusher import Flusher
from .metadata_journal import Metadata, TopicRecord
from .partition import OfflinePartition, Partition, RemotePartition
from .partition_state import NO_LEADER_EPOCH, PartitionState
from .topic import Topic
from .topics import Topics

_log = logging.getLogger(__name__)


class ClusterTopics(Topics):
    """Topics whose partitions come and go as the controller says. `commit` after each round of changes."""

    def __init__(
        self,
        config: BrokerConfig,
        dirs: LogDirs,
        metadata: Metadata,
        clock: Clock,
        purgatory: Purgatory,
        flusher: Flusher,
        on_offline: Callable[[PartitionState], object],
        disk: Disk,
        leader_of: Callable[[str, int], int | None],
    ) -> None:
        """`leader_of` returns the broker that leads a partition, None while none is known."""
        super().__init__(config, dirs, metadata, clock, purgatory, flusher, on_offline, disk)
        self._disk = disk
        self._leader_of = leader_of
        # Topics whose record in the journal is out of date.
        self._changed: set[str] = set()
        # The data directories with a new partition that a checkpoint may know from an earlier one of its name.
        self._outdated: set[Path] = set()

    # -- Start -----------------------------------------------------------------------------------------

    def open_all(self) -> list[Path]:
        """Do as the base, but lead nothing. The high watermarks are those of the last checkpoint."""
        marks: dict[tuple[str, int], int] = {}
        for home in self._dirs.online:
            path = home.path / checkpoints.REPLICATION_OFFSET
            try:
                marks.update(checkpoints.read_offsets(path, self._disk))
            except StorageError as error:
                _log.warning("%s: consumers wait until the followers have fetched", error.message)
        self.factory.high_watermarks = marks
        return super().open_all()

    def take_high_watermarks(self) -> dict[Path, Callable[[], None]]:
        """Note the high watermarks as they are now. Return for each data directory the call that writes its own."""
        marks: dict[Path, dict[tuple[str, int], int]] = {}
        for partition in self.partitions():
            home = marks.setdefault(partition.log.directory.parent, {})
            home[partition.topic, partition.index] = partition.high_watermark
        return {
            path: partial(checkpoints.write_offsets, path / checkpoints.REPLICATION_OFFSET, each, self._disk)
            for path, each in marks.items()
        }

    def has_room(self, partition: Partition) -> bool:
        """Return whether records can be appended to a partition, as far as its data directory is concerned."""
        return not self._dirs.of(partition.log).is_full

    def may_lack_records(self, name: str, index: int, topic_id: bytes | None) -> bool:
        """Return whether this broker may not have what others have of a partition that is assigned to it.

        It does not hold it, as after the loss of its directory, or holds no record, or has a copy of the directory that
        it had, or was struck by a power cut.
        """
        topic = self.get(name)
        if topic is None or not self.is_noted(name, index, topic_id):
            return True
        partition = topic.partitions[index]
        if not partition.is_online:
            return False
        log, home = partition.log, self._dirs.of(partition.log)
        is_struck = home.may_have_lost and not self.requires_fsync((name, index))
        is_copy = home.data is not None and home.data.is_copy
        return is_struck or is_copy or log.log_start_offset == log.log_end_offset

    def note_boot(self) -> None:
        """Note that what may be lacking here is left to others, and that this boot of the machine loses nothing."""
        self._dirs.note_boot()

    def is_led_elsewhere(self, name: str, index: int) -> bool:
        return self._leader_of(name, index) not in (None, self._config.node_id)

    # -- What the controller says ----------------------------------------------------------------------

    def know(self, name: str, topic_id: bytes, partitions: int, configs: dict[str, str] | None = None) -> Topic:
        """Make a topic known, with at least `partitions` partitions, and return it. A new one gets `configs`.

        Raises INCONSISTENT_TOPIC_ID where this broker holds partitions of another topic of that name.
        """
        topic = self._by_name.get(name)
        if topic is not None and topic.id != topic_id:
            if topic.record.hosted:
                why = f"this broker holds partitions of another topic {name}, which was deleted"
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, why)
            self.forget(topic)
            topic = None
        if topic is None:
            record = TopicRecord(name, topic_id, 0, configs or {}, frozenset())
            topic = self._register(Topic(record, self._usable_config(record), []))
        if topic.record.hosted is None:
            # A single broker's topic, of a directory that joins a cluster: all of it is here.
            self._set_record(topic, replace(topic.record, hosted=frozenset(range(topic.record.partitions))))
        have = len(topic.partitions)
        if partitions > have:
            self.change_count += 1
            topic.partitions += [self.factory.remote(topic.record, index) for index in range(have, partitions)]
            self._set_record(topic, replace(topic.record, partitions=partitions))
        return topic

    def _usable_config(self, record: TopicRecord) -> TopicConfig:
        """Return the configs of a topic; the broker's own where those of the topic cannot be used here."""
        try:
            return self.check_config(record.configs)
        except KafkaError as error:
            _log.error("topic %s has the configs of this broker: %s", record.name, error.message)
            record.configs = {}
            return self.check_config({})

    def alter(self, topic: Topic, configs: dict[str, str]) -> None:
        """Replace the configs that a topic sets, from the next append on. Raises INVALID_CONFIG."""
        config = self.check_config(configs)
        self._set_record(topic, replace(topic.record, configs=configs))
        self._reconfigure(topic, config)
        self.try_commit()
        _log.info("configs of topic %s were changed", topic.name)

    def host(self, topic: Topic, index: int) -> Partition:
        """Return a partition of a known topic; make its log if there is none. Raises StorageError."""
        partition = topic.partitions[index]
        if not isinstance(partition, RemotePartition):
            return partition
        try:
            made = topic.partitions[index] = self.factory.make(topic.record, index, topic.config)
        except StorageError as error:
            self._unmake(topic.name, index, error)
            raise
        self._set_record(topic, replace(topic.record, hosted=(topic.record.hosted or frozenset()) | {index}))
        self.disk_failures.note_new(made)
        if (home := made.log.directory.parent) in self._dirs.naming(topic.name):
            self._outdated.add(home)
        return made

    def _unmake(self, name: str, index: int, cause: StorageError) -> None:
        """Remove what there is of a partition that could not be made: the next try may choose another directory."""
        self.disk_failures.file_failed(cause)
        try:
            self._dirs.unmake(name, index)
        except StorageError as error:
            _log.error("a part of %s-%d, which could not be made, stays: %s", name, index, error.message)

    def release(self, topic: Topic, index: int, then: Callable[[Topic, list[Log]], None] | None) -> None:
        """Hold a partition no longer. `then` gets its log, to remove the files; None: the next start sets them aside.

        Raises StorageError where the directory cannot be renamed; it is no longer served all the same.
        """
        partition = topic.partitions[index]
        if isinstance(partition, RemotePartition):
            return
        partition.stop_leading(NO_LEADER_EPOCH)
        log = None if isinstance(partition, OfflinePartition) else partition.log
        if log is not None:
            # Nothing in the background works on it any more.
            partition.go_offline(StorageError(f"{topic.name}-{index} belongs to other brokers"), log=False)
            if then is not None:
                log.set_aside(durable=False)
        # From here on no request finds the files.
        topic.partitions[index] = self.factory.remote(topic.record, index)
        self._set_record(topic, replace(topic.record, hosted=(topic.record.hosted or frozenset()) - {index}))
        if log is not None:
            self._dirs.leave(log)
            if then is not None:
                then(topic, [log])

    def forget(self, topic: Topic) -> None:
        """Forget a deleted topic, of which this broker holds nothing any more."""
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self.change_count += 1
        self._changed.add(topic.name)

    def commit(self) -> None:
        """Make what has changed durable: directories and the journal. Raises StorageError."""
        if not self._changed:
            return
        self._sync_names()
        if self._outdated:
            self.take_checkpoint().write(self._outdated)
            self._outdated = set()
        changed = self._changed
        known = self._metadata.topics
        kept = [topic.record for name in changed if (topic := self._by_name.get(name)) is not None]
        held = [record for record in kept if record.hosted]
        # A topic of which nothing is held needs no record: UpdateMetadata tells of it.
        gone = (changed & known.keys()) - {record.name for record in held}
        replaced = {each.name for each in held if each.name in known and known[each.name].id != each.id}
        self._metadata.put_topics(held, gone | replaced)
        # Not before: what a full disk has not taken is written by the next commit.
        self._changed = set()

    def try_commit(self) -> StorageError | None:
        """Commit. Return why that failed: what a full disk has not taken is left to the next commit."""
        try:
            self.commit()
        except StorageError as error:
            _log.error("what the controller says of topics cannot be noted yet: %s", error.message)
            return error
        return None

    def is_noted(self, name: str, index: int, topic_id: bytes | None = None) -> bool:
        """Return whether a start would find a partition, of any topic of this name or of the one with this id."""
        record = self._metadata.topics.get(name)
        return record is not None and index in record.held and topic_id in (None, record.id)

    def _set_record(self, topic: Topic, record: TopicRecord) -> None:
        topic.record = record
        self._changed.add(topic.name)

    # -- What only a single broker does by itself ------------------------------------------------------

    def begin(self, name: str, partitions: int, configs: dict[str, str]) -> Creation:
        """Raise NOT_CONTROLLER: the controller creates topics."""
        raise _not_controller()

    def begin_growth(self, topic: Topic, partitions: int) -> Creation:
        """Raise NOT_CONTROLLER: the controller adds partitions."""
        raise _not_controller()

    def delete(self, topic: Topic, then: Callable[[list[Log]], None]) -> None:
        """Raise NOT_CONTROLLER: the controller deletes topics."""
        raise _not_controller()


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "topics are created, changed and deleted by the cluster's controller")
