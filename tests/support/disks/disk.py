"""A faulty disk: real files that a test exposes to power cuts, a full disk or a dying drive.

Every byte written and every fsync, rename, creation, truncation and deletion is one step. `stop_after(n)` lets n steps
happen and then raises PowerCut, perhaps in the middle of a write. From then on nothing works until `kill` or `lose`.

What an fsync has covered, and what a power cut leaves, is the part of the test kit (LossyDisk).

- `kill`: the process died and the kernel lives. All that was written can be read, but it is no safer than before: a
  later `lose` takes it.
- `lose(seed)`: the power failed. Unsynced bytes are gone, torn, zeroed or there; of the unsynced names all, none or a
  part are there.
- `fsync_fails`: the kernel drops the pages that it could not write and reports it once. Reads still find them in the
  page cache, a later fsync succeeds without them, and `forget`, `evict` or a power cut shows that they are gone.
- `nameless`: at these steps, a directory has no room for the change of a name (ENOSPC).
- `descriptors`: so many files can still be opened, then no more (EMFILE). It passes, and nothing was written.
- `flip` changes a bit on the platter, `spoil` makes a range unreadable (EIO) until it is written again. With
  `folio_bytes` a read fails as Linux has it: for all of the folio that a bad sector is in, and so before the sector.
  Only where the folio was dropped from the page cache (`forget`) does a small read meet pages. A large one has the
  system read ahead, in folios again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from odradek.storage.errors import DiskError
from odradek.storage.files import Buffer, File
from odradek.testing.lossy_disk import LossyDisk, Node

Span = tuple[int, int]

PAGE_BYTES = 4096
# A read of more has the system read ahead.
READ_AHEAD_BYTES = 32 * 1024


class PowerCut(BaseException):
    """The disk has stopped at this step. No code of ours may catch this error."""


class FaultyDisk(LossyDisk):
    """The disk that the module describes. It knows the files that were opened through it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.marks: list[int] = []  # the step at which each operation began
        self.dead = False
        self.room_bytes: int | None = None  # free space; None: unlimited
        self.nameless = range(0)
        self.fsync_fails = False
        self.truncate_fails = False
        self.descriptors: int | None = None  # how many more files can be opened; None: unlimited
        self.during_fsync: Callable[[], None] | None = None  # stands for another thread's work at that time
        self._limit: int | None = None
        # What a failed fsync dropped of each file: the page cache shows it, and no later fsync writes it.
        self._dropped: dict[Node, list[Span]] = {}
        self._spoiled: dict[int, list[Span]] = {}  # by inode
        self.folio_bytes = 0  # 0: a read fails only for the bytes that are bad
        self.page_bytes = PAGE_BYTES
        self._forgotten: set[tuple[int, int]] = set()  # (inode, number) of folios that are read by the page

    # -- Stopping ----------------------------------------------------------------------------------

    def stop_after(self, steps: int) -> None:
        """Let so many more steps happen."""
        self._limit = self.steps + steps

    def keep_going(self) -> None:
        """Cancel `stop_after`."""
        self._limit = None

    def kill(self) -> None:
        """End the process: all that it wrote can be read, but unsynced bytes are still not on the platter."""
        self.dead = False
        self._limit = None
        self.room_bytes = self.descriptors = None
        self.nameless = range(0)
        self.fsync_fails = self.truncate_fails = False

    def lose(self, seed: int) -> None:
        super().lose(seed)
        self._dropped.clear()
        self.kill()

    def _step(self, count: int = 1) -> int:
        """Return how many of `count` steps may happen; at least one, or PowerCut."""
        if self.dead or (self._limit is not None and self.steps >= self._limit):
            self.dead = True
            raise PowerCut
        self.marks.append(self.steps)
        allowed = count if self._limit is None else min(count, self._limit - self.steps)
        self.steps += allowed
        return allowed

    # -- Page cache and platter --------------------------------------------------------------------

    def _written(self, node: Node, cached: bytes) -> bytes:
        content = bytearray(cached)
        for start, end in self._dropped.get(node, ()):
            old = node.platter[start:end]
            content[start:end] = old + bytes(min(end, len(content)) - start - len(old))
        return bytes(content)

    def _drop(self, node: Node) -> None:
        """Mark the pages that could not be written as clean, as the kernel does."""
        content = self._cached(node)
        pairs = enumerate(zip(content, node.platter, strict=False))
        start = next((at for at, (cached, old) in pairs if cached != old), min(len(content), len(node.platter)))
        if start < len(content):
            self._dropped.setdefault(node, []).append((start, len(content)))

    def evict(self) -> None:
        """Drop every clean page: from now on, reads come from the platter."""
        for path, node in list(self._live.items()):
            if self._dropped.get(node) and path.exists():
                self._show(path, node, 0, path.stat().st_size)

    def forget(self, file: File, size: int, position: int) -> None:
        if self.folio_bytes:
            inode, whole = os.fstat(file.fd).st_ino, self.folio_bytes
            numbers = range(-(-position // whole), (position + size) // whole)
            self._forgotten.update((inode, number) for number in numbers)
        node = self._nodes.get(file.fd)
        if node is not None and self._dropped.get(node):
            path = next(path for path, each in self._live.items() if each is node)
            self._show(path, node, position, position + size)
        super().forget(file, size, position)

    def _show(self, path: Path, node: Node, start: int, end: int) -> None:
        """Remove from the file itself the bytes of [start, end) that a failed fsync dropped."""
        written = self._written(node, self._cached(node))
        with path.open("r+b") as file:
            for first, last in self._dropped[node]:
                low, high = max(first, start), min(last, end)
                if low < high:
                    file.seek(low)
                    file.write(written[low:high])
        self._dropped[node] = _without(self._dropped[node], start, end)

    def flip(self, path: Path, position: int, bit: int) -> None:
        """Change one bit of a file, in the page cache and on the platter."""
        content = bytearray(path.read_bytes())
        content[position] ^= 1 << bit
        path.write_bytes(content)
        node = self._live.get(path)
        if node is not None and position < len(node.platter):
            platter = bytearray(node.platter)
            platter[position] ^= 1 << bit
            node.platter = bytes(platter)

    def spoil(self, path: Path, position: int, size: int) -> None:
        """Make every read of these bytes fail with EIO until they are written again, or the file is removed."""
        self._spoiled.setdefault(path.stat().st_ino, []).append((position, position + size))

    def heal(self) -> None:
        """Make everything readable again."""
        self._spoiled.clear()

    def _is_spoiled(self, file: File, size: int, position: int) -> bool:
        spans = self._bad_spans(file, size, position)
        return any(start < position + size and position < end for start, end in spans)

    def _bad_spans(self, file: File, size: int, position: int) -> list[Span]:
        """Return what cannot be read now by a read of so many bytes from there."""
        inode, whole = os.fstat(file.fd).st_ino, self.folio_bytes
        spans = self._spoiled.get(inode, [])
        if not whole:
            return spans
        if size > READ_AHEAD_BYTES:
            numbers = range(position // whole, (position + size) // whole + 1)
            self._forgotten.difference_update((inode, number) for number in numbers)
        found: list[Span] = []
        page = self.page_bytes
        for start, end in spans:
            for at in range(start // page * page, end, page):
                unit = page if (inode, at // whole) in self._forgotten else whole
                found.append((at // unit * unit, at // unit * unit + unit))
        return found

    def _check_readable(self, file: File, size: int, position: int) -> None:
        if self._spoiled and self._is_spoiled(file, size, position):
            spans = self._bad_spans(file, size, position)
            first = min(max(start, position) for start, end in spans if start < position + size and position < end)
            raise DiskError("read", file.path, OSError(errno.EIO, os.strerror(errno.EIO)), first)

    # -- The disk ----------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        if self.descriptors is not None:
            if not self.descriptors:
                raise DiskError("open", path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
            self.descriptors -= 1
        if create and not os.path.exists(path):
            self._step()
        elif self.dead:
            raise PowerCut
        return super().open(path, create=create, writable=writable)

    def read(self, file: File, size: int, position: int) -> bytes:
        self._check_readable(file, size, position)
        return super().read(file, size, position)

    def read_into(self, file: File, target: memoryview, position: int) -> int:
        self._check_readable(file, len(target), position)
        return super().read_into(file, target, position)

    def read_nowait(self, file: File, size: int, position: int) -> bytearray | None:
        if self._spoiled and self._is_spoiled(file, size, position):
            return None
        return super().read_nowait(file, size, position)

    def write(self, file: File, data: Buffer, position: int) -> None:
        view = memoryview(data)
        allowed = self._step(len(view))
        fits = allowed if self.room_bytes is None else min(allowed, self.room_bytes)
        super().write(file, view[:fits], position)
        self._note_write(file, position, position + fits)
        if self.room_bytes is not None:
            self.room_bytes -= fits
        if fits < allowed:
            raise DiskError("write", file.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if allowed < len(view):
            self.dead = True
            raise PowerCut

    def _note_write(self, file: File, start: int, end: int) -> None:
        node = self._nodes.get(file.fd)
        if node is not None and self._dropped.get(node):
            self._dropped[node] = _without(self._dropped[node], start, end)
        if self._spoiled:
            inode = os.fstat(file.fd).st_ino
            self._spoiled[inode] = _without(self._spoiled.get(inode, []), start, end)

    def fsync(self, file: File) -> None:
        self._step()
        if self.fsync_fails:
            self._drop(self._nodes[file.fd])
            raise DiskError("fsync", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        super().fsync(file)
        if self.during_fsync is not None:
            self.during_fsync()

    def fsync_dir(self, path: Path) -> None:
        self._step()
        super().fsync_dir(path)

    def fsync_all(self, file: File) -> bool:
        """Put everything on the platter, unless an fsync fails: nothing is lost then, and the answer is False."""
        self._step()
        if self.fsync_fails:
            return False
        super().fsync_all(file)
        return not any(self._dropped.get(node) for node in self._live.values())

    def truncate(self, file: File, size: int) -> None:
        self._step()
        if self.truncate_fails:
            raise DiskError("truncate", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        super().truncate(file, size)
        node = self._nodes.get(file.fd)
        if node is not None and node in self._dropped:
            self._dropped[node] = [(start, min(end, size)) for start, end in self._dropped[node] if start < size]

    def _name_step(self, operation: str, path: Path) -> None:
        self._step()
        if self.steps - 1 in self.nameless:
            raise DiskError(operation, path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def rename(self, source: Path, target: Path) -> None:
        self._name_step("rename", target)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._name_step("link", target)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        if os.path.exists(path):
            self._name_step("unlink", path)
        super().unlink(path)

    def _forget_name(self, path: Path) -> None:
        super()._forget_name(path)
        if path in self._live and path.exists():
            self._spoiled.pop(path.stat().st_ino, None)


def _without(spans: list[Span], start: int, end: int) -> list[Span]:
    """Return what is left of `spans` outside [start, end)."""
    left = [(first, min(last, start)) for first, last in spans] + [(max(first, end), last) for first, last in spans]
    return sorted({(first, last) for first, last in left if first < last})
