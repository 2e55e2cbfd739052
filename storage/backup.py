"""A backup of data directories: a copy of their files, and a list of them with sizes and CRC-32C sums.

    TARGET/0/...            the files of the first data directory; 1 the next one, and so on
    TARGET/manifest.json    {"format": 1, "directories": N, "files": [[path, size, CRC-32C], ...]}, written last

Promise: a directory with a manifest is a whole backup, and nothing else is. A restore checks every byte that it copies,
and its target appears at the end by a rename: a restore that was interrupted leaves no data directory. Nobody may write
to the data directories meanwhile: the caller holds their locks, or a running broker holds its files (held_files.py).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ..protocol.records.crc import crc32c
from . import system_calls
from .errors import DiskError, StorageError
from .files import DISK
from .held_files import Held

MANIFEST = "manifest.json"
FORMAT = 1
# What belongs to a running process and not to the data.
_LEFT_OUT = frozenset((".lock",))
_CHUNK_BYTES = 1 << 20
_RESTORING = ".restoring"


class BackupError(StorageError):
    """A backup or a restore cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a backup. Its path is relative to the backup."""

    path: str
    size: int
    crc: int


def size_of(directories: Sequence[Path]) -> int:
    """Return the number of bytes that a backup of these directories copies."""
    return sum(path.stat().st_size for directory in directories for path in _files(directory))


def back_up(directories: Sequence[Path], target: Path, progress: Callable[[int], None]) -> int:
    """Copy data directories to `target`, which must not exist or be empty. Return the number of files.

    Raises BackupError, DiskError.
    """
    _check_target(target, directories)
    sources = (
        _Source(f"{number}/{path.relative_to(directory).as_posix()}", path)
        for number, directory in enumerate(directories)
        for path in _files(directory)
    )
    return _write(sources, len(directories), target, progress)


def back_up_held(directories: Sequence[Held], target: Path, progress: Callable[[int], None]) -> int:
    """Copy what a running broker holds of each of its data directories. As `back_up`."""
    _check_target(target, [each.directory.parent for each in directories])
    sources = (
        _Source(f"{number}/{name}", *where) for number, held in enumerate(directories) for name, where in _held(held)
    )
    return _write(sources, len(directories), target, progress)


def _held(held: Held) -> Iterator[tuple[str, tuple[Path | bytes, int | None]]]:
    for name, link, size in held.files:
        yield name, (held.directory / link, size)
    for name, text in held.texts:
        yield name, (text.encode(), None)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a file of a backup comes from: a file, or its bytes."""

    path: str
    content: Path | bytes
    # Only the first bytes belong to the backup; None: all of them.
    size: int | None = None


def _check_target(target: Path, directories: Sequence[Path]) -> None:
    if any(target.resolve().is_relative_to(each.resolve()) for each in directories):
        raise BackupError(f"{target} lies in the data directory that is to be copied")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        whole = (target / MANIFEST).exists()
        why = "exists" if whole or not target.is_dir() else "is not empty, and no whole backup: delete it if it was one"
        raise BackupError(f"{target} {why}; give the backup a directory of its own")


def _write(sources: Iterable[_Source], directories: int, target: Path, progress: Callable[[int], None]) -> int:
    with _disk_errors("back up to", target):
        entries: list[Entry] = []
        for source in sources:
            size, crc = _copy(source.content, target / source.path, progress, source.size)
            if source.size is not None and size < source.size:
                raise BackupError(f"{source.content} has {size} bytes, not the {source.size} that the broker wrote")
            entries.append(Entry(source.path, size, crc))
        _sync_tree(target)
        listed = [[entry.path, entry.size, entry.crc] for entry in entries]
        text = json.dumps({"format": FORMAT, "directories": directories, "files": listed})
        DISK.write_atomically(target / MANIFEST, text.encode())
    return len(entries)


def restore(backup: Path, targets: Sequence[Path], progress: Callable[[int], None]) -> int:
    """Copy a backup to data directories, which must not exist or be empty. Return the number of files.

    Raises BackupError if the backup is incomplete or damaged: then no target is there.
    """
    count, entries = read_manifest(backup)
    if count != len(targets):
        raise BackupError(f"{backup} has {count} data directories, not {len(targets)}: name a target for each")
    for each in targets:
        if each.exists() and (not each.is_dir() or any(each.iterdir())):
            raise BackupError(f"{each} is there and not empty: restore to a new directory")
    made = [each.with_name(each.name + _RESTORING) for each in targets]
    with _disk_errors("restore", backup):
        try:
            for each in made:
                shutil.rmtree(each, ignore_errors=True)  # of a restore that was interrupted
                each.mkdir(parents=True)
            for entry in entries:
                _restore_file(backup, entry, made, progress)
            for each, target in zip(made, targets, strict=True):
                _sync_tree(each)
                if target.exists():
                    target.rmdir()
                each.rename(target)
                DISK.fsync_dir(target.parent)
        except BaseException:
            for each in made:
                shutil.rmtree(each, ignore_errors=True)
            raise
    return len(entries)


def _restore_file(backup: Path, entry: Entry, made: Sequence[Path], progress: Callable[[int], None]) -> None:
    number, _, name = entry.path.partition("/")
    found = _copy(backup / entry.path, made[int(number)] / name, progress)
    if found != (entry.size, entry.crc):
        sums = f"{found[0]} bytes with CRC {found[1]:#010x}, not {entry.size} with {entry.crc:#010x}"
        raise BackupError(f"{backup / entry.path} is damaged: {sums}")


def read_manifest(backup: Path) -> tuple[int, list[Entry]]:
    """Return the number of data directories and the files of a backup. Raises BackupError if it is not whole."""
    path = backup / MANIFEST
    if not backup.is_dir():
        raise BackupError(f"{backup} is no directory")
    if not path.exists():
        raise BackupError(f"{backup} is no whole backup: it has no {MANIFEST}, which is written last")
    try:
        found: Any = json.loads(DISK.read_file(path))
        version, count = found["format"], found["directories"]
        rows = cast("list[tuple[str, int, int]]", found["files"])
        entries = [Entry(str(name), int(size), int(crc)) for name, size, crc in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    if version != FORMAT:
        raise BackupError(f"{path}: format {version} was written by a newer Odradek; this one reads {FORMAT}")
    for entry in entries:
        parts = PurePosixPath(entry.path).parts
        if len(parts) < 2 or ".." in parts or not (parts[0].isdecimal() and int(parts[0]) < count):
            raise BackupError(f"{path} is damaged: {entry.path!r} is no file of a data directory")
    return count, entries


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files of a data directory, in order."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            if name not in _LEFT_OUT:
                yield Path(folder, name)


def _copy(
    source: Path | bytes, target: Path, progress: Callable[[int], None], limit: int | None = None
) -> tuple[int, int]:
    """Copy a file up to `limit`, force the copy to disk, and return its size and CRC-32C."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size = crc = 0
    left = sys.maxsize if limit is None else limit
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(min(_CHUNK_BYTES, left - size)):
            writer.write(chunk)
            crc = crc32c(chunk, crc)
            size += len(chunk)
            progress(len(chunk))
        writer.flush()
        system_calls.fsync(writer.fileno())
    if isinstance(source, Path):
        shutil.copystat(source, target)
    return size, crc


def _sync_tree(directory: Path) -> None:
    for folder, _, _ in os.walk(directory):
        DISK.fsync_dir(Path(folder))
    DISK.fsync_dir(directory.absolute().parent)


@contextmanager
def _disk_errors(operation: str, path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(operation, Path(error.filename or path), error) from error
