"""The calls that not every system has: each is here, with what is done where it is missing. Nobody else names them.

Linux has them all. macOS has no posix_fadvise, RWF_NOWAIT and syncfs, and its fsync leaves bytes in the
drive's cache, which F_FULLFSYNC empties. A hint that cannot be given is left out, a question without an answer is
answered by None, and what is read and forced to disk is the same everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# The flag of a read that fails rather than wait for the disk; None where the system has none.
NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None) if hasattr(os, "preadv") else None
# (file, buffers, position, flags) -> bytes read. It is there where NOWAIT is; each answer of data makes this call, so
# no function of Python's stands in between.
READ_WITH_FLAGS: Any = getattr(os, "preadv", None)
# A file system that is mounted from elsewhere may not know F_FULLFSYNC.
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)
_MOUNTS = Path("/proc/self/mountinfo")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_into(fd: int, target: bytearray | memoryview, position: int) -> int:
    """Fill `target` from `position` of a file; return how many were read. Raises OSError."""
    if READ_WITH_FLAGS is not None:
        return READ_WITH_FLAGS(fd, [target], position)
    data = os.pread(fd, len(target), position)
    target[: len(data)] = data
    return len(data)


def memory_file(data: bytes) -> tuple[int, str]:
    """Return the descriptor of an unnamed file with this content, to be closed by the caller, and a path to read it.

    It is in memory; on a system without such files it is on the disk for as long as the descriptor is open.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("odradek")
    else:
        import tempfile  # only such a system needs it

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd, f"/dev/fd/{fd}"


def resident_bytes() -> int:
    """Return the memory of this process; where the system does not tell it, the most that it ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def will_need(fd: int, position: int) -> None:
    """Have the file read from `position` on, without waiting; without this hint the read comes when it is needed."""
    _advise(fd, position, 0, "POSIX_FADV_WILLNEED")


def forget(fd: int, position: int, size: int) -> None:
    """Drop written bytes from the page cache; without this hint the next read may come from there."""
    _advise(fd, position, size, "POSIX_FADV_DONTNEED")


def _advise(fd: int, position: int, size: int, advice: str) -> None:
    advise, number = getattr(os, "posix_fadvise", None), getattr(os, advice, None)
    if advise is not None and number is not None:
        with suppress(OSError):
            advise(fd, position, size, number)


def fsync(fd: int) -> None:
    """Force a file or directory to the medium, also where the system's own fsync stops at the drive. Raises OSError."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(fd, full)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


def c_function(name: str, *, keeps_lock: bool = False) -> Callable[..., Any] | None:
    """Return a function of Linux's C library; None elsewhere. `keeps_lock`: of Python, for a call of a microsecond."""
    if sys.platform != "linux":
        return None
    library = ctypes.PyDLL(None) if keeps_lock else ctypes.CDLL(None, use_errno=True)
    return getattr(library, name, None)


def boot_id() -> str:
    """Return the name of this boot of the machine, which a power cut ends; "" where the system has no such name."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def mounts() -> list[str]:
    """Return the lines of /proc/self/mountinfo; none where the system has no such file."""
    try:
        return _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return []
