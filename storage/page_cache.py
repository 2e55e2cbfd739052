"""The page cache: what the event loop may read because it needs no disk.

Linux gives it or says no: preadv with RWF_NOWAIT fails rather than wait. Nothing else proves that a page can be had:
cachestat(2) counts pages whose read has only begun, or has failed. tmpfs does not know that flag, but it keeps all
files in memory. Elsewhere (macOS, NFS, FUSE, overlayfs) nobody can tell, so every read goes to a thread.

Some file systems also force all of their files to disk in one call.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache

from . import system_calls

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
