"""The tools of kernels: loads, stores and copies by address.

Kernels take addresses, not arrays: numba counts references (atomically) to each array that it passes on, and that made
the walk over a record ten times slower. Addresses are int64; a kernel compares each with its bounds before use, and its
caller keeps the memory allocated.
"""
# pyright: basic, reportCallIssue=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# numba and llvmlite have no types.

from __future__ import annotations

import sys

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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
def load32(typingctx, address):
    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(pointer), ir.IntType(64))

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
