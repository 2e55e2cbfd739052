"""What an error of the disk means: nothing lasting, one file, some bytes that cannot be read, or the whole device."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from odradek.storage.errors import DiskError, is_lasting, is_unreadable, of_device


@pytest.mark.parametrize(
    ("operation", "number", "unreadable", "lasting", "device"),
    [
        # A bad sector tells nothing of other bytes, or of writes.
        ("read", errno.EIO, True, False, False),
        ("write", errno.EIO, False, True, True),
        ("open", errno.EIO, False, True, True),
        # What the kernel has dropped cannot be written by another fsync; other files may be sound.
        ("fsync", errno.EIO, False, True, False),
        ("write", errno.EROFS, False, True, True),
        # These pass.
        ("write", errno.ENOSPC, False, False, False),
        ("open", errno.EMFILE, False, False, False),
    ],
)
def test_an_error_concerns_no_more_than_it_shows(
    operation: str, number: int, unreadable: bool, lasting: bool, device: bool
) -> None:
    error = DiskError(operation, Path("t-0/00000000000000000000.log"), OSError(number, "x"))
    assert (is_unreadable(error), is_lasting(error), of_device(error)) == (unreadable, lasting, device)
