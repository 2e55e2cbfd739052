"""The one door to the disk: every open, read, write, fsync and rename of storage goes through a Disk.

Tests replace it (torn writes, lost pages, a full disk, a failing fsync). Promises: a write stores all its bytes or
raises DiskError; a file stays open for as long as somebody holds its File, so that a reader outlives the deletion of
its segment; `write_atomically` leaves the old content or the new one, whatever byte a crash falls on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import page_cache, system_calls
from .errors import DiskError, LockedError, ShortRead, damaged_file, disk_errors, is_unreadable

Buffer = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"
# The mode of files with secrets.
PRIVATE_MODE = 0o600


# A write of so long has waited for something: ordinary ones take some microseconds, and 0.3 ms for a MiB.
WAITED_S = 0.001
# A lock file is no longer.
_LOCK_BYTES = 128
# The third line of a lock file until a broker has noted an identity.
_NOT_NOTED = "?"

# The page cache holds a file in folios of up to this size. A read fails for all of the folio that a bad sector is in.
FOLIO_BYTES = 2 * 1024 * 1024
# So much is read at a time where a larger read has failed: the folios that it brings into the page cache are small.
PIECE_BYTES = 16 * 1024


class NotCached(Exception):
    """The bytes are not in the page cache. A caller that may not wait reads them in a thread. It is no StorageError."""


class File:
    """An open file. It has no close(): it is closed with the last reference, so no reader can lose it."""

    __slots__ = ("_disk", "fd", "nowait_flags", "path")

    def __init__(self, disk: Disk, path: Path, fd: int) -> None:
        self._disk = disk
        self.path = path
        self.fd = fd
        # The flags of a read that may not wait; None where the file system cannot tell.
        self.nowait_flags = system_calls.NOWAIT

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        self._disk.close(self.fd)


class Disk:
    """The real file system.

    Positions and sizes in bytes; every failure is a DiskError that names operation and path.
    """

    # Tests replace these.
    now_s: Callable[[], float] = staticmethod(time.monotonic)
    pid: Callable[[], int] = staticmethod(os.getpid)
    boot_id: Callable[[], str] = staticmethod(system_calls.boot_id)

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        try:
            return File(self, path, os.open(path, flags, 0o644))
        except OSError as error:
            raise DiskError("open", path, error) from error

    def close(self, fd: int) -> None:
        os.close(fd)

    def protect(self, file: File) -> None:
        """Let nobody but its owner read a file that has secrets, or is about to get them."""
        with disk_errors("chmod", file.path):
            if stat.S_IMODE(os.fstat(file.fd).st_mode) & ~PRIVATE_MODE:
                os.fchmod(file.fd, PRIVATE_MODE)

    def read(self, file: File, size: int, position: int) -> bytes:
        """Return up to `size` bytes: fewer only where the file ends."""
        data = b""
        try:
            data = os.pread(file.fd, size, position)
            while 0 < len(data) < size:
                more = os.pread(file.fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise DiskError("read", file.path, error, position + len(data)) from error

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        """Fill `target` from `position`; return how many bytes there were."""
        filled = 0
        try:
            while filled < len(target):
                count = system_calls.read_into(file.fd, target[filled:], position + filled)
                if not count:
                    break
                filled += count
        except OSError as error:
            raise DiskError("read", file.path, error, position + filled) from error
        return filled

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        """Return `size` bytes if all of them are in memory, or None (also where the system cannot tell)."""
        flags = file.nowait_flags
        if flags is None:
            return None
        data = bytearray(size) if size < _LARGE_BYTES else _new_buffer(size)
        try:
            count = system_calls.READ_WITH_FLAGS(file.fd, [data], position, flags)
        except OSError as error:
            # EAGAIN: cold. A real error shows again in the blocking read.
            if error.errno != errno.EOPNOTSUPP:
                return None
            file.nowait_flags = page_cache.flags_without_nowait(file.fd)
            return self.read_nowait(file, size, position)
        return data if count == size else None

    def read_cached(self, file: File, size: int, position: int) -> bytearray:
        """Return `size` bytes. Raises NotCached unless all of them are in the page cache."""
        data = self.read_nowait(file, size, position)
        if data is None:
            raise NotCached
        return data

    def write(self, file: File, data: Buffer, position: int) -> None:
        """Store all of `data` at `position`, or raise; a part may then be on disk."""
        began_s = self.now_s()
        try:
            written = os.pwrite(file.fd, data, position)
            if written < len(data):
                self._write_rest(file, memoryview(data), position, written)
        except OSError as error:
            raise DiskError("write", file.path, error) from error
        finally:
            took_s = self.now_s() - began_s
            if took_s >= WAITED_S:
                self.waited(file.path, len(data), took_s)

    def waited(self, path: Path, size: int, took_s: float) -> None:
        """Take note of a write of `size` bytes that took WAITED_S or more, for a subclass that reports it."""

    def report_waits(self) -> None:
        """Say how many writes have waited, when all are done, for a subclass that counts them."""

    def _write_rest(self, file: File, data: memoryview, position: int, written: int) -> None:
        while written < len(data):
            written += os.pwrite(file.fd, data[written:], position + written)

    def will_need(self, file: File, position: int) -> None:
        """Have the system read the file from `position` on into the page cache, without waiting for it."""
        system_calls.will_need(file.fd, position)

    def forget(self, file: File, size: int, position: int) -> None:
        """Drop these bytes from the page cache, except unwritten ones, so that the next read comes from the disk."""
        system_calls.forget(file.fd, position, size)

    def fsync(self, file: File) -> None:
        with disk_errors("fsync", file.path):
            system_calls.fsync(file.fd)

    def fsync_dir(self, path: Path) -> None:
        """Make creations, renames and deletions inside `path` durable."""
        # An error of its own: a lack of descriptors passes, and what a failed fsync has lost does not come back.
        with disk_errors("open", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with disk_errors("fsync", path):
                system_calls.fsync(fd)
        finally:
            os.close(fd)

    def fsync_all(self, file: File) -> bool:
        """Force every file and every name on the file system of `file` to disk, in one call.

        Return False where the system cannot do that, or where any write to the file system has failed since `file` was
        opened: then each file needs its own fsync, which tells whether its writes are lost.
        """
        syncfs = page_cache.syncfs_of(file.fd)
        return syncfs is not None and syncfs(file.fd) == 0

    def truncate(self, file: File, size: int) -> None:
        with disk_errors("truncate", file.path):
            os.ftruncate(file.fd, size)

    def size(self, file: File) -> int:
        try:
            return os.fstat(file.fd).st_size
        except OSError as error:
            raise DiskError("stat", file.path, error) from error

    def modified_ms(self, path: Path) -> int:
        """Return when a file was last written to, in ms since 1970."""
        with disk_errors("stat", path):
            return path.stat().st_mtime_ns // 1_000_000

    def identity(self, path: Path) -> str:
        """Return what a copy of a file never has in common with it: the inode, and when that was changed."""
        with disk_errors("stat", path):
            status = path.stat()
        return f"{status.st_ino}.{status.st_ctime_ns}"

    def space(self, path: Path) -> tuple[int, int]:
        """Return (size, usable space) in bytes of the volume that `path` lies on."""
        with disk_errors("stat", path):
            volume = os.statvfs(path)
        return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return name -> size of every entry of a directory. A temporary file of a thread may vanish meanwhile."""
        return {name: size for name, (size, _) in self.stamps(directory).items()}

    def stamps(self, directory: Path) -> dict[str, list[int]]:
        """Return name -> [size, time of the last write in ns since 1970] of every entry of a directory."""
        found: dict[str, list[int]] = {}
        with disk_errors("list", directory), os.scandir(directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found[entry.name] = [status.st_size, status.st_mtime_ns]
        return found

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory. Their sizes would cost a call of the system each."""
        with disk_errors("list", directory):
            return os.listdir(directory)

    def directories(self, directory: Path) -> list[str]:
        """Return the names of the directories in `directory`, sorted."""
        with disk_errors("list", directory), os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def exists(self, path: Path) -> bool:
        return path.exists()

    def mkdir(self, path: Path) -> None:
        """Make `path` and its parents; existing ones stay."""
        with disk_errors("mkdir", path):
            path.mkdir(parents=True, exist_ok=True)

    def rmdir(self, path: Path) -> None:
        with disk_errors("rmdir", path):
            path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        """Rename over `target`, atomically. Durable after fsync_dir."""
        with disk_errors("rename", source):
            os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file `source` the second name `target`, which must be new."""
        with disk_errors("link", source):
            os.link(source, target)

    def is_same(self, file: File, path: Path) -> bool:
        """Return whether `path` is a name of an open file."""
        with disk_errors("stat", path):
            return os.path.samestat(os.fstat(file.fd), os.stat(path))

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is no error."""
        with disk_errors("unlink", path):
            path.unlink(missing_ok=True)

    def read_file(self, path: Path) -> bytes:
        """Return a whole small file. Raises DamagedFile where the disk cannot read it, DiskError."""
        file = self.open(path, writable=False)
        try:
            return self.read(file, self.size(file), 0)
        except DiskError as error:
            raise damaged_file(error) from error

    def read_file_if_there(self, path: Path) -> bytes | None:
        """Return a whole small file, None where it is missing. Raises DamagedFile, DiskError."""
        try:
            return self.read_file(path)
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return None
            raise

    def write_atomically(
        self, path: Path, data: Buffer, *, durable: bool = True, sync_directory: bool = True, private: bool = False
    ) -> None:
        """Put `data` in place of `path`: temporary file, fsync, rename, fsync of the directory.

        durable=False leaves out both fsyncs, for files with a checksum that can be rebuilt. sync_directory=False leaves
        out the second one, for a caller that makes one fsync for several files. `private`: as protect().
        """
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        file = self.open(temporary, create=True)
        if private:
            self.protect(file)
        self.truncate(file, 0)
        self.write(file, data, 0)
        if durable:
            self.fsync(file)
        self.rename(temporary, path)
        if durable and sync_directory:
            self.fsync_dir(path.parent)


def _new_buffer(size: int) -> bytearray:
    """Return a buffer with undefined bytes. A caller that fills only a part of it must not hand it on."""
    return bytearray(size) if _allocate is None else _allocate(None, size)


def _find_allocator() -> Callable[[None, int], bytearray] | None:
    """Return CPython's function for a bytearray without zeroing, which saves a fifth of a read from the page cache."""
    if sys.implementation.name != "cpython":
        return None
    allocate = ctypes.pythonapi.PyByteArray_FromStringAndSize
    allocate.argtypes, allocate.restype = [ctypes.c_char_p, ctypes.c_ssize_t], ctypes.py_object
    return allocate


# Below this size the call costs more than the zeroing.
_LARGE_BYTES = 64 * 1024
_allocate = _find_allocator()

DISK = Disk()


def forget_around(disk: Disk, file: File, size: int, position: int) -> None:
    """Drop the folios around these bytes from the page cache. The next read of few bytes reads little beside them."""
    start = position // FOLIO_BYTES * FOLIO_BYTES
    end = (position + size + FOLIO_BYTES - 1) // FOLIO_BYTES * FOLIO_BYTES
    disk.forget(file, end - start, start)


def read_surely(disk: Disk, file: File, size: int, position: int) -> bytes:
    """Return bytes as Disk.read does, also where they share a folio with others that the disk cannot read."""
    data = b""
    try:
        return disk.read(file, size, position)
    except DiskError as error:
        if not is_unreadable(error):
            raise
    while len(data) < size:
        at = position + len(data)
        piece = _read_piece(disk, file, min(PIECE_BYTES - at % PIECE_BYTES, size - len(data)), at)
        if not piece:
            break
        data += piece
    return data


def _read_piece(disk: Disk, file: File, size: int, position: int) -> bytes:
    try:
        return disk.read(file, size, position)
    except DiskError as error:
        if not is_unreadable(error):
            raise
    # The system may have read ahead, and so in folios.
    forget_around(disk, file, size, position)
    return disk.read(file, size, position)


@dataclass(slots=True)
class FileRange:
    """The bytes [position, position + size) of a file, as a read returns them. Holding it keeps the file open."""

    file: File
    position: int
    size: int
    disk: Disk = DISK

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Return the bytes; may wait for the disk. Raises ShortRead if the file has been cut meanwhile."""
        data = read_surely(self.disk, self.file, self.size, self.position)
        if len(data) != self.size:
            raise ShortRead(self.file.path, self.position, self.size, len(data))
        return data

    def read_nowait(self) -> bytearray | None:
        """Return the bytes if that needs no disk, else None: then call read() in a thread."""
        return self.disk.read_nowait(self.file, self.size, self.position)


class DirectoryLock:
    """`.lock` in a data directory, held by flock until release().

    Its first line tells the pid, for the LockedError of a second process. Its second line names the boot of the machine
    in which a broker has noted that nothing is lost: what it writes since is in the page cache, if not on disk. Its
    third line tells the identity of the directory that this was noted in, which a copy of the directory does not have.
    """

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        self.path = directory / ".lock"
        self._disk = disk
        is_new = not disk.exists(self.path)
        file = disk.open(self.path, create=True)
        try:
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(self.path, _lines(disk, file)[0]) from error
        except OSError as error:
            raise DiskError("lock", self.path, error) from error
        self._file: File | None = file
        try:
            _, self._boot, identity = _lines(disk, file)
            # Where boots have no names, each start may be the first of its boot.
            self.is_of_this_boot = self._boot == disk.boot_id() != ""
            # "": a version that did not note it was the last, or a power cut took it.
            self.identity = _NOT_NOTED if is_new else identity
            self._write()
        except BaseException:
            self.release()
            raise

    def note_boot(self, identity: str) -> None:
        """Note that nothing is lost in the directory of this identity, as long as the machine runs on.

        Raises DiskError.
        """
        self._boot, self.identity, self.is_of_this_boot = self._disk.boot_id(), identity, True
        self._write()

    def _write(self) -> None:
        assert self._file is not None
        self._disk.truncate(self._file, 0)
        self._disk.write(self._file, f"pid {self._disk.pid()}\n{self._boot}\n{self.identity}\n".encode(), 0)

    def fsync_all(self) -> bool:
        """Force the whole file system to disk, as Disk.fsync_all does: its file is open while the lock is held."""
        return self._file is not None and self._disk.fsync_all(self._file)

    def release(self) -> None:
        """Release the lock. The file stays, because its removal would race with the next holder."""
        if self._file is not None:
            fcntl.flock(self._file.fd, fcntl.LOCK_UN)
            self._file = None


def _lines(disk: Disk, file: File) -> tuple[str, str, str]:
    """Return the three lines of a lock file, "" for each that is not there."""
    first, second, third, *_ = [*disk.read(file, _LOCK_BYTES, 0).decode("ascii", "replace").splitlines(), "", "", ""]
    return first, second, third
