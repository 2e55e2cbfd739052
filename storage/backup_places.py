"""Where a backup lies: a directory, or an object store that obstore knows (`s3://`, `gs://`, `az://`, `file:///`).

A place has files by their path. What is written is there, whole and durable, when `write` returns.

Where the environment has no credentials for `s3://`, those of the files of AWS's own tools serve. `~/.aws/credentials`
and `~/.aws/config` (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE) have a section for each profile, and AWS_PROFILE
names it. Keys, region and endpoint are read. Logins that a tool has to make first are not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Mapping
from configparser import ConfigParser, Error
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from .. import how_to_install
from . import system_calls
from .errors import StorageError, disk_errors
from .files import DISK, PRIVATE_MODE

CHUNK_BYTES = 1 << 20
PRIVATE_DIRECTORY = 0o700
# Behind the name of a data directory: the folder with the keys and passwords of `odradek serve --secure`.
SECURE_SUFFIX = ".secure"
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


class BackupPlace(Protocol):
    """The files of one backup. Its methods raise DiskError, BackupError."""

    def check_new(self, but: str) -> None:
        """Raise BackupError unless nothing is there; with the file `but` it is a whole backup."""
        ...

    def has(self, path: str) -> bool: ...

    def make(self, path: str, mode: int) -> None:
        """Make a directory with this mode. Its parent is there."""
        ...

    def write(self, path: str, chunks: Iterable[bytes], like: Path | None) -> None:
        """Write a file, with the times and the mode of the file `like`."""
        ...

    def read(self, path: str) -> Iterator[bytes]: ...

    def sync(self) -> None:
        """Return when the names of all files are durable."""
        ...


def place_of(target: str | Path) -> BackupPlace:
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
            private = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_MODE)
            with open(private, "wb") as writer:
                for chunk in chunks:
                    writer.write(chunk)
                writer.flush()
                system_calls.fsync(writer.fileno())
            if like is not None:
                shutil.copystat(like, target)

    def make(self, path: str, mode: int) -> None:
        target = self.path / path
        with disk_errors("make", target):
            target.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            # Whatever the umask is. The owner has to write in it.
            target.chmod(mode | PRIVATE_DIRECTORY)

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
            raise BackupError(f"{url} needs obstore: {how_to_install('objects')}") from None
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

    def make(self, path: str, mode: int) -> None:
        """A store has no directories."""

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


def _not_new(place: BackupPlace, whole: bool) -> BackupError:
    why = "exists" if whole else "is not empty, and no whole backup: delete it if it was one"
    return BackupError(f"{place} {why}; give the backup a directory of its own")


_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# What a profile has whose keys a tool has to fetch.
_FETCHED = ("sso_session", "sso_start_url", "role_arn", "credential_process")
_HOW = 'set the keys by the environment: eval "$(aws configure export-credentials --format env)"'


class BadProfile(Exception):
    """A profile that cannot be used; the text says why, and what to do."""


def s3_options(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the options of obstore that the environment lacks. Raises BadProfile."""
    name = environment.get("AWS_PROFILE", "default")
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", name)
    section = name if name == "default" else f"profile {name}"
    config = _section(environment.get("AWS_CONFIG_FILE") or "~/.aws/config", section)
    found = {key: value for key, value in {**config, **keys}.items() if key in _KEYS}
    if "AWS_PROFILE" in environment and not keys and not config:
        raise BadProfile(f"there is no profile {name!r} (AWS_PROFILE) in ~/.aws: aws configure --profile {name}")
    if "AWS_ACCESS_KEY_ID" in environment:
        found = {}
    elif "aws_access_key_id" not in found and any(each in config or each in keys for each in _FETCHED):
        raise BadProfile(f"the profile {name!r} has no keys of its own: {_HOW}")
    if region := config.get("region"):
        found["region"] = region
    if endpoint := config.get("endpoint_url"):
        found["endpoint_url"] = endpoint
    if "AWS_REGION" in environment or "AWS_DEFAULT_REGION" in environment:
        found.pop("region", None)
    if "AWS_ENDPOINT_URL" in environment:
        found.pop("endpoint_url", None)
    return found


def _section(path: str, name: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(Path(path).expanduser(), encoding="utf-8")
    except (OSError, Error, UnicodeDecodeError) as error:
        raise BadProfile(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    return dict(parser[name]) if parser.has_section(name) else {}
