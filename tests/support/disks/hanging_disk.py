"""A disk that hangs below some directories, as a network mount or a dying drive does, until the test frees it."""

from __future__ import annotations

import threading
from pathlib import Path

from odradek.storage.files import Disk, File

WAIT_S = 60


class HangingDisk(Disk):
    """Operations of the chosen kinds on files below `hung` wait until `free`. All others go on."""

    def __init__(self) -> None:
        self.hung: tuple[Path, ...] = ()
        self.kinds: frozenset[str] = frozenset()
        # The number of operations that wait now.
        self.waiting = 0
        self._lock = threading.Lock()
        self._is_free = threading.Event()

    def hang(self, *directories: Path, kinds: set[str]) -> None:
        """Let operations hang, of the kinds `fsync`, `read` (also of cached bytes) and `replace` (of checkpoints)."""
        self.hung, self.kinds = directories, frozenset(kinds)

    def free(self) -> None:
        """Let everything go on."""
        self.hung = ()
        self._is_free.set()

    def fsync(self, file: File) -> None:
        self._wait("fsync", file.path)
        super().fsync(file)

    def read(self, file: File, size: int, position: int) -> bytes:
        self._wait("read", file.path)
        return super().read(file, size, position)

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        if self._hangs("read", file.path):
            return None
        return super().read_nowait(file, size, position)

    def rename(self, source: Path, target: Path) -> None:
        self._wait("replace", target)
        super().rename(source, target)

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
