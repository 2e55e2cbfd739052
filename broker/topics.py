"""The topics of this broker: by name and by id, their partitions, how they come and go.

A topic exists once its record is in the metadata journal; the directories of its partitions follow. A crash between
the two is made good at start: a partition whose directory is missing begins empty, and a directory that no topic owns
is set aside (`-stray`), not deleted, unless it was being deleted already (`-delete`).
"""

import logging
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.primitives import ZERO_UUID
from ..storage import checkpoints
from ..storage.config import LogConfig
from ..storage.errors import StorageError
from ..storage.log import Log
from .clock import Clock
from .config import BrokerConfig
from .flushing import Flusher
from .metadata import Metadata, TopicRecord
from .partition import Partition
from .purgatory import Purgatory
from .settings import ConfigError
from .topic_config import TopicConfig

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
# Kafka's rule: 249 leaves room for "-partition" and ".log" suffixes within a file name's 255 bytes.
MAX_NAME_LENGTH = 249
# A bound on what one request may ask for, so that a slip of the finger does not open a million files.
MAX_PARTITIONS_PER_TOPIC = 10_000

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_log = logging.getLogger(__name__)


class Topic:
    """A topic and its partitions, index by index."""

    __slots__ = ("config", "id", "name", "partitions", "record")

    def __init__(self, record: TopicRecord, config: TopicConfig, partitions: list[Partition]) -> None:
        self.name = record.name
        self.id = record.id
        self.record = record
        self.config = config
        self.partitions = partitions

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition of that index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Topics:
    """The registry. `open_all` at start, `close` at stop."""

    def __init__(
        self,
        config: BrokerConfig,
        directory: Path,
        metadata: Metadata,
        clock: Clock,
        purgatory: Purgatory,
        flusher: Flusher,
    ) -> None:
        self._config = config
        self._directory = directory
        self._metadata = metadata
        self._clock = clock
        self._purgatory = purgatory
        self._flusher = flusher
        # Invariant: both hold the same topics.
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._recovery_points: dict[tuple[str, int], int] = {}
        self._log_starts: dict[tuple[str, int], int] = {}
        self.on_deleted: Callable[[Topic], None] | None = None

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
        """Every partition of every topic."""
        return [partition for topic in self._by_name.values() for partition in topic.partitions]

    # Coming and going.

    def create(self, name: str, partitions: int, configs: dict[str, str]) -> Topic:
        """Creates a topic. The caller has checked the request (`check_new`); errors are KafkaErrors all the same."""
        self.check_new(name, partitions)
        config = self._topic_config(configs)
        record = TopicRecord(name, _new_id(), partitions, configs)
        self._metadata.put_topic(record)
        topic = self._open(record, config, clean=True)
        _log.info("topic %s created with %d partition%s", name, partitions, "s" if partitions > 1 else "")
        return topic

    def check_new(self, name: str, partitions: int) -> None:
        """Refuses a name out of rule, a name taken, and a number of partitions that cannot be."""
        check_name(name)
        if name in self._by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        for other in self._colliding(name):
            why = f"Topic '{name}' collides with existing topic: {other}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if not 0 < partitions <= MAX_PARTITIONS_PER_TOPIC:
            why = f"Number of partitions must be from 1 to {MAX_PARTITIONS_PER_TOPIC}, not {partitions}."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)

    def check_config(self, configs: dict[str, str]) -> TopicConfig:
        """The configs that a topic would have; INVALID_CONFIG where one cannot be."""
        return self._topic_config(configs)

    def delete(self, topic: Topic) -> None:
        """The topic is gone at once; the caller removes its files (`remove_files`), which may take a while."""
        self._metadata.delete_topic(topic.name)
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        for partition in topic.partitions:
            partition.log.set_aside()
            self._purgatory.wake(partition)
        if self.on_deleted is not None:
            self.on_deleted(topic)
        _log.info("topic %s deleted", topic.name)

    # Start and stop.

    def open_all(self, clean: bool) -> None:
        """Opens the partitions of every topic, checking their tails if the last stop was not clean."""
        self._recovery_points = checkpoints.read_offsets(self._directory / checkpoints.RECOVERY_POINT)
        self._log_starts = checkpoints.read_offsets(self._directory / checkpoints.LOG_START)
        self._tidy()
        for record in self._metadata.topics.values():
            self._open(record, self._topic_config(record.configs), clean)
        self._recovery_points, self._log_starts = {}, {}

    def write_checkpoints(self) -> None:
        """Notes up to where each partition is on disk for certain, and where it starts."""
        partitions = self.partitions()
        points = {(each.topic, each.index): each.log.recovery_point for each in partitions}
        starts = {(each.topic, each.index): each.log.log_start_offset for each in partitions}
        checkpoints.write_offsets(self._directory / checkpoints.RECOVERY_POINT, points)
        checkpoints.write_offsets(self._directory / checkpoints.LOG_START, starts)

    def close(self) -> None:
        """Flushes and closes every log. Raises the first failure after all have been tried."""
        failure: StorageError | None = None
        for partition in self.partitions():
            try:
                partition.log.close()
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    # Parts.

    def _open(self, record: TopicRecord, config: TopicConfig, clean: bool) -> Topic:
        partitions = [self._open_partition(record, index, config, clean) for index in range(record.partitions)]
        topic = Topic(record, config, partitions)
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        return topic

    def _open_partition(self, record: TopicRecord, index: int, config: TopicConfig, clean: bool) -> Partition:
        directory = self._directory / f"{record.name}-{index}"
        if not directory.exists():
            directory.mkdir()
            checkpoints.write_partition_metadata(directory, record.id)
        key = (record.name, index)
        log = Log.open(
            directory,
            _log_config(config),
            clean=clean,
            now_ms=self._clock.now_ms(),
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_starts.get(key, 0),
        )
        for cut in log.recovery.lines():
            _log.warning("%s-%d: %s", record.name, index, cut)
        partition = Partition(
            record.name, index, log, self._metadata.leader_epoch, self._clock, self._purgatory, self._flusher
        )
        partition.max_message_bytes = config.max_message_bytes
        partition.log_append_time = config.message_timestamp_type == "LogAppendTime"
        return partition

    def _topic_config(self, configs: dict[str, str]) -> TopicConfig:
        try:
            return TopicConfig.resolve(self._config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def _colliding(self, name: str) -> list[str]:
        """Existing names that differ only in `.` and `_`: metrics could not tell them apart (Kafka's rule)."""
        if "." not in name and "_" not in name:
            return []
        folded = name.replace(".", "_")
        return [other for other in self._by_name if other != name and other.replace(".", "_") == folded]

    def _tidy(self) -> None:
        """Finishes deletions that a stop cut short, and sets aside directories that belong to no topic."""
        owned = {
            f"{record.name}-{index}": record.id
            for record in self._metadata.topics.values()
            for index in range(record.partitions)
        }
        for directory in sorted(self._directory.iterdir()):
            if not directory.is_dir() or not re.search(r"-\d+$|-delete$", directory.name):
                continue
            if directory.name.endswith("-delete"):
                Log.remove_set_aside(directory)
            elif owned.get(directory.name) != checkpoints.read_partition_metadata(directory):
                stray = directory.with_name(f"{directory.name}.{secrets.token_hex(8)}-stray")
                directory.rename(stray)
                _log.warning("%s belongs to no topic: set aside as %s", directory, stray.name)


def _log_config(config: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_size_bytes,
        segment_ms=config.segment_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
    )


def check_name(name: str) -> None:
    """Kafka's rule for topic names; INVALID_TOPIC_EXCEPTION with what is wrong."""
    why = None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _NAME.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def _new_id() -> bytes:
    """A random UUID, never one of the reserved ones (zero, one), nor one whose text begins with '-' (as Kafka's)."""
    while True:
        topic_id = bytearray(secrets.token_bytes(16))
        topic_id[6] = topic_id[6] & 0x0F | 0x40
        topic_id[8] = topic_id[8] & 0x3F | 0x80
        if bytes(topic_id) != ZERO_UUID and topic_id[0] >> 2 != 62:
            return bytes(topic_id)
