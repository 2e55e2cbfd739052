"""A disk that goes by the rules of a test: before each operation a rule may refuse it, have it wait, or note it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from odradek.storage.errors import DiskError
from odradek.storage.files import Buffer, Disk, File

WAIT_S = 60
# The name of an operation, and its path; of a rename or a link the new one.
Rule = Callable[[str, Path], object]


def disk_error(operation: str, path: Path, number: int) -> DiskError:
    """Return the error of an operation that fails with this errno."""
    return DiskError(operation, path, OSError(number, os.strerror(number)))


def allow(operation: str, path: Path) -> None:
    """Let everything happen."""


class RuledDisk(Disk):
    """Asks `rule` before each operation. What makes a new file is a `create`, not an `open`."""

    def __init__(self, rule: Rule = allow) -> None:
        self.rule = rule

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        self.rule("create" if create and not path.exists() else "open", path)
        return super().open(path, create=create, writable=writable)

    def read(self, file: File, size: int, position: int) -> bytes:
        self.rule("read", file.path)
        return super().read(file, size, position)

    def write(self, file: File, data: Buffer, position: int) -> None:
        self.rule("write", file.path)
        super().write(file, data, position)

    def fsync(self, file: File) -> None:
        self.rule("fsync", file.path)
        super().fsync(file)

    def fsync_dir(self, path: Path) -> None:
        self.rule("fsync_dir", path)
        super().fsync_dir(path)

    def rename(self, source: Path, target: Path) -> None:
        self.rule("rename", target)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self.rule("link", target)
        super().link(source, target)

    def mkdir(self, path: Path) -> None:
        if not path.exists():
            self.rule("mkdir", path)
        super().mkdir(path)


class FullDisk(RuledDisk):
    """Writes and new names fail where `is_full` says so of the path. What is there can be read, renamed and removed."""

    def __init__(self, is_full: Callable[[Path], bool] = lambda _: False, number: int = errno.ENOSPC) -> None:
        super().__init__(self._check)
        self.is_full = is_full
        self._number = number

    def fill(self, folder: Path | None = None) -> None:
        """Take no more byte of any file, or of those below a folder."""
        self.is_full = lambda path: folder is None or folder in path.parents

    def free(self) -> None:
        """Take everything again."""
        self.is_full = lambda _: False

    def _check(self, operation: str, path: Path) -> None:
        if operation in ("create", "write", "mkdir") and self.is_full(path):
            raise disk_error(operation, path, self._number)


def is_journal(path: Path) -> bool:
    """Whether a file is one of the metadata journal's."""
    return ".journal" in path.name or ".snapshot" in path.name


class HangingDisk(RuledDisk):
    """Operations of the chosen kinds below `hung` wait until `free`, as on a network mount or a dying drive."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.hung: tuple[Path, ...] = ()
        self.kinds: frozenset[str] = frozenset()
        # The number of operations that wait now.
        self.waiting = 0
        self._lock = threading.Lock()
        self._is_free = threading.Event()

    def hang(self, *directories: Path, kinds: set[str]) -> None:
        """Let operations hang, of the kinds `fsync`, `read` (also of cached bytes) and `rename` (of checkpoints)."""
        self.hung, self.kinds = directories, frozenset(kinds)

    def free(self) -> None:
        """Let everything go on."""
        self.hung = ()
        self._is_free.set()

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        return None if self._hangs("read", file.path) else super().read_nowait(file, size, position)

    def _hangs(self, kind: str, path: Path) -> bool:
        return kind in self.kinds and any(each in path.parents for each in self.hung)

    def _wait(self, kind: str, path: Path) -> None:
        if not self._hangs(kind, path):
            return
        with self._lock:
            self.waiting += 1
        assert self._is_free.wait(WAIT_S)
        with self._lock:
            self.waiting -= 1
