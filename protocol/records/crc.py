"""Checksums of records: CRC-32C (Castagnoli) over v2 batches, CRC-32 (zlib's) over messages of magic 0 and 1.

The hot path uses the `crc32c` package, which runs on the CPU's own instructions. Where it cannot be imported, `crcmod`
serves; it is also what the tests compare with. Both accept any contiguous buffer and copy nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from zlib import crc32 as _zlib_crc32

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


def _portable() -> Callable[[Buffer, int], int]:
    """Return crcmod's CRC-32C. Its import is late: it reads a table that the hardware path does not need."""
    from crcmod.predefined import mkPredefinedCrcFun  # pyright: ignore[reportUnknownVariableType]

    return cast("Callable[[Buffer, int], int]", mkPredefinedCrcFun("crc-32c"))


def _choose() -> tuple[str, Callable[[Buffer, int], int]]:
    try:
        from crc32c import crc32c, hardware_based
    except ImportError:
        return "crcmod", _portable()
    return ("crc32c (hardware)" if hardware_based else "crc32c (software)"), crc32c


# The package in use, for logs and benchmarks; and the function itself, bound once: the call is on every batch's path.
IMPLEMENTATION, _crc32c = _choose()


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the unsigned CRC-32C of `data`, continuing from `value` (the CRC of what came before it)."""
    return _crc32c(data, value)


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the unsigned CRC-32 that magic 0 and 1 carry, continuing from `value`."""
    return _zlib_crc32(data, value)
