"""A backup of data directories: a copy of their files, and a list of them with sizes and CRC-32C sums.

TARGET is a directory or a prefix in an object store (backup_places.py):

    TARGET/0/...            the files of the first data directory; 1 the next one, and so on
    TARGET/manifest.json    {"format": 1, "directories": N, "files": [[path, size, CRC-32C], ...],
                            "modes": {path: mode, ...}, "left_out": [name, ...]}, written last

`modes` has the directories (`0/`, `0/TOPIC-N/`), and the files whose mode is not 0644. `left_out` has what lies beside
the data directories and is not copied: `DIR.secure`, with the keys and passwords of a secure start.

Promise: a directory with a manifest is a whole backup, and nothing else is. A restore checks every byte that it copies,
and its target appears at the end by a rename: a restore that was interrupted leaves no data directory. Of several, a
power cut between their renames leaves the first ones, and another restore to them is refused. Nobody may write to the
data directories meanwhile: the caller holds their locks, or a running broker holds its files (held_files.py).
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ..protocol.records.crc import crc32c
from .backup_places import CHUNK_BYTES, PRIVATE_DIRECTORY, SECURE_SUFFIX, BackupError, BackupPlace, Directory, place_of
from .errors import disk_errors
from .files import DISK
from .held_files import Held

MANIFEST = "manifest.json"
FORMAT = 1
# What belongs to a running process and not to the data.
_LEFT_OUT = frozenset((".lock",))
_RESTORING = ".restoring"
# In a directory that a restore has made, until it is whole: another one may remove what an interrupted one has left.
_MARK = ".odradek-restore"
# The mode of a file that the manifest does not name, and of a directory that has gone meanwhile.
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755


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
    expected = {f"{number}/{name}" for number, directory in enumerate(directories) for name in _loaded(directory)}
    return _write(sources, directories, target, progress, expected)


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
    sources: Iterable[_Source],
    directories: Sequence[Path],
    target: str | Path,
    progress: Callable[[int], None],
    expected: Collection[str] = frozenset(),
) -> int:
    """Copy `sources`, and write the manifest. Raises BackupError if one of the `expected` files is not among them."""
    place = place_of(target)
    if isinstance(place, Directory) and any(
        place.path.resolve().is_relative_to(each.resolve()) for each in directories
    ):
        raise BackupError(f"{target} lies in the data directory that is to be copied")
    place.check_new(MANIFEST)
    with disk_errors("back up to", Path(target)):
        entries: list[Entry] = []
        modes: dict[str, int] = {}
        for source in sources:
            _make_parents(place, source.path, directories, modes)
            sums = _Sums(progress)
            like = source.content if isinstance(source.content, Path) else None
            place.write(source.path, sums.of(source.chunks()), like)
            entries.append(Entry(source.path, sums.size, sums.crc))
            if like is not None and (mode := _mode_of(like)) != _FILE_MODE:
                modes[source.path] = mode
        place.sync()
        missing = sorted(set(expected) - {entry.path for entry in entries})
        if missing:
            raise BackupError(f"{len(missing)} files that the broker would load were not copied, as {missing[0]}")
        manifest = {
            "format": FORMAT,
            "directories": len(directories),
            "files": [[entry.path, entry.size, entry.crc] for entry in entries],
            "modes": modes,
            "left_out": [each.name for each in secure_folders(directories)],
        }
        place.write(MANIFEST, [json.dumps(manifest).encode()], None)
        place.sync()
    return len(entries)


def _make_parents(place: BackupPlace, path: str, directories: Sequence[Path], modes: dict[str, int]) -> None:
    """Make the directories above a file of a backup as they are in the data directories, and note their modes."""
    for parent in [str(each) for each in PurePosixPath(path).parents][-2::-1]:
        if f"{parent}/" not in modes:
            number, _, name = parent.partition("/")
            original = directories[int(number)] / name
            modes[f"{parent}/"] = mode = _mode_of(original) if original.exists() else _DIRECTORY_MODE
            place.make(parent, mode)


def _mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def secure_folders(directories: Iterable[Path]) -> list[Path]:
    """Return the folders of a secure start that lie beside data directories. A backup does not hold them."""
    beside = (each.resolve().with_name(each.resolve().name + SECURE_SUFFIX) for each in directories)
    return [each for each in beside if each.is_dir()]


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
    manifest = read_manifest(backup)
    if manifest.directories != len(targets):
        raise BackupError(
            f"{backup} has {manifest.directories} data directories, not {len(targets)}: name a target for each"
        )
    targets = [_new_directory(each) for each in targets]
    if any(one.is_relative_to(other) for one, other in permutations(targets, 2)):
        raise BackupError("two targets are the same, or one lies in another: give each data directory its own")
    made = [each.with_name(each.name + _RESTORING) for each in targets]
    for each in made:
        _require_ours(each)
    placed: list[Path] = []
    place, modes = place_of(backup), manifest.modes
    with disk_errors("restore", Path(backup)):
        try:
            for number, each in enumerate(made):
                shutil.rmtree(each, ignore_errors=True)  # of a restore that was interrupted
                Directory(each).make("", PRIVATE_DIRECTORY)
                (each / _MARK).touch()
                _make_directories(number, each, modes)
            for entry in manifest.entries:
                number, _, name = entry.path.partition("/")
                Directory(made[int(number)]).write(name, checked(place, entry, progress), _stat_of(place, entry))
                if modes:
                    (made[int(number)] / name).chmod(modes.get(entry.path, _FILE_MODE))
            for number, (each, target) in enumerate(zip(made, targets, strict=True)):
                (each / _MARK).unlink()
                each.chmod(modes.get(f"{number}/", PRIVATE_DIRECTORY) | PRIVATE_DIRECTORY)
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
    return len(manifest.entries)


def _require_ours(made: Path) -> None:
    """Raise BackupError where somebody else has the name of the directory that a restore fills first."""
    if made.is_symlink() or (
        made.exists() and not (made.is_dir() and (not any(made.iterdir()) or (made / _MARK).exists()))
    ):
        raise BackupError(f"{made} is there, and no restore has left it: rename it, a restore needs this name")


def _make_directories(number: int, made: Path, modes: Mapping[str, int]) -> None:
    """Make the directories in a data directory whose mode the manifest tells."""
    for path in sorted(modes):
        head, _, name = path.partition("/")
        if head == str(number) and name.endswith("/"):
            Directory(made).make(name, modes[path])


def _new_directory(target: Path) -> Path:
    """Return the path of a target itself, to which a rename may move a data directory. Raises BackupError."""
    found = target.resolve()
    if found.exists() and (not found.is_dir() or any(found.iterdir())):
        raise BackupError(f"{target} is there and not empty: restore to a new directory")
    if found.is_mount():
        raise BackupError(f"{target} is a mount point, which no rename can replace: restore to a new directory in it")
    return found


def checked(place: BackupPlace, entry: Entry, progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the bytes of a file of a backup. Raises BackupError at the end if they are not those of the manifest."""
    sums = _Sums(progress)
    yield from sums.of(place.read(entry.path))
    if (sums.size, sums.crc) != (entry.size, entry.crc):
        found = f"{sums.size} bytes with CRC {sums.crc:#010x}, not {entry.size} with {entry.crc:#010x}"
        raise BackupError(f"{place}/{entry.path} is damaged: {found}")


