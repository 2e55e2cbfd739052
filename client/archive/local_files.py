"""Files of an archive in a directory of this machine: on the disk, with their names, before a commit names them.

A commit is a row in SQLite. What it leads to must be there after a power cut: metadata, manifest list, manifests and
data files, and the entries of the folders that they are in.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from .day_files import sync


class LocalFileIO(PyArrowFileIO):
    """The FileIO of a catalog in a directory: what it writes is forced to the disk."""

    def new_output(self, location: str) -> PyArrowFile:
        """Return a new file."""
        scheme, host, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _LocalFile(location, path, self.fs_by_scheme(scheme, host), self)

    def sync_names(self, paths: Iterable[str | Path]) -> None:
        """Have the names of local files on the disk, and those of their folders below the directory."""
        top = Path(self.properties["warehouse"].removeprefix("file://"))
        parents = [Path(str(each).removeprefix("file://")).parent for each in paths]
        folders = {
            each
            for folder in parents
            for each in (folder, *folder.parents)
            if each == folder or each.is_relative_to(top)
        }
        for each in sorted(folders, reverse=True):
            sync(str(each))


class _LocalFile(PyArrowFile):
    """A file of this machine."""

    def __init__(self, location: str, path: str, files: Any, place: LocalFileIO) -> None:
        super().__init__(location, path, files)
        self._local, self._place = Path(path), place

    def create(self, overwrite: bool = False) -> Any:
        """Return its stream."""
        self._local.parent.mkdir(parents=True, exist_ok=True)
        return _Stream(self._local, "w" if overwrite else "x", self._place)


class _Stream(io.BufferedWriter):
    """A file that is on the disk, with its name, once it is closed."""

    def __init__(self, path: Path, mode: str, place: LocalFileIO) -> None:
        super().__init__(io.FileIO(path, mode))
        self._path, self._place = path, place

    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
            super().close()
            self._place.sync_names([self._path])


def make_folder(folder: Path) -> None:
    """Make a folder where it is missing, with those above it, and have their names on the disk."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        sync(str(each.parent))
