"""What a disk error takes offline: nothing, one partition, or a whole data directory with its partitions.

A full disk or a lack of file descriptors passes: the request fails, and everything stays online. In a cluster others
lead meanwhile (full_disks.py). A failed fsync or a
torn write makes one partition unreliable. An error of the device itself concerns the whole data directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...storage.errors import DiskError, StorageError, has_no_room, is_lasting, of_device
from ..log_dirs.log_dirs import LogDir, LogDirs
from .partition_state import PartitionState


class DiskFailures:
    """Decides what each StorageError means.

    `online` returns the partitions that are online; `on_offline` is called for each that goes offline.
    """

    def __init__(
        self,
        dirs: LogDirs,
        online: Callable[[], Sequence[PartitionState]],
        on_offline: Callable[[PartitionState], object],
    ) -> None:
        self._dirs = dirs
        self._online = online
        self._on_offline = on_offline
        # Called with the directory of a partition that a full disk has refused something; alone, a broker waits.
        self.on_full: Callable[[LogDir], None] = lambda _: None

    def partition_failed(self, partition: PartitionState, error: StorageError) -> None:
        """Take offline what an operation on a partition's files has shown to be broken."""
        if has_no_room(error):
            self.on_full(self._dirs.of(partition.log))
        if not is_lasting(error):
            return
        if of_device(error):
            self.directory_failed(self._dirs.of(partition.log), error)
        else:
            partition.go_offline(error)
            self._on_offline(partition)

    def file_failed(self, error: StorageError) -> None:
        """Take a data directory offline if `error`, which some thread met on one of its files, is its device's.

        So is one on the directory itself: after a failed fsync nobody knows which names are on disk.
        """
        if not isinstance(error, DiskError) or (home := self._dirs.holding(error.path)) is None:
            return
        if of_device(error) or (error.path == home.path and is_lasting(error)):
            self.directory_failed(home, error)

    def directory_failed(self, home: LogDir, error: StorageError) -> None:
        """Take a data directory offline with all of its partitions."""
        if not home.is_online:
            return
        lost = [each for each in self._online() if self._dirs.of(each.log) is home]
        home.fail(error, len(lost))
        for partition in lost:
            partition.go_offline(error, log=False)
        for partition in lost:
            self._on_offline(partition)

    def note_new(self, partition: PartitionState) -> None:
        """Take a new partition offline if its data directory has failed since the partition was made."""
        failure = self._dirs.of(partition.log).failure
        if failure is not None:
            partition.go_offline(StorageError(failure), log=False)