def _stat_of(place: BackupPlace, entry: Entry) -> Path | None:
    return place.path / entry.path if isinstance(place, Directory) else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of a whole backup: the number of its data directories, its files, their modes, and what is not in it."""

    directories: int
    entries: list[Entry]
    # Empty where an earlier version has made the backup.
    modes: dict[str, int]
    left_out: list[str]


def read_manifest(backup: str | Path) -> Manifest:
    """Return the manifest of a backup. Raises BackupError if it is not whole."""
    place = place_of(backup)
    if isinstance(place, Directory) and not place.path.is_dir():
        raise BackupError(f"{backup} is no directory")
    if not place.has(MANIFEST):
        raise BackupError(f"{backup} is no whole backup: it has no {MANIFEST}, which is written last")
    path = f"{place}/{MANIFEST}"
    try:
        found: dict[str, Any] = json.loads(b"".join(place.read(MANIFEST)))
        version, count = found["format"], int(found["directories"])
        rows = cast("list[tuple[str, int, int]]", found["files"])
        entries = [Entry(str(name), int(size), int(crc)) for name, size, crc in rows]
        modes = {str(name): int(mode) & 0o777 for name, mode in found.get("modes", {}).items()}
        left_out = [str(name) for name in found.get("left_out", ())]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    if version != FORMAT:
        raise BackupError(f"{path}: format {version} was written by a newer Odradek; this one reads {FORMAT}")
    for entry in entries:
        parts = PurePosixPath(entry.path).parts
        # `0//etc/x` has the parts of `0/etc/x`, and is another file.
        is_plain = "/".join(parts) == entry.path
        if not is_plain or len(parts) < 2 or ".." in parts or not (parts[0].isdecimal() and int(parts[0]) < count):
            raise BackupError(f"{path} is damaged: {entry.path!r} is no file of a data directory")
    for name in modes:
        if not name.partition("/")[0].isdecimal() or ".." in PurePosixPath(name).parts:
            raise BackupError(f"{path} is damaged: {name!r} is nothing of a data directory")
    return Manifest(count, entries, modes, left_out)


def _loaded(directory: Path) -> Iterator[str]:
    """Yield the files of a data directory that a broker would load: a partition may lie behind a symbolic link."""
    for each in directory.iterdir():
        if each.is_dir():
            yield from (f"{each.name}/{file.name}" for file in each.iterdir() if file.is_file())
        elif each.name not in _LEFT_OUT:
            yield each.name


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files of a data directory, in order, also those behind symbolic links. Raises BackupError."""
    seen: set[Path] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        found = Path(folder).resolve()
        if found in seen:
            raise BackupError(f"{folder} leads to {found}, which is in the backup already")
        seen.add(found)
        folders.sort()
        for name in sorted(names):
            if name not in _LEFT_OUT:
                yield Path(folder, name)
