"""The page cache: what the event loop may read or send because it needs no disk.

cachestat(2) says whether a part of a file is there, before the kernel sends it. It came with Linux 6.5. Where it is
missing, forbidden, or the file system does not answer it, nobody knows.

Linux also says it of a read: preadv with RWF_NOWAIT fails rather than wait. tmpfs does not know that flag, but it keeps
all files in memory. Elsewhere (macOS, NFS, FUSE) nobody can tell, so every read goes to a thread.

Some file systems also force all of their files to disk in one call.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import system_calls

PAGE_BYTES = 4096
# The number of the call is the same on every architecture but Alpha.
_SYSCALL = 451
_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x"})


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


_range, _stat = _Range(), _Stat()
_arguments = _SYSCALL, ctypes.byref(_range), ctypes.byref(_stat), 0


def _find_syscall() -> Callable[..., int] | None:
    if platform.machine() not in _MACHINES:
        return None
    # It keeps Python's lock, because the structures are shared.
    syscall: Any = system_calls.c_function("syscall", keeps_lock=True)
    if syscall is None:
        return None
    syscall.argtypes = [ctypes.c_long, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    syscall.restype = ctypes.c_long
    return syscall


_call = _find_syscall()


def is_cached(fd: int, position: int, size: int) -> bool:
    """Return whether all of these bytes are in the page cache; False where the system cannot tell."""
    if _call is None:
        return False
    _range.offset, _range.length = position, size
    if _call(_SYSCALL, fd, ctypes.byref(_range), ctypes.byref(_stat), 0):
        return False
    first, last = position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES
    return _stat.cache >= last - first + 1


# The flag of preadv; None where the system has none.
NOWAIT: int | None = system_calls.NOWAIT
# File systems without a disk, by the names that Linux gives them.
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})


def flags_without_nowait(fd: int) -> int | None:
    """Return preadv's flags for a file whose file system has rejected RWF_NOWAIT: 0 in memory, else None (a thread)."""
    return 0 if _type_of(os.fstat(fd).st_dev) in _IN_MEMORY else None


# These write every file and wait for it when syncfs(2) is called, and the call returns the errors of lost writes.
_TELL_LOST_WRITES = frozenset({"ext4", "xfs"})
# From this Linux on. Before, syncfs may succeed where a write has failed.
_FIRST_TO_TELL = (5, 17)


def syncfs_of(fd: int) -> Callable[[int], int] | None:
    """Return syncfs(2) where it is as good as an fsync of every file of the file system of `fd`; None elsewhere."""
    if sys.platform != "linux" or _type_of(os.fstat(fd).st_dev) not in _TELL_LOST_WRITES:
        return None
    release = platform.release().split(".")[:2]
    if not all(each.isdecimal() for each in release) or tuple(map(int, release)) < _FIRST_TO_TELL:
        return None
    # The call does not hold Python's lock.
    return system_calls.c_function("syncfs")


@lru_cache(maxsize=64)
def _type_of(device: int) -> str:
    """Return the type of the file system on `device`; empty where the system does not tell."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in system_calls.mounts():
        # 36 35 98:0 /root /mount/point rw,noatime - tmpfs source options
        mount, _, file_system = line.partition(" - ")
        if mount.split()[2:3] == [number]:
            return file_system.partition(" ")[0]
    return ""
