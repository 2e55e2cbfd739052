"""Asks Linux whether a part of a file is in the page cache, so that sending it from the file waits for no disk.

cachestat(2) came with Linux 6.5. Where it is missing, forbidden, or the file system does not answer it, nobody knows.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
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
