"""How a Partition comes to be: with a new log, with the log that the last run left, or offline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ...storage.errors import StorageError, has_no_room, is_unreadable, of_device
from ...storage.files import Disk
from ...storage.known_logs import KnownLog
from ...storage.log import Log
from ..configs.broker_config import BrokerConfig
from ..configs.topic_config import TopicConfig
from ..log_dirs.log_dirs import LogDir, LogDirs
from .disk_failures import DiskFailures
from .metadata_journal import Metadata, TopicRecord
from .partition import OfflinePartition, Partition, RemotePartition
from .partition_state import NO_LEADER_EPOCH, Surroundings

Kind = TypeVar("Kind", bound=Partition)
_log = logging.getLogger(__name__)


class PartitionFactory:
    """Makes the partitions of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        dirs: LogDirs,
        metadata: Metadata,
        surroundings: Surroundings,
        failures: DiskFailures,
        disk: Disk,
    ) -> None:
        self._config = config
        self._dirs = dirs
        self._metadata = metadata
        self._surroundings = surroundings
        self._failures = failures
        self._disk = disk
        # Called for each partition with a new directory.
        self.on_new: Callable[[], object] = lambda: None
        # In a cluster: the high watermarks of the last run, and no partition is led before the controller says so.
        self.high_watermarks: Mapping[tuple[str, int], int] | None = None

    def make(self, record: TopicRecord, index: int, config: TopicConfig) -> Partition:
        """Return a new partition in a new directory, which `LogDirs.sync` makes durable. Raises StorageError."""
        partition = self._open(record, index, config, self._dirs.make(record.name, index, record.id), clean=True)
        self.on_new()
        return partition

    def reopen(self, record: TopicRecord, index: int, config: TopicConfig) -> Partition:
        """Return a partition of an earlier run, with its log recovered; an OfflinePartition if its disk has failed."""
        key = record.name, index
        home = self._dirs.find(*key)
        if home is not None:
            point = home.recovery_point(key)
            start = home.checkpoints.log_starts.get(key, 0)
            directory = home.partitions.path(*key)
            try:
                home.partitions.open(directory, record.id)
                known = home.take_known(directory.name)
                return self._open(record, index, config, directory, home.is_clean, point, start, known)
            except StorageError as error:
                if is_unreadable(error):
                    return self._offline(record, index, home, directory, error)
                # A start needs room, too: to build indexes again, say. Without room for the metadata there is none.
                passes = has_no_room(error) and home.data is not self._dirs.metadata
                if not of_device(error) and not passes:
                    raise
                self._failures.directory_failed(home, error)
        failure = StorageError(f"the data directory of {record.name}-{index} is offline")
        return self._new(OfflinePartition, record, index, failure)

    def _offline(
        self, record: TopicRecord, index: int, home: LogDir, directory: Path, error: StorageError
    ) -> Partition:
        """Return a partition whose log cannot be read. The others of its data directory are not concerned."""
        home.unread.append((record.name, index))
        text = "%s-%d is offline until the next start: %s (odradek log verify %s shows what is left)"
        _log.error(text, record.name, index, error.message, directory)
        return self._new(OfflinePartition, record, index, error)

    def remote(self, record: TopicRecord, index: int) -> Partition:
        """Return a partition that other brokers hold."""
        partition = self._new(RemotePartition, record, index)
        partition.stop_leading(NO_LEADER_EPOCH)
        return partition

    def _open(
        self,
        record: TopicRecord,
        index: int,
        config: TopicConfig,
        directory: Path,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        known: KnownLog | None = None,
    ) -> Partition:
        log = Log.open(
            directory,
            config.log_config(self._config.producer_id_expiration_ms),
            clean=clean,
            now_ms=self._surroundings.clock.now_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            known=known,
            disk=self._disk,
        )
        for line in log.recovery.lines():
            _log.warning("%s-%d: %s", record.name, index, line)
        partition = self._new(Partition, record, index)
        if self.high_watermarks is None:
            partition.lead(log)
        else:
            partition.open(log, self.high_watermarks.get((record.name, index), log.log_start_offset))
        partition.configure(config, self._config.producer_id_expiration_ms)
        return partition

    def _new(self, kind: type[Kind], record: TopicRecord, index: int, failure: StorageError | None = None) -> Kind:
        return kind(record.name, index, self._metadata.leader_epoch, self._surroundings, failure)
