"""A disk with an empty page cache whose reads wait until the test allows them. It shows which code waits for the disk.

`chill` empties the cache and blocks the disk. From then on a read in a thread waits until `open_up`, unless its bytes
were read since. Such a read on the thread that called `chill`, the event loop's, is an error, because it would hold up
everything else.
"""

from __future__ import annotations

import os
import threading

from odradek.storage.files import Disk, File

WAIT_S = 20
PAGE_BYTES = 4096


class HeldUp(BaseException):
    """Code read from the disk on the event loop's thread. No code of ours may catch this error."""


class ColdDisk(Disk):
    """The disk that the module describes."""

    def __init__(self) -> None:
        self.waiting = 0  # reads that wait for `open_up` now
        self._loop_thread: int | None = None
        self._warm: set[tuple[int, int]] = set()
        self._is_open = threading.Event()

    def chill(self) -> None:
        """Empty the cache, and block reads."""
        self._loop_thread = threading.get_ident()
        self._is_open.clear()
        self._warm.clear()

    def open_up(self) -> None:
        """Let reads in threads return from now on."""
        self._is_open.set()

    def thaw(self) -> None:
        """Let all reads return at once again."""
        self._loop_thread = None
        self._is_open.set()

    def read(self, file: File, size: int, position: int) -> bytes:
        self._arrive(file, size, position)
        return super().read(file, size, position)

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        self._arrive(file, len(target), position)
        return super().read_into(file, target, position)

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        if self._loop_thread is not None and not self._pages(file, size, position) <= self._warm:
            return None
        return super().read_nowait(file, size, position)

    def _arrive(self, file: File, size: int, position: int) -> None:
        pages = self._pages(file, size, position)
        if self._loop_thread is None or pages <= self._warm:
            return
        if threading.get_ident() == self._loop_thread:
            raise HeldUp(f"{file.path} at {position}")
        self.waiting += 1
        assert self._is_open.wait(WAIT_S)
        self.waiting -= 1
        self._warm |= pages

    @staticmethod
    def _pages(file: File, size: int, position: int) -> set[tuple[int, int]]:
        inode = os.fstat(file.fd).st_ino
        return {
            (inode, page) for page in range(position // PAGE_BYTES, (position + max(size, 1) - 1) // PAGE_BYTES + 1)
        }
