"""A staged batch: a very large batch that a thread has written to a file of its own, before its offsets are known.

The log takes it by giving the file the name of a segment, which takes no time whatever the batch's size. The thread has
forced it to disk by then: otherwise a file system would write it all out when it is renamed over an empty file. The
header comes last, because it holds the offset: a power cut that takes it leaves no batch with another offset. A staged
batch that no log took is removed, after a crash by the next start.
"""

from __future__ import annotations

from pathlib import Path

from ...protocol.records.batch import HEADER_SIZE
from ..errors import StorageError
from ..files import TEMPORARY_SUFFIX, Buffer, Disk


class StagedBatch:
    """The file of one batch. Made in a thread with `write`; a log that takes it calls `name`."""

    __slots__ = ("_disk", "file", "is_taken")

    def __init__(self, path: Path, disk: Disk) -> None:
        self.file = disk.open(path, create=True)
        # Whether the file is the segment of a log.
        self.is_taken = False
        self._disk = disk

    @classmethod
    def write(cls, directory: Path, number: int, batch: Buffer, disk: Disk) -> StagedBatch:
        """Write a batch without its header into the directory of its log. No other one there has `number`.

        Raises DiskError, and leaves no file then.
        """
        staged = cls(directory / f"staged-{number}{TEMPORARY_SUFFIX}", disk)
        try:
            disk.write(staged.file, memoryview(batch)[HEADER_SIZE:], HEADER_SIZE)
            disk.fsync(staged.file)
        except StorageError:
            staged.discard()
            raise
        return staged

    def name(self, path: Path, header: Buffer) -> None:
        """Write the header, and put the file in the place of the one at `path`. Raises DiskError."""
        self._disk.write(self.file, header, 0)
        self._disk.rename(self.file.path, path)
        self.file.path = path
        self.is_taken = True

    def discard(self) -> None:
        """Remove the file, unless a log has taken it. Freeing its pages takes some time: call it in a thread."""
        if not self.is_taken:
            self._disk.unlink(self.file.path)
