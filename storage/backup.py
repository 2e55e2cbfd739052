"""A backup of data directories: a copy of their files, and a list of them with sizes and CRC-32C sums.

TARGET is a directory or a prefix in an object store (backup_places.py):

    TARGET/0/...            the files of the first data directory; 1 the next one, and so on
    TARGET/manifest.json    {"format": 1, "directories": N, "files": [[path, size, CRC-32C], ...]}, written last

Promise: a directory with a manifest is a whole backup, and nothing else is. A restore checks every byte that it copies,
and its target appears at the end by a rename: a restore that was interrupted leaves no data directory. Of several, a
power cut between their renames leaves the first ones, and another restore to them is refused. Nobody may write to the
data directories meanwhile: the caller holds their locks, or a running broker holds its files (held_files.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ..protocol.records.crc import crc32c
from .backup_places import CHUNK_BYTES, BackupError, Directory, Place, place_of
from .errors import disk_errors
from .files import DISK
from .held_files import Held

MANIFEST = "manifest.json"
FORMAT = 1
# What belongs to a running process and not to the data.
_LEFT_OUT = frozenset((".lock",))
_RESTORING = ".restoring"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a backup. Its path is relative to the backup."""

    path: str
    size: int
    crc: int


def size_of(directories: Sequence[Path]) -> int:
    """Return the number of bytes that a backup of these directories copies."""
    return sum(path.stat().st_size for directory in directories for path in _files(directory))


def back_up(directories: Sequence[Path], target: str | Path, progress: Callable[[int], None]) -> int:
    """Copy data directories to `target`, which must not exist or be empty. Return the number of files.

    Raises BackupError, DiskError.
    """
    sources = (
        _Source(f"{number}/{path.relative_to(directory).as_posix()}", path)
        for number, directory in enumerate(directories)
        for path in _files(directory)
    )
    return _write(sources, directories, target, progress)


def back_up_held(directories: Sequence[Held], target: str | Path, progress: Callable[[int], None]) -> int:
    """Copy what a running broker holds of each of its data directories. As `back_up`."""
    sources = (source for number, held in enumerate(directories) for source in _held(number, held))
    return _write(sources, [each.directory.parent for each in directories], target, progress)


def _held(number: int, held: Held) -> Iterator[_Source]:
    for name, link, size in held.files:
        yield _Source(f"{number}/{name}", held.directory / link, size)
    for name, text in held.texts:
        yield _Source(f"{number}/{name}", text.encode())


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a file of a backup comes from: a file, or its bytes."""

    path: str
    content: Path | bytes
    # Only the first bytes belong to the backup; None: all of them.
    size: int | None = None

    def chunks(self) -> Iterator[bytes]:
        if isinstance(self.content, bytes):
            yield self.content
            return
        left = sys.maxsize if self.size is None else self.size
        with self.content.open("rb") as reader:
            while chunk := reader.read(min(CHUNK_BYTES, left)):
                yield chunk
                left -= len(chunk)
        if self.size is not None and left:
            raise BackupError(f"{self.content} lacks {left} of the {self.size} bytes that the broker wrote")


def _write(
    sources: Iterable[_Source], directories: Sequence[Path], target: str | Path, progress: Callable[[int], None]
) -> int:
    place = place_of(target)
    if isinstance(place, Directory) and any(
        place.path.resolve().is_relative_to(each.resolve()) for each in directories
    ):
        raise BackupError(f"{target} lies in the data directory that is to be copied")
    place.check_new(MANIFEST)
    with disk_errors("back up to", Path(target)):
        entries: list[Entry] = []
        for source in sources:
            sums = _Sums(progress)
            like = source.content if isinstance(source.content, Path) else None
            place.write(source.path, sums.of(source.chunks()), like)
            entries.append(Entry(source.path, sums.size, sums.crc))
        place.sync()
        listed = [[entry.path, entry.size, entry.crc] for entry in entries]
        text = json.dumps({"format": FORMAT, "directories": len(directories), "files": listed})
        place.write(MANIFEST, [text.encode()], None)
        place.sync()
    return len(entries)


class _Sums:
    """The size and CRC-32C of what has passed."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self.size = self.crc = 0
        self._progress = progress

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.size += len(chunk)
            self.crc = crc32c(chunk, self.crc)
            self._progress(len(chunk))
            yield chunk


