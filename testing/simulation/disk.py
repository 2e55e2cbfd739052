"""The disk of a simulated machine: LossyDisk, with virtual times, and descriptors that a kill takes away."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from ...storage.errors import DiskError
from ...storage.files import Buffer, File
from ..lossy_disk import LossyDisk
from .process import Clocks

_SPACE = 1 << 40

# What each file has, and its time in ns since 1970.
Files = Mapping[Path, tuple[bytes, int]]


class SimulatedDisk(LossyDisk):
    """The disk of one machine. It outlives the processes that use it."""

    def __init__(self, root: Path, clocks: Clocks, chance: Random) -> None:
        super().__init__()
        self._root, self._clocks, self._chance = root, clocks, chance
        self.now_s = lambda: clocks.monotonic_ms() / 1000
        self.pid = lambda: 1
        self.is_gone = False
        # How often all files were put back from a copy.
        self._copies = 0
        # So many bytes still fit (ENOSPC) in files whose name ends like this; None: all.
        self.room_bytes: int | None = None
        self.full_files = ""
        # The ends of the names of files that cannot be changed (EIO); None: the disk is well.
        self.broken_files: str | None = None
        # Hears of every write. What it does to the machine must come later: the write is not over.
        self.wrote: Callable[[Path], object] | None = None

    @property
    def is_failing(self) -> bool:
        """Whether writes may fail now."""
        return self.room_bytes is not None or self.broken_files is not None

    def _date(self, fd_or_path: Any) -> None:
        ns = self._clocks.now_ms() * 1_000_000
        os.utime(fd_or_path, ns=(ns, ns))

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        if self.is_gone:
            raise DiskError("open", path, OSError(errno.EIO, "the machine is gone"))
        is_new = create and not path.exists()
        if is_new:
            self._check("open", path)
        file = super().open(path, create=create, writable=writable)
        if is_new:
            self._date(file.fd)
        return file

    def _check(self, what: str, path: Path) -> None:
        if self.broken_files is not None and path.name.endswith(self.broken_files):
            raise DiskError(what, path, OSError(errno.EIO, os.strerror(errno.EIO)))

    def fsync(self, file: File) -> None:
        self._check("fsync", file.path)
        super().fsync(file)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", source)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._check("link", source)
        if self.room_bytes == 0 and source.name.endswith(self.full_files):
            # The directory has no room for another name.
            raise DiskError("link", source, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        super().link(source, target)

    def write(self, file: File, data: Buffer, position: int) -> None:
        self._check("write", file.path)
        if self.room_bytes is not None and file.path.name.endswith(self.full_files):
            if len(data) > self.room_bytes:
                # The kernel writes what fits.
                super().write(file, memoryview(data)[: self.room_bytes], position)
                self._date(file.fd)
                self.room_bytes = 0
                raise DiskError("write", file.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            self.room_bytes -= len(data)
        super().write(file, data, position)
        self._date(file.fd)
        if self.wrote is not None:
            self.wrote(file.path)

    def truncate(self, file: File, size: int) -> None:
        super().truncate(file, size)
        self._date(file.fd)

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        """Return bytes, or seldom None, as if they were not in the page cache."""
        if self._chance.random() < 0.02:
            return None
        data = bytearray(os.pread(file.fd, size, position))
        return data if len(data) == size else None

    def space(self, path: Path) -> tuple[int, int]:
        return _SPACE, _SPACE if self.room_bytes is None else self.room_bytes

    def names(self, directory: Path) -> list[str]:
        return sorted(super().names(directory))

    def stamps(self, directory: Path) -> dict[str, list[int]]:
        found = super().stamps(directory)
        return {name: found[name] for name in sorted(found)}

    def abandon(self) -> None:
        """Take the descriptors of a killed process away: it writes nothing more, and holds no lock."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in self._nodes:
            os.dup2(nowhere, fd)
        self._nodes.clear()
        os.close(nowhere)

    def lose(self, seed: int) -> None:
        super().lose(seed)
        for path in sorted(self._root.rglob("*")):
            self._date(path)

    def contents(self) -> dict[str, bytes]:
        """Return what each file has now."""
        return {
            str(each.relative_to(self._root)): each.read_bytes() for each in self._root.rglob("*") if each.is_file()
        }

    def identity(self, path: Path) -> str:
        return str(self._copies)

    def copy(self) -> Files:
        """Return what each file has, and its time, as somebody copies a directory in use."""
        return {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in self._root.rglob("*") if each.is_file()}

    def replace(self, files: Files) -> None:
        """Lose every file, as a machine whose disk was replaced, and get those of a copy."""
        shutil.rmtree(self._root)
        self._root.mkdir()
        self._nodes, self._live, self._stable, self._changes, self._moves = {}, {}, {}, [], []
        self._copies += 1
        for path, (content, ns) in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(ns, ns))
        for each in self._root.iterdir():
            if each.is_dir():
                self._date(each)

    def close(self, fd: int) -> None:
        if self.is_gone:
            os.close(fd)
        else:
            super().close(fd)
