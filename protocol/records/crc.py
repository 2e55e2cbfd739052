"""Checksums of records: CRC-32C (Castagnoli) over v2 batches, CRC-32 (zlib's) over messages of magic 0 and 1.

The hot path uses the `crc32c` package, which runs on the CPU's own instructions. Where it cannot be imported, `crcmod`
serves; it is also what the tests compare with. Both accept any contiguous buffer and copy nothing.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Protocol, cast
from zlib import crc32 as _zlib_crc32

if TYPE_CHECKING:
    from types import ModuleType

    from typing_extensions import Buffer


class Checksum(Protocol):
    """A checksum that can be continued."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """Return the checksum of `data`, continuing from `value`."""
        ...


def _portable() -> Checksum:
    """Return crcmod's CRC-32C. Its import is late: it reads a table that the hardware path does not need."""
    from crcmod.predefined import mkPredefinedCrcFun  # pyright: ignore[reportUnknownVariableType]

    return cast("Checksum", mkPredefinedCrcFun("crc-32c"))


def _compiled() -> ModuleType:
    """Return the compiled module of the package crc32c. Raises ImportError.

    The package itself also imports its command line and reads its version from its metadata: a fifth of the time in
    which a command starts. So the compiled module is taken alone where it lies in its usual place.
    """
    package = PathFinder.find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", folders) if folders is not None else None
    if spec is None or spec.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _choose() -> Checksum:
    try:
        return _compiled().crc32c
    except (ImportError, AttributeError):
        return _portable()


# crc32c(data, value=0) returns the unsigned CRC-32C of `data`, continuing from `value` (the CRC of what came before
# it). It is the function in C itself, because every batch calls it.
crc32c: Checksum = _choose()


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the unsigned CRC-32 that magic 0 and 1 carry, continuing from `value`."""
    return _zlib_crc32(data, value)
