"""A disk that keeps a copy of a directory before each of its steps: every point at which a crash can happen.

A write is two steps, so that a crash can also happen in the middle of it. A copy holds what the next start would find:
after a kill all that was written; after a power cut, unsynced bytes are torn, zeroed or whole, as a seed decides. Each
point also keeps what `note` returned at that moment, such as the acknowledgements until then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from odradek.storage.files import Buffer, File
from odradek.tests.support.disks.disk import FaultyDisk

T = TypeVar("T")


@dataclass(frozen=True)
class Point(Generic[T]):
    """The files that a crash at this point would leave, and what `note` returned before it."""

    files: dict[Path, bytes]
    noted: T
    # The disk's next step and its file; the last point has none.
    operation: str
    path: Path | None

    def restore(self, directory: Path) -> Path:
        """Make the directory, which must not exist yet."""
        for path, content in self.files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return directory


class CrashPoints(FaultyDisk, Generic[T]):
    """The disk that the module describes. It begins with `watch`, and keeps the steps of threads in their order."""

    def __init__(self, directory: Path, *, power: bool = False) -> None:
        super().__init__()
        self._directory = directory
        self._power = power
        self._note: Callable[[], T] | None = None
        self._lock = threading.RLock()
        self._doing: tuple[str, Path | None] = "", None
        # Invariant: the content of the files, except for files of the operation that began last.
        self._files: dict[Path, bytes] = {}
        self.points: list[Point[T]] = []

    def watch(self, note: Callable[[], T]) -> None:
        """Keep copies from here on."""
        with self._lock:
            self._note = note
            self._look()

    def end(self) -> list[Point[T]]:
        """Return the points; the last one is the present state."""
        with self._lock:
            self._doing = "", None
            self._keep()
            self._note = None
        return self.points

    def _keep(self) -> None:
        if self._note is None:
            return
        self._look()
        files = dict(self._files)
        if self._power:
            for path in self._live:
                files.pop(path, None)
            files.update(self.after_power_cut(seed=len(self.points)))
        relative = {path.relative_to(self._directory): content for path, content in files.items()}
        self.points.append(Point(relative, self._note(), *self._doing))

    def _look(self) -> None:
        self._files = {path: path.read_bytes() for path in self._directory.rglob("*") if path.is_file()}

    def _step(self, count: int = 1) -> int:
        self._keep()
        return super()._step(count)

    # One step at a time: a copy must not see half of another thread's.

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        with self._lock:
            self._doing = "open", path
            return super().open(path, create=create, writable=writable)

    def write(self, file: File, data: Buffer, position: int) -> None:
        view = memoryview(data)
        half = len(view) // 2
        with self._lock:
            self._doing = "write", file.path
            for start, piece in ((0, view[:half]), (half, view[half:])):
                if len(piece):
                    super().write(file, piece, position + start)

    def fsync(self, file: File) -> None:
        with self._lock:
            self._doing = "fsync", file.path
            super().fsync(file)

    def fsync_dir(self, path: Path) -> None:
        with self._lock:
            self._doing = "fsync_dir", path
            super().fsync_dir(path)

    def truncate(self, file: File, size: int) -> None:
        with self._lock:
            self._doing = "truncate", file.path
            super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._doing = "rename", source
            super().rename(source, target)

    def unlink(self, path: Path) -> None:
        with self._lock:
            self._doing = "unlink", path
            super().unlink(path)

    def close(self, fd: int) -> None:
        with self._lock:
            super().close(fd)
