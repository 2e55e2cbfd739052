"""The tools of kernels: compilation with a cache, and loads, stores and copies by address.

The inner functions of a kernel take addresses, not arrays: numba counts references (atomically) to each array that it
passes on, and that made the walk over a record ten times slower. Only the kernels themselves take arrays, so that the
memory behind the addresses stays allocated. Addresses are int64; the code compares each with its bounds before use.

numba's cache does not notice a change of this file, only of the file that holds a kernel: touch kernels.py too.
"""
# pyright: basic, reportCallIssue=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# numba and llvmlite have no types.

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _private_cache() -> str | None:
    """Return a folder for compiled kernels where numba finds none (a read-only install, no home), None if unsafe.

    Compiled code is loaded from it, so it must belong to this user, and no other user may write to it.
    """
    folder = os.path.join(tempfile.gettempdir(), f"odradek-numba-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    safe = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if safe else None


def kernel(function) -> Any:
    """Compile `function`, and keep the machine code in a cache if there is a folder for it."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba's "no locator available": neither __pycache__ nor the home folder can be written
        folder = None
        with contextlib.suppress(OSError):
            folder = _private_cache()
        if folder is None:
            return numba.njit(nogil=True)(function)
        numba.config.CACHE_DIR = folder
        return numba.njit(cache=True, nogil=True)(function)


@intrinsic
def address_of(typingctx, array):
    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), codegen


@intrinsic
def load8(typingctx, address):
    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64), codegen


def _loader(bits):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            number = builder.load(pointer, align=1)
            if sys.byteorder == "little":
                number = builder.bswap(number)
            return number if bits == 64 else builder.sext(number, ir.IntType(64))

        return types.int64(types.int64), codegen

    return load


def _storer(bits):
    @intrinsic
    def store(typingctx, address, number):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            number = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            builder.store(number, pointer)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return store


load_be32, load_be64 = _loader(32), _loader(64)  # signed, of network byte order
store8, store32, store64 = _storer(8), _storer(32), _storer(64)


@intrinsic
def load64(typingctx, address):
    def codegen(context, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), codegen


@intrinsic
def copy(typingctx, target, source, count):
    """LLVM's memcpy: numba's slice assignment costs ten times as much for short runs."""

    def codegen(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@numba.njit
def add_to(address, number):
    store64(address, load64(address) + number)


@numba.njit
def clear_bit(bitmap, row):
    address = bitmap + (row >> 3)
    store8(address, load8(address) & ~(1 << (row & 7)))
