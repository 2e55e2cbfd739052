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
import secrets
from collections.abc import Mapping
from pathlib import Path

from ...storage import checkpoints
from ...storage.deleted_directory import DELETED_DIR_SUFFIX, MAX_FILE_NAME_BYTES, remove_directory
from ...storage.errors import DamagedFile
from ...storage.files import DISK, Disk

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

    def path(self, topic: str, index: int) -> Path:
        """Return the directory of a partition."""
        return self._directory / f"{topic}-{index}"

    def tidy(self, owned: Mapping[str, bytes]) -> tuple[list[str], list[Path]]:
        """Set aside what belongs to no topic; return the names of what does, and what deletions have left.

        `owned` maps the directory name of every partition to its topic id.
        """
        found: list[str] = []
        leftovers: list[Path] = []
        for directory in sorted(each for each in self._directory.iterdir() if each.is_dir()):
            if directory.name.endswith(DELETED_DIR_SUFFIX):
                leftovers.append(directory)
            elif _PARTITION.fullmatch(directory.name):
                topic_id = owned.get(directory.name)
                if topic_id is None or self._id_in(directory) not in (None, topic_id):
                    self._set_aside(directory)
                else:
                    found.append(directory.name)
        return found, leftovers

    def opened(self, topic: str, index: int, topic_id: bytes) -> Path:
        """Return the directory of a partition of an earlier run; make it again, empty, if a crash has removed it."""
        directory = self.path(topic, index)
        if not self._disk.exists(directory) or self._id_in(directory) is None:
            _log.warning("%s: the directory or its topic id was missing and is made again", directory.name)
            self._make(directory, topic_id)
        return directory

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

    def sync(self) -> None:
        """Make the names of new directories durable."""
        self._disk.fsync_dir(self._directory)

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
        suffix = f".{secrets.token_hex(8)}{STRAY_SUFFIX}"
        stray = directory.with_name(directory.name[: MAX_FILE_NAME_BYTES - len(suffix)] + suffix)
        self._disk.rename(directory, stray)
        self._disk.fsync_dir(self._directory)
        _log.warning("%s belongs to no topic: set aside as %s", directory, stray.name)
