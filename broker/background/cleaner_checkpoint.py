"""The cleaner's checkpoint: `cleaner-offset-checkpoint` in each data directory, up to where each partition is clean.

Without it, or with an old one, the cleaner does some work a second time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Lock

from ...storage import checkpoints
from ...storage.errors import StorageError
from ...storage.files import Disk
from ..topics.partition import Partition

FILE_NAME = "cleaner-offset-checkpoint"

_log = logging.getLogger(__name__)


class CleanerCheckpoint:
    """The offsets up to which partitions are clean, in memory and on disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # By topic and partition index.
        self._offsets: dict[tuple[str, int], int] = {}
        # One writer at a time.
        self._writing = Lock()

    def read(self, partitions: Iterable[Partition]) -> None:
        """Read the files of all directories that hold `partitions`. Without its file a directory counts as dirty."""
        for directory in {each.log.directory.parent for each in partitions}:
            try:
                self._offsets.update(checkpoints.read_offsets(directory / FILE_NAME, self._disk))
            except StorageError as error:
                _log.warning("all compacted partitions of %s count as dirty: %s", directory, error.message)

    def get(self, partition: Partition) -> int | None:
        """Return the offset up to which a partition is clean; None if nothing is known."""
        return self._offsets.get((partition.topic, partition.index))

    def put(self, partition: Partition, offset: int) -> None:
        """Note the offset up to which a partition is clean."""
        self._offsets[partition.topic, partition.index] = offset

    def forget(self, partition: Partition) -> bool:
        """Forget a partition; return whether it was known."""
        return self._offsets.pop((partition.topic, partition.index), None) is not None

    def take(self, partitions: Iterable[Partition], directory: Path) -> Callable[[], None]:
        """Note the offsets of those `partitions` that lie in `directory`; return the call that writes them."""
        offsets = {
            key: self._offsets[key]
            for partition in partitions
            if (key := (partition.topic, partition.index)) in self._offsets
            and partition.log.directory.parent == directory
        }
        return partial(self._write, directory / FILE_NAME, offsets)

    def _write(self, path: Path, offsets: dict[tuple[str, int], int]) -> None:
        with self._writing:
            checkpoints.write_offsets(path, offsets, self._disk)
