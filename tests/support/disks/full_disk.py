"""A disk that has no room while a test says so: for all files, or for those that the test names."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from odradek.storage.errors import DiskError
from odradek.storage.files import Buffer, Disk, File


class FullDisk(Disk):
    """Writes and new names fail with ENOSPC where `is_full` says so of the path.

    What is there can be read, renamed and removed.
    """

    def __init__(self, is_full: Callable[[Path], bool] = lambda _: False) -> None:
        self.is_full = is_full

    def fill(self) -> None:
        """Take no more byte of any file."""
        self.is_full = lambda _: True

    def free(self) -> None:
        """Take everything again."""
        self.is_full = lambda _: False

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        if create and not path.exists():
            self._check("open", path)
        return super().open(path, create=create, writable=writable)

    def write(self, file: File, data: Buffer, position: int) -> None:
        self._check("write", file.path)
        super().write(file, data, position)

    def mkdir(self, path: Path) -> None:
        if not path.exists():
            self._check("mkdir", path)
        super().mkdir(path)

    def _check(self, operation: str, path: Path) -> None:
        if self.is_full(path):
            raise DiskError(operation, path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def is_journal(path: Path) -> bool:
    """Whether a file is one of the metadata journal's."""
    return ".journal" in path.name or ".snapshot" in path.name
