"""The directories of partitions in a data directory: `TOPIC-N`, each with the id of its topic.

The metadata journal decides which topics exist, and the directories follow it. After a crash in between, or when a
topic gets the name of an earlier one, a directory may belong to no topic. A start, or a new topic that needs the name,
sets such a directory aside (`-stray`). It is deleted only if its deletion had begun (`-delete`).

The id in a directory is written without an fsync, because one for each partition would take too long. If a power cut
removes the id, the journal decides.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from ...storage import checkpoints
from ...storage.deleted_directory import DELETED_DIR_SUFFIX, MAX_FILE_NAME_BYTES, remove_directory
from ...storage.errors import DamagedFile
from ...storage.files import DISK, Disk
from ..clock import ids

STRAY_SUFFIX = "-stray"

_PARTITION = re.compile(r"(.+)-(\d+)")
_log = logging.getLogger(__name__)


def partition_of(name: str) -> tuple[str, int] | None:
    """Return topic and index of a partition from its directory's name; None for any other directory."""
    match = _PARTITION.fullmatch(name)
    return (match[1], int(match[2])) if match is not None else None


class PartitionDirs:
    """The partitions' directories in one data directory. Its methods raise StorageError."""

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        self._directory = directory
        self._disk = disk
        # Names of directories in which `tidy` has found the right topic id.
        self._sound: set[str] = set()

    def path(self, topic: str, index: int) -> Path:
        """Return the directory of a partition."""
        return self._directory / f"{topic}-{index}"

    def tidy(self, owned: Mapping[str, bytes]) -> tuple[list[str], list[Path]]:
        """Set aside what belongs to no topic; return the names of what does, and what deletions have left.

        `owned` maps the directory name of every partition to its topic id.
        """
        found: list[str] = []
        leftovers: list[Path] = []
        for name in self._disk.directories(self._directory):
            if name.endswith(DELETED_DIR_SUFFIX):
                leftovers.append(self._directory / name)
            elif _PARTITION.fullmatch(name):
                if self._is_owned(name, owned.get(name)):
                    found.append(name)
                else:
                    self._set_aside(self._directory / name)
        return found, leftovers

    def _is_owned(self, name: str, topic_id: bytes | None) -> bool:
        """Return whether a directory belongs to the topic with this id. One without an id does."""
        if topic_id is None:
            return False
        written = self._id_in(self._directory / name)
        if written == topic_id:
            self._sound.add(name)
        return written in (None, topic_id)

    def open(self, directory: Path, topic_id: bytes) -> None:
        """Open the directory of a partition of an earlier run; make it again, empty, if a crash has removed it."""
        if directory.name in self._sound:
            self._sound.remove(directory.name)
        elif self._id_in(directory) is None:
            _log.warning("%s: the directory or its topic id was missing and is made again", directory.name)
            self._make(directory, topic_id)

    def made(self, topic: str, index: int, topic_id: bytes) -> Path:
        """Make the directory of a new partition. It is durable after `sync`."""
        directory = self.path(topic, index)
        if self._disk.exists(directory):
            self._set_aside(directory)
        self._make(directory, topic_id)
        return directory

    def unmake(self, topic: str, index: int) -> None:
        """Remove what exists of the directory of a partition that could not be made."""
        directory = self.path(topic, index)
        if self._disk.exists(directory):
            remove_directory(directory, self._disk)

    def _make(self, directory: Path, topic_id: bytes) -> None:
        self._disk.mkdir(directory)
        checkpoints.write_partition_metadata(directory, topic_id, self._disk, durable=False)

    def _id_in(self, directory: Path) -> bytes | None:
        try:
            return checkpoints.read_partition_metadata(directory, self._disk)
        except DamagedFile:
            return None

    def _set_aside(self, directory: Path) -> None:
        if not self._disk.sizes(directory):
            self._disk.rmdir(directory)
            return
        suffix = f".{ids().randbytes(8).hex()}{STRAY_SUFFIX}"
        stray = directory.with_name(directory.name[: MAX_FILE_NAME_BYTES - len(suffix)] + suffix)
        self._disk.rename(directory, stray)
        self._disk.fsync_dir(self._directory)
        _log.warning("%s belongs to no topic: set aside as %s", directory, stray.name)
