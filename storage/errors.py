"""The errors of storage: one tree under StorageError. Each error names its file.

Every one is a KafkaError with the code for the response, so that the broker needs no table of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from ..protocol.errors import ErrorCode, KafkaError


class StorageError(KafkaError):
    """Any failure of storage."""

    CODE: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


class DiskError(StorageError):
    """An operation on a file failed in the operating system."""

    def __init__(self, operation: str, path: Path, error: OSError, position: int | None = None) -> None:
        """`position` is where a read met the error."""
        self.operation = operation
        self.path = path
        self.position = position
        self.errno = error.errno
        self.why = error.strerror or str(error)
        where = path if position is None else f"{path} at {position}"
        super().__init__(f"{operation} {where}: {self.why}")


class TornWrite(StorageError):
    """A write failed, and so did cutting off its part that is on disk. Recovery cuts it off."""

    def __init__(self, path: Path, position: int, error: Exception) -> None:
        super().__init__(f"{path} ends in a torn batch at {position}: {error}")


class TornSwap(StorageError):
    """A cleaned segment could not take its place, nor its sources keep theirs. The next start completes it."""

    def __init__(self, directory: Path, error: Exception) -> None:
        super().__init__(f"{directory} is between its old segments and a cleaned one: {error}")


# No room, or too few descriptors: a later try may succeed.
_PASSING = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE))


def may_pass(error: Exception) -> bool:
    """Return whether a DiskError or an OSError may pass by itself: no room, or no descriptors."""
    return isinstance(error, DiskError | OSError) and error.errno in _PASSING


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))


def has_no_room(error: Exception) -> bool:
    """Return whether a disk has refused something for lack of room."""
    return isinstance(error, DiskError | OSError) and error.errno in _NO_ROOM


# The device or its file system is gone or takes no writes. Other errors (no room, no descriptor) may pass.
_LASTING_NAMES = ("EIO", "EROFS", "ENODEV", "ENXIO", "ESTALE", "EBADMSG", "EUCLEAN")
# macOS has no EUCLEAN.
_LASTING = frozenset(getattr(errno, name) for name in _LASTING_NAMES if hasattr(errno, name))


# A read of these bytes fails: a bad sector, or a checksum of the file system. The rest of the device may be sound.
_UNREADABLE_NAMES = ("EIO", "EBADMSG", "EUCLEAN", "ENODATA")
_UNREADABLE = frozenset(getattr(errno, name) for name in _UNREADABLE_NAMES if hasattr(errno, name))


def is_unreadable(error: StorageError) -> bool:
    """Return whether some bytes of a file cannot be read. That tells nothing of other bytes, or of writes."""
    if isinstance(error, DiskError):
        return error.operation == "read" and error.errno in _UNREADABLE
    return isinstance(error, UnreadableBatch)


def is_lasting(error: StorageError) -> bool:
    """Return whether the operation would fail again, or must not be tried again: a failed fsync, what is torn."""
    if isinstance(error, DiskError):
        return error.operation == "fsync" or of_device(error)
    return isinstance(error, TornWrite | TornSwap)


def of_device(error: StorageError) -> bool:
    """Return whether the whole device has failed, not one operation on one file."""
    if not isinstance(error, DiskError) or error.operation == "fsync" or is_unreadable(error):
        return False
    return error.errno in _LASTING


class ShortRead(StorageError):
    """A file holds fewer bytes than its log knows of: another process has cut it."""

    def __init__(self, path: Path, position: int, wanted: int, got: int) -> None:
        super().__init__(f"{path} at {position}: wanted {wanted} bytes, found {got}")


class StaleView(StorageError):
    """A segment has left the log since the view of it was made: its name may be another segment's now."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was replaced while it was read")


class LockedError(StorageError):
    """Another process holds the directory's lock file."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is locked by another process{f' ({holder})' if holder else ''}")


class _Broken(StorageError):
    """Something is wrong at a position of a file."""

    def __init__(self, path: Path, position: int, why: str) -> None:
        self.path = path
        self.position = position
        self.why = why
        super().__init__(f"{path} at {position}: {why}")


class CorruptBatch(_Broken):
    """A batch in a segment does not hold what its length, magic, CRC or offsets promise."""

    CODE = ErrorCode.CORRUPT_MESSAGE


class WrongCrc(CorruptBatch):
    """The CRC of a batch is wrong. Its header reads, so walks over headers do not notice."""


UNREADABLE = "the disk cannot read it"


class UnreadableBatch(CorruptBatch):
    """The disk cannot read a batch: nobody knows whether it is sound, and another try may succeed."""

    @classmethod
    def of(cls, path: Path, position: int, error: DiskError) -> UnreadableBatch:
        """Return the error of the batch at `position`, which a read could not get because of `error`."""
        return cls(path, position, f"{UNREADABLE} ({error.why})")


class DamagedFile(_Broken):
    """A checkpoint, snapshot, index or journal does not parse; `position` is a byte, or a line in text files."""


@contextmanager
def disk_errors(operation: str, path: Path) -> Generator[None]:
    """Raise a DiskError for an OSError inside. `path` is told where the error names no file."""
    try:
        yield
    except OSError as error:
        raise DiskError(operation, Path(error.filename or path), error) from error


def damaged_file(error: DiskError) -> StorageError:
    """Return the DamagedFile for a small file that the disk cannot read; another error is returned as it is."""
    if not is_unreadable(error):
        return error
    return DamagedFile(error.path, error.position or 0, f"{UNREADABLE} ({error.why})")


class OffsetOutOfRange(StorageError):
    """A read outside [log start offset, log end offset]."""

    CODE = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside [{start}, {end}]")


class OffsetsNotMonotonic(StorageError):
    """An append whose base offset lies below the log end offset: the caller assigned it wrongly."""

    CODE = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, base_offset: int, end: int) -> None:
        super().__init__(f"batch starts at offset {base_offset}, below the log end offset {end}")


class BatchTooLarge(StorageError):
    """A batch is larger than segment.bytes, so no segment can hold it."""

    CODE = ErrorCode.RECORD_LIST_TOO_LARGE

    def __init__(self, size: int, segment_bytes: int) -> None:
        super().__init__(f"batch of {size} bytes exceeds segment.bytes={segment_bytes}")


class LogClosed(StorageError):
    """The log takes no writes: it was closed, or an earlier write or fsync failed (`__cause__` tells)."""

    def __init__(self, directory: Path, why: str) -> None:
        super().__init__(f"{directory}: {why}")


def do_all(steps: Iterable[Callable[[], None]]) -> None:
    """Do each step, also behind one that fails. Raises the first StorageError then."""
    failure: StorageError | None = None
    for step in steps:
        try:
            step()
        except StorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure
