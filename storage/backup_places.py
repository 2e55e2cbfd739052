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
from .errors import StorageError, disk_errors
from .files import DISK
from .object_credentials import BadProfile, s3_options

CHUNK_BYTES = 1 << 20
# What to do, by a part of an error of a store.
_REMEDIES = {
    # The address at which machines of a cloud find their own credentials: the last place to look.
    "169.254.169.254": "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "NoSuchBucket": "make the bucket first",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID, or the profile",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY, or the profile",
    "AccessDenied": "the credentials must be allowed to list, read and write there",
    "error sending request": "check the address (AWS_ENDPOINT_URL, AWS_REGION) and the network",
}


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
        with disk_errors("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as writer:
                for chunk in chunks:
                    writer.write(chunk)
                writer.flush()
                system_calls.fsync(writer.fileno())
            if like is not None:
                shutil.copystat(like, target)

    def read(self, path: str) -> Iterator[bytes]:
        with disk_errors("read", self.path / path), (self.path / path).open("rb") as reader:
            while chunk := reader.read(CHUNK_BYTES):
                yield chunk

    def sync(self) -> None:
        with disk_errors("write", self.path):
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
            self._store: Any = from_url(self._url, **_options(self._url))

    def __str__(self) -> str:
        return self._url

    @contextmanager
    def _errors(self) -> Generator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            text = str(error)
            # The lines behind the first one are obstore's own state.
            raise BackupError(f"{self._url}: {text.splitlines()[0]}{_remedy(text)}") from error

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


def _options(url: str) -> dict[str, Any]:
    """Return the options of a store that obstore does not take from the environment. Raises BackupError."""
    if not url.startswith("s3://"):
        return {}
    try:
        found: dict[str, Any] = dict(s3_options())
    except BadProfile as error:
        raise BackupError(f"{url}: {error}") from None
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or found.get("endpoint_url", "")
    if endpoint.startswith("http://"):
        # AWS's own tools speak HTTP to such an endpoint, too.
        found["client_options"] = {"allow_http": True}
    return found


def _remedy(text: str) -> str:
    """Return what to do about an error of a store, "" where the error says it."""
    found = next((remedy for part, remedy in _REMEDIES.items() if part in text), None)
    return f"; {found}" if found else ""


def _not_new(place: Place, whole: bool) -> BackupError:
    why = "exists" if whole else "is not empty, and no whole backup: delete it if it was one"
    return BackupError(f"{place} {why}; give the backup a directory of its own")
