"""The directories of the partitions, `TOPIC-N` in the data directory, each with the id of its topic in it.

The metadata journal says which topics there are; the directories follow it. A crash in between, or a name made again,
can leave a directory that no topic owns: at start, and where a new topic needs the name, such a one is set aside
(`-stray`), never deleted, unless its deletion had begun (`-delete`). The id in a directory is written without an
fsync, for one each would hold the broker up: where a power cut took it, the journal's word stands.
"""

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
    """Topic and index of a partition's directory by its name; None for any other."""
    match = _PARTITION.fullmatch(name)
    return (match[1], int(match[2])) if match is not None else None


class PartitionDirs:
    """The directories of one broker. Errors are StorageErrors."""

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        self._directory = directory
        self._disk = disk

    def path(self, topic: str, index: int) -> Path:
        return self._directory / f"{topic}-{index}"

    def tidy(self, owned: Mapping[str, bytes]) -> tuple[list[str], list[Path]]:
        """Sets aside what belongs to no topic; the names of what does, and what deletions left to be removed.

        `owned`: directory name -> topic id, of every partition there is.
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
        """The directory of a partition that was there before; what a crash has taken is made again, empty."""
        directory = self.path(topic, index)
        if not self._disk.exists(directory) or self._id_in(directory) is None:
            _log.warning("%s: directory or topic id were missing, and are made again", directory.name)
            self._make(directory, topic_id)
        return directory

    def made(self, topic: str, index: int, topic_id: bytes) -> Path:
        """The directory of a new partition. Durable after `sync`."""
        directory = self.path(topic, index)
        if self._disk.exists(directory):
            self._set_aside(directory)
        self._make(directory, topic_id)
        return directory

    def unmake(self, topic: str, index: int) -> None:
        """Removes what there is of the directory of a partition that could not be made."""
        directory = self.path(topic, index)
        if self._disk.exists(directory):
            remove_directory(directory, self._disk)

    def sync(self) -> None:
        """Makes the names of new directories durable."""
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
