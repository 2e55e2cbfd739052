"""A small durable list of records: changes are appended, and a snapshot of the state replaces them now and then.

    NAME-GGGGGGGGGG.snapshot    generation G (10 digits): the state before its tail; none for generation 0
    NAME-GGGGGGGGGG.journal     generation G: its tail, the records appended since

    both: magic b"ODRJRNL1", then frames; a snapshot ends with an empty one (8 zero bytes) or is not whole
    frame = length uint32 | CRC-32C uint32 of the payload | payload: msgpack of the records of one append

Both files have the mode 0600: the keys of users are among the records. One that an earlier version made gets it, too.

A payload is the list of the records of one append: after a crash all of them are there, or none. `append` returns once
its frame is on disk. `snapshot` writes the new snapshot to a temporary file and renames it into place. Only then does
it start the new tail and remove the old pair. So a crash at any byte leaves the state before or after. Opening cuts off
a torn last frame. A damaged frame with whole frames behind it raises DamagedFile with file and position: no crash does
that, and dropping the frame silently would undo topics. So does a last frame whose bytes are all there. A clean stop
notes the `end`, and the next start checks it (`check_end`): what is missing before it was torn by no crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, cast

import msgpack

from ..protocol.records.crc import crc32c
from .errors import DamagedFile, LogClosed, StorageError
from .files import DISK, Disk, File

MAGIC = b"ODRJRNL1"
SNAPSHOT_SUFFIX = ".snapshot"
TAIL_SUFFIX = ".journal"
# The bound of one append. A larger length cannot have been written, so it is damage.
FRAME_MAX_BYTES = 64 * 1024 * 1024

# A disk writes a sector as a whole or not at all.
_SECTOR_BYTES = 512
_LAST_FRAME = (
    "the last change was written and cannot be read any more ({bytes} bytes, which no crash leaves so): "
    "restore the file from a copy, or cut it at byte {position} to give this change up"
)

_BEFORE_END = (
    "the last stop was clean and left {size} bytes, of which {whole} can be read: restore the file from a copy, or "
    "remove .kafka_cleanshutdown and cut the file there to give up the changes behind"
)

_NO_SNAPSHOT = "missing, and the journal goes on from it"

_FRAME = Struct(">II")
_END = _FRAME.pack(0, 0)

Record = dict[str, Any]

# msgpack comes without types.
_pack = cast("Callable[[object], bytes]", msgpack.packb)  # pyright: ignore[reportUnknownMemberType]
_unpack = cast("Callable[[memoryview], object]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType]


class JournalEnd(NamedTuple):
    """Where a journal ends: the later of two is larger."""

    generation: int
    size: int


class Journal:
    """Records on disk. `records` are those that opening found; the owner applies them and may then clear the list."""

    def __init__(self, directory: Path, name: str, disk: Disk) -> None:
        self.directory = directory
        self.name = name
        self.records: list[Record] = []
        self._disk = disk
        self._generation = 0
        self._tail: File | None = None
        self._size = 0  # Invariant: where the last whole frame of the tail ends
        self._failure: StorageError | None = None

    @classmethod
    def open(cls, directory: Path, name: str, disk: Disk = DISK) -> Journal:
        """Read the newest snapshot and its tail; make an empty journal if there is none.

        Raises DamagedFile, DiskError.
        """
        journal = cls(directory, name, disk)
        disk.mkdir(directory)
        generations = journal._generations(SNAPSHOT_SUFFIX)
        if generations:
            journal._generation = generations[-1]
            path = journal._path(SNAPSHOT_SUFFIX)
            disk.protect(disk.open(path))
            journal.records = _read_snapshot(disk.read_file(path), path)
        elif any(generation > 0 for generation in journal._generations(TAIL_SUFFIX)):
            raise DamagedFile(journal._path(SNAPSHOT_SUFFIX), 0, _NO_SNAPSHOT)
        journal._open_tail()
        journal._remove_others()
        return journal

    @classmethod
    def exists(cls, directory: Path, name: str, disk: Disk = DISK) -> bool:
        """Return whether `open` would find one there."""
        journal = cls(directory, name, disk)
        return any(journal._generations(suffix) for suffix in (SNAPSHOT_SUFFIX, TAIL_SUFFIX))

    @classmethod
    def check_end(cls, directory: Path, name: str, end: JournalEnd, disk: Disk = DISK) -> None:
        """Raise DamagedFile unless a journal, of which nothing is open, can be read up to `end`. Nothing is changed."""
        journal = cls(directory, name, disk)
        journal._generation = max(journal._generations(SNAPSHOT_SUFFIX), default=0)
        if journal._generation > end.generation:
            return
        path = journal._path(TAIL_SUFFIX, end.generation)
        whole = _whole_bytes(disk.read_file_if_there(path) or b"")
        if whole < end.size:
            raise DamagedFile(path, whole, _BEFORE_END.format(size=end.size, whole=whole))
        if journal._generation < end.generation:
            raise DamagedFile(journal._path(SNAPSHOT_SUFFIX, end.generation), 0, _NO_SNAPSHOT)

    @property
    def end(self) -> JournalEnd:
        """Where the last whole frame ends."""
        return JournalEnd(self._generation, self._size)

    @property
    def file_names(self) -> list[str]:
        """The names of the present files, the tail last."""
        tail = self._path(TAIL_SUFFIX).name
        return [self._path(SNAPSHOT_SUFFIX).name, tail] if self._generation else [tail]

    def append(self, records: list[Record]) -> None:
        """Add `records` together, and return when they are on disk.

        Raises DiskError. After a full disk the journal is as before; after a failed fsync it takes no more (LogClosed).
        """
        tail = self._writable()
        frame = _frame(records)
        try:
            self._disk.write(tail, frame, self._size)
        except StorageError:
            self._fatal(lambda: self._disk.truncate(tail, self._size))
            raise
        self._fatal(lambda: self._disk.fsync(tail))
        self._size += len(frame)

    def snapshot(self, state: list[Record]) -> None:
        """Replace everything so far by `state`. Raises DiskError; the next opening then finds the journal as it was."""
        self._writable()
        path = self._path(SNAPSHOT_SUFFIX, self._generation + 1)
        try:
            self._disk.write_atomically(path, MAGIC + (_frame(state) if state else b"") + _END, private=True)
        except StorageError as error:
            if self._disk.exists(path):
                # Renamed, but maybe not durably: a crash may leave either state.
                self._failure = error
            raise
        # From here on the new snapshot counts; its tail may be missing, which opening reads as empty.
        self._generation += 1
        self._fatal(self._open_tail)
        self._remove_others()

    def close(self) -> None:
        """Close the file; everything is on disk already. Idempotent."""
        self._tail = None

    # -- opening -----------------------------------------------------------------------------------

    def _open_tail(self) -> None:
        path = self._path(TAIL_SUFFIX)
        is_new = not self._disk.exists(path)
        self._tail = self._disk.open(path, create=True)
        self._disk.protect(self._tail)
        # After a failed fsync the page cache still shows a frame that never reached the disk.
        self._disk.forget(self._tail, self._disk.size(self._tail), 0)
        data = self._disk.read(self._tail, self._disk.size(self._tail), 0)
        self._size = self._read_tail(data, path)
        if self._size < len(data):
            self._disk.truncate(self._tail, self._size)
        if self._size == 0:
            self._disk.write(self._tail, MAGIC, 0)
            self._size = len(MAGIC)
        # A frame that is read may never have been forced to disk: the process died before its fsync.
        self._disk.fsync(self._tail)
        if is_new or len(data) != self._size:
            self._disk.fsync_dir(self.directory)

    def _read_tail(self, data: bytes, path: Path) -> int:
        """Add the records of the tail, and return where its last whole frame ends; 0 where the magic is not whole."""
        if len(data) < len(MAGIC):
            return 0
        head = data[: len(MAGIC)]
        if head != MAGIC:
            # Nothing is appended before the magic is on disk, so a crash leaves at most a part of it, and zeros.
            if not MAGIC.startswith(head.rstrip(b"\0")) or _is_whole_somewhere(data, 0):
                raise DamagedFile(path, 0, f"does not begin with {MAGIC!r}")
            return 0
        position = len(MAGIC)
        while position < len(data):
            end = _frame_end(data, position)
            if end is None:
                if _is_whole_somewhere(data, position + 1):
                    raise DamagedFile(path, position, "a damaged frame, with whole ones behind it")
                if not _is_torn(data, position):
                    raise DamagedFile(path, position, _LAST_FRAME.format(bytes=len(data) - position, position=position))
                return position
            self.records += _payload(data, position, end, path)
            position = end
        return position

    def _generations(self, suffix: str) -> list[int]:
        pattern = re.compile(re.escape(self.name) + r"-(\d{10})" + re.escape(suffix))
        matches = [pattern.fullmatch(name) for name in self._disk.names(self.directory)]
        return sorted(int(match[1]) for match in matches if match)

    def _path(self, suffix: str, generation: int | None = None) -> Path:
        return self.directory / f"{self.name}-{self._generation if generation is None else generation:010d}{suffix}"

    def _remove_others(self) -> None:
        """Remove the files that a snapshot has replaced; after a crash the next opening does it."""
        keep = {self._path(SNAPSHOT_SUFFIX).name, self._path(TAIL_SUFFIX).name}
        ours = re.compile(re.escape(self.name) + r"-\d{10}\.(journal|snapshot)(\.tmp)?")
        for name in self._disk.names(self.directory):
            if ours.fullmatch(name) and name not in keep:
                self._disk.unlink(self.directory / name)

    def _fatal(self, step: Callable[[], None]) -> None:
        """Run a step after whose failure the journal takes no more writes."""
        try:
            step()
        except StorageError as error:
            self._failure = error
            raise

    def _writable(self) -> File:
        if self._failure is not None:
            why = f"journal {self.name}: no more writes after: {self._failure.message}"
            raise LogClosed(self.directory, why) from self._failure
        if self._tail is None:
            raise LogClosed(self.directory, f"journal {self.name} is closed")
        return self._tail


# -- frames ----------------------------------------------------------------------------------------


def _frame(records: list[Record]) -> bytes:
    payload = _pack(records)
    if len(payload) > FRAME_MAX_BYTES:
        raise StorageError(f"{len(payload)} bytes of records exceed a journal frame's {FRAME_MAX_BYTES}")
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def _frame_end(data: bytes, position: int) -> int | None:
    """Return where the whole frame at `position` ends, None if there is none.

    An empty frame ends a snapshot and is not one.
    """
    start = position + _FRAME.size
    if start > len(data):
        return None
    length, crc = _FRAME.unpack_from(data, position)
    end = start + length
    if not 0 < length <= FRAME_MAX_BYTES or end > len(data) or crc32c(memoryview(data)[start:end]) != crc:
        return None
    return end


def _whole_bytes(data: bytes) -> int:
    """Return where the last whole frame of a tail ends that has no damaged one before it; 0 without the magic."""
    position: int | None = len(MAGIC) if data.startswith(MAGIC) else None
    whole = 0
    while position is not None:
        whole = position
        position = _frame_end(data, whole)
    return whole


def _is_whole_somewhere(data: bytes, position: int) -> bool:
    """Return whether a whole frame begins anywhere from `position` on: then no crash has torn the bytes before it."""
    return any(_frame_end(data, at) is not None for at in range(position, len(data) - _FRAME.size))


def _is_torn(data: bytes, position: int) -> bool:
    """Return whether a crash may have left the last frame, at `position`, as it is.

    A crash leaves its first bytes, and for the others nothing or zeros, at least up to the end of a sector. A frame
    whose bytes are all there was whole once: its length, its CRC or its payload has changed since.
    """
    start = position + _FRAME.size
    if start > len(data) or not any(data[position:]):
        return True
    length, crc = _FRAME.unpack_from(data, position)
    if crc32c(memoryview(data)[start:]) == crc:
        return False
    if length > len(data) - start:
        return True
    firsts = [position, *range((position // _SECTOR_BYTES + 1) * _SECTOR_BYTES, len(data), _SECTOR_BYTES)]
    lasts = [*firsts[1:], len(data)]
    pieces = (data[first:last] for first, last in zip(firsts, lasts, strict=True))
    return data[-1] == 0 or not all(any(piece) for piece in pieces)


def _payload(data: bytes, position: int, end: int, path: Path) -> list[Record]:
    try:
        records = _unpack(memoryview(data)[position + _FRAME.size : end])
    except (ValueError, msgpack.UnpackException) as error:
        raise DamagedFile(path, position, f"not msgpack: {error}") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in cast("list[object]", records)):
        raise DamagedFile(path, position, "not a list of records")
    return cast("list[Record]", records)


def _read_snapshot(data: bytes, path: Path) -> list[Record]:
    """Return the records of a snapshot.

    It was renamed into place when whole, so anything else is damage.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise DamagedFile(path, 0, f"does not begin with {MAGIC!r}")
    records: list[Record] = []
    position = len(MAGIC)
    while (end := _frame_end(data, position)) is not None:
        records += _payload(data, position, end, path)
        position = end
    if data[position:] != _END:
        raise DamagedFile(path, position, "a damaged frame")
    return records
