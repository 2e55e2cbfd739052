"""Where a backup lies: a directory, or an object store that obstore knows (`s3://`, `gs://`, `az://`, `file:///`).

A place has files by their path. What is written is there, whole and durable, when `write` returns.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from . import system_calls
from .errors import DiskError, StorageError
from .files import DISK

CHUNK_BYTES = 1 << 20


class BackupError(StorageError):
    """A backup or a restore cannot be done; the text says why."""


class Place(Protocol):
    """The files of one backup. Its methods raise DiskError, BackupError."""

    def check_new(self, but: str) -> None:
        """Raise BackupError unless nothing is there; with the file `but` it is a whole backup."""
        ...

    def has(self, path: str) -> bool: ...

    def write(self, path: str, chunks: Iterable[bytes], like: Path | None) -> None:
        """Write a file, with the times of the file `like`."""
        ...

    def read(self, path: str) -> Iterator[bytes]: ...

    def sync(self) -> None:
        """Return when the names of all files are durable."""
        ...


def place_of(target: str | Path) -> Place:
    """Return the place that a path or a URL names. Raises BackupError."""
    return ObjectStore(str(target)) if "://" in str(target) else Directory(Path(target))


class Directory:
    """A directory on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def check_new(self, but: str) -> None:
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            whole = self.has(but) or not self.path.is_dir()
            raise _not_new(self, whole)

    def has(self, path: str) -> bool:
        return (self.path / path).exists()

    def write(self, path: str, chunks: Iterable[bytes], like: Path | None) -> None:
        target = self.path / path
        with _disk_errors("back up to", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as writer:
                for chunk in chunks:
                    writer.write(chunk)
                writer.flush()
                system_calls.fsync(writer.fileno())
            if like is not None:
                shutil.copystat(like, target)

    def read(self, path: str) -> Iterator[bytes]:
        with _disk_errors("read", self.path / path), (self.path / path).open("rb") as reader:
            while chunk := reader.read(CHUNK_BYTES):
                yield chunk

    def sync(self) -> None:
        with _disk_errors("back up to", self.path):
            for folder, _, _ in os.walk(self.path):
                DISK.fsync_dir(Path(folder))
            DISK.fsync_dir(self.path.absolute().parent)


class ObjectStore:
    """A prefix in an object store. Credentials come from the environment, by the names of the store's own tools."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise BackupError(f"{url} needs obstore: pip install 'odradek[objects]'") from None
        self._url = url.rstrip("/")
        self._obstore: Any = obstore
        with self._errors():
            self._store: Any = from_url(self._url)

    def __str__(self) -> str:
        return self._url

    @contextmanager
    def _errors(self) -> Generator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            # The lines behind the first one are obstore's own state.
            raise BackupError(f"{self._url}: {str(error).splitlines()[0]}") from error

    def check_new(self, but: str) -> None:
        with self._errors():
            found = next(iter(self._obstore.list(self._store, chunk_size=1)), None)
        if found:
            raise _not_new(self, self.has(but))

    def has(self, path: str) -> bool:
        with self._errors():
            try:
                self._obstore.head(self._store, path)
            except FileNotFoundError:
                return False
        return True

    def write(self, path: str, chunks: Iterable[bytes], like: Path | None) -> None:
        with self._errors():
            self._obstore.put(self._store, path, iter(chunks))

    def read(self, path: str) -> Iterator[bytes]:
        with self._errors():
            for chunk in self._obstore.get(self._store, path).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def sync(self) -> None:
        """Each file is durable once it is written."""


def _not_new(place: Place, whole: bool) -> BackupError:
    why = "exists" if whole else "is not empty, and no whole backup: delete it if it was one"
    return BackupError(f"{place} {why}; give the backup a directory of its own")


@contextmanager
def _disk_errors(operation: str, path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(operation, Path(error.filename or path), error) from error
