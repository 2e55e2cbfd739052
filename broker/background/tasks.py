"""The background tasks of a broker, and what they share: the removal of files and the writing of checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ...storage.files import Disk
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..log_dirs.checkpoint_writer import CheckpointWriter
from ..log_dirs.log_dirs import LogDirs
from ..threads import BackgroundWork, DiskThreads
from ..timers import Timers
from ..topics.flusher import Flusher
from ..topics.partition import Partition
from ..topics.topics import Topics
from .cleaner import Cleaner
from .file_removal import FileRemoval
from .producer_expiry import ProducerExpiry
from .read_ahead import ReadAhead
from .retention import RecordDeletion, Retention


class BackgroundTasks:
    """`start` them once the topics are open, `stop` them before the logs are closed."""

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
    ) -> None:
        self.work = BackgroundWork(threads, topics.disk_failures.file_failed)
        self.checkpoints = CheckpointWriter(config, timers, threads, self.work, topics.take_checkpoint)
        self.file_removal = FileRemoval(timers, self.work, disk)
        self.record_deletion = RecordDeletion(self.file_removal)
        self.retention = Retention(config, topics, timers, clock, self.work, self.record_deletion, self.file_removal)
        self.cleaner = Cleaner(config, log_dirs, topics, timers, clock, disk, flusher, threads, self.file_removal)
        self.read_ahead = ReadAhead(topics, threads)
        self.producer_expiry = ProducerExpiry(config, topics, timers, clock)

    def delete_lastingly(self, partition: Partition, offset: int) -> None:
        """Have a log begin at `offset`, in memory now and on disk soon."""
        self.record_deletion.delete_records(partition, offset)
        self.checkpoints.write_soon()

    def start(self) -> None:
        """Schedule the first round of each task."""
        self.retention.start()
        self.cleaner.start()
        self.producer_expiry.start()
        self.read_ahead.start()
        self.checkpoints.start()

    def stop(self) -> list[asyncio.Future[None]]:
        """Stop the tasks; return what is still under way, for the caller to wait for."""
        stopping: tuple[Awaitable[None], ...] = (self.cleaner.stop(), self.read_ahead.stop())
        return [*self.work.running, *map(asyncio.ensure_future, stopping)]