def restore(backup: str | Path, targets: Sequence[Path], progress: Callable[[int], None]) -> int:
    """Copy a backup to data directories, which must not exist or be empty. Return the number of files.

    Raises BackupError if the backup is incomplete or damaged: then no target is there.
    """
    count, entries = read_manifest(backup)
    if count != len(targets):
        raise BackupError(f"{backup} has {count} data directories, not {len(targets)}: name a target for each")
    targets = [_new_directory(each) for each in targets]
    if any(one.is_relative_to(other) for one, other in permutations(targets, 2)):
        raise BackupError("two targets are the same, or one lies in another: give each data directory its own")
    made = [each.with_name(each.name + _RESTORING) for each in targets]
    placed: list[Path] = []
    place = place_of(backup)
    with disk_errors("restore", Path(backup)):
        try:
            for each in made:
                shutil.rmtree(each, ignore_errors=True)  # of a restore that was interrupted
                each.mkdir(parents=True)
            for entry in entries:
                number, _, name = entry.path.partition("/")
                Directory(made[int(number)]).write(name, checked(place, entry, progress), _stat_of(place, entry))
            for each, target in zip(made, targets, strict=True):
                Directory(each).sync()
                if target.exists():
                    target.rmdir()
                each.rename(target)
                placed.append(target)
                DISK.fsync_dir(target.parent)
        except BaseException:
            for each in (*made, *placed):
                shutil.rmtree(each, ignore_errors=True)
            raise
    return len(entries)


def _new_directory(target: Path) -> Path:
    """Return the path of a target itself, to which a rename may move a data directory. Raises BackupError."""
    found = target.resolve()
    if found.exists() and (not found.is_dir() or any(found.iterdir())):
        raise BackupError(f"{target} is there and not empty: restore to a new directory")
    if found.is_mount():
        raise BackupError(f"{target} is a mount point, which no rename can replace: restore to a new directory in it")
    return found


def checked(place: Place, entry: Entry, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the bytes of a file of a backup. Raises BackupError at the end if they are not those of the manifest."""
    sums = _Sums(progress)
    yield from sums.of(place.read(entry.path))
    if (sums.size, sums.crc) != (entry.size, entry.crc):
        found = f"{sums.size} bytes with CRC {sums.crc:#010x}, not {entry.size} with {entry.crc:#010x}"
        raise BackupError(f"{place}/{entry.path} is damaged: {found}")


def _stat_of(place: Place, entry: Entry) -> Path | None:
    return place.path / entry.path if isinstance(place, Directory) else None


def read_manifest(backup: str | Path) -> tuple[int, list[Entry]]:
    """Return the number of data directories and the files of a backup. Raises BackupError if it is not whole."""
    place = place_of(backup)
    if isinstance(place, Directory) and not place.path.is_dir():
        raise BackupError(f"{backup} is no directory")
    if not place.has(MANIFEST):
        raise BackupError(f"{backup} is no whole backup: it has no {MANIFEST}, which is written last")
    path = f"{place}/{MANIFEST}"
    try:
        found: Any = json.loads(b"".join(place.read(MANIFEST)))
        version, count = found["format"], int(found["directories"])
        rows = cast("list[tuple[str, int, int]]", found["files"])
        entries = [Entry(str(name), int(size), int(crc)) for name, size, crc in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    if version != FORMAT:
        raise BackupError(f"{path}: format {version} was written by a newer Odradek; this one reads {FORMAT}")
    for entry in entries:
        parts = PurePosixPath(entry.path).parts
        # `0//etc/x` has the parts of `0/etc/x`, and is another file.
        is_plain = "/".join(parts) == entry.path
        if not is_plain or len(parts) < 2 or ".." in parts or not (parts[0].isdecimal() and int(parts[0]) < count):
            raise BackupError(f"{path} is damaged: {entry.path!r} is no file of a data directory")
    return count, entries


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files of a data directory, in order."""
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            if name not in _LEFT_OUT:
                yield Path(folder, name)
