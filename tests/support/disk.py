"""A faulty disk: real files that a test exposes to power cuts, a full disk or a dying drive.

Every byte written and every fsync, rename, creation, truncation and deletion is one step. `stop_after(n)` lets n steps
happen and then raises PowerCut, perhaps in the middle of a write. From then on nothing works until `kill` or `lose`.

For each file, the disk knows the bytes on the platter and the bytes that only the page cache holds. For each directory,
it knows the creations, renames and deletions that no fsync has covered.

- `kill`: the process died and the kernel lives. All that was written can be read, but it is no safer than before: a
  later `lose` takes it.
- `lose(seed)`: the power failed. Unsynced bytes are gone, torn, zeroed or there; of the unsynced names all, none or a
  part are there.
- `fsync_fails`: the kernel drops the pages that it could not write and reports it once. Reads still find them in the
  page cache, a later fsync succeeds without them, and `forget`, `evict` or a power cut shows that they are gone.
- `descriptors`: so many files can still be opened, then no more (EMFILE). It passes, and nothing was written.
- `flip` changes a bit on the platter, `spoil` makes a range unreadable (EIO) until it is written again.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from odradek.storage.errors import DiskError
from odradek.storage.files import Buffer, Disk, File

Span = tuple[int, int]


class PowerCut(BaseException):
    """The disk has stopped at this step. No code of ours may catch this error."""


@dataclass(slots=True, eq=False)
class _Node:
    """A file (an inode), independent of its names."""

    # The bytes on the platter: those that the last fsync covered.
    platter: bytes
    # The bytes that a failed fsync dropped: the page cache shows them, and no later fsync writes them.
    dropped: list[Span] = field(default_factory=list[Span])
    # The page cache's content when the last name of the file was removed.
    removed: bytes = b""


@dataclass(slots=True, frozen=True)
class _Change:
    """A change of a directory that no fsync has covered."""

    kind: Literal["create", "rename", "unlink"]
    path: Path
    target: Path
    node: _Node | None = None

    def apply(self, names: dict[Path, _Node]) -> None:
        """Make the change, if its file exists."""
        if self.kind == "create":
            assert self.node is not None
            names[self.path] = self.node
        elif self.kind == "unlink":
            names.pop(self.path, None)
        elif self.path in names:
            names[self.target] = names.pop(self.path)

    def moved(self, source: Path, target: Path) -> _Change:
        """Return the same change after a rename of the directory."""
        return _Change(self.kind, _moved(self.path, source, target), _moved(self.target, source, target), self.node)


class FaultyDisk(Disk):
    """The disk that the module describes. It knows the files that were opened through it."""

    def __init__(self) -> None:
        self.steps = 0
        self.marks: list[int] = []  # the step at which each operation began
        self.dead = False
        self.room_bytes: int | None = None  # free space; None: unlimited
        self.fsync_fails = False
        self.truncate_fails = False
        self.descriptors: int | None = None  # how many more files can be opened; None: unlimited
        self.during_fsync: Callable[[], None] | None = None  # stands for another thread's work at that time
        self._limit: int | None = None
        self._nodes: dict[int, _Node] = {}  # by descriptor
        self._live: dict[Path, _Node] = {}  # the names as the running process sees them
        self._stable: dict[Path, _Node] = {}  # the names that are on the platter
        self._changes: list[_Change] = []  # the changes that turn the stable names into the live ones, in order
        self._moves: list[tuple[Path, Path]] = []  # renames of directories that no fsync has covered
        self._spoiled: dict[int, list[Span]] = {}  # by inode

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
        self.fsync_fails = self.truncate_fails = False

    def lose(self, seed: int) -> None:
        """Cut the power: any part of the unsynced bytes may be lost."""
        chance = random.Random(seed)
        contents, undone = self._choose(chance)
        for path in self._live:
            path.unlink(missing_ok=True)
        for source, target in undone:
            target.rename(source)
        for path, content in contents.items():
            if path.parent.exists():
                path.write_bytes(content)
        self.kill()
        self._nodes, self._live, self._stable, self._changes, self._moves = {}, {}, {}, [], []

    def after_power_cut(self, seed: int) -> dict[Path, bytes]:
        """Return the content of files that a power cut at this moment could leave, by path."""
        return self._choose(random.Random(seed))[0]

    def _choose(self, chance: random.Random) -> tuple[dict[Path, bytes], list[tuple[Path, Path]]]:
        """Return the files that are left, by path, and the renames of directories that are undone."""
        names = dict(self._stable)
        for change in _kept(self._changes, chance):
            change.apply(names)
        undone: list[tuple[Path, Path]] = []
        for source, target in reversed(self._moves[chance.randrange(len(self._moves) + 1) :]):
            if target.exists() and not source.exists():
                names = {_moved(path, target, source): node for path, node in names.items()}
                undone.append((source, target))
        return {path: self._left(node, chance) for path, node in names.items()}, undone

    def _left(self, node: _Node, chance: random.Random) -> bytes:
        """Return what is left of a file: the bytes on the platter, and nothing, a part, zeros or all of the rest."""
        written = self._written(node)
        if not written.startswith(node.platter):
            return chance.choice([written, node.platter])
        tail = written[len(node.platter) :]
        kept = tail[: chance.randrange(len(tail) + 1)]
        zeros = bytes(len(tail) - len(kept))
        return node.platter + chance.choice([b"", tail, kept, kept + zeros])

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

    def _cached(self, node: _Node) -> bytes:
        path = next((path for path, each in self._live.items() if each is node), None)
        return path.read_bytes() if path is not None and path.exists() else node.removed

    def _written(self, node: _Node) -> bytes:
        """Return the bytes on the platter after a write of all pages that the kernel can still write."""
        content = bytearray(self._cached(node))
        for start, end in node.dropped:
            old = node.platter[start:end]
            content[start:end] = old + bytes(min(end, len(content)) - start - len(old))
        return bytes(content)

    def _drop(self, node: _Node) -> None:
        """Mark the pages that could not be written as clean, as the kernel does."""
        content = self._cached(node)
        pairs = enumerate(zip(content, node.platter, strict=False))
        start = next((at for at, (cached, old) in pairs if cached != old), min(len(content), len(node.platter)))
        if start < len(content):
            node.dropped.append((start, len(content)))

    def evict(self) -> None:
        """Drop every clean page: from now on, reads come from the platter."""
        for path, node in list(self._live.items()):
            if node.dropped and path.exists():
                self._show(path, node, 0, path.stat().st_size)

    def forget(self, file: File, size: int, position: int) -> None:
        node = self._nodes.get(file.fd)
        if node is not None and node.dropped:
            path = next(path for path, each in self._live.items() if each is node)
            self._show(path, node, position, position + size)
        super().forget(file, size, position)

    def _show(self, path: Path, node: _Node, start: int, end: int) -> None:
        """Remove from the file itself the bytes of [start, end) that a failed fsync dropped."""
        written = self._written(node)
        with path.open("r+b") as file:
            for first, last in node.dropped:
                low, high = max(first, start), min(last, end)
                if low < high:
                    file.seek(low)
                    file.write(written[low:high])
        node.dropped = _without(node.dropped, start, end)

    def platters(self) -> dict[Path, bytes]:
        """Return what an fsync has covered of each file, by its present name."""
        return {path: node.platter for path, node in self._live.items()}

    def platter(self, path: Path) -> bytes:
        """Return what an fsync has covered of a file."""
        return self._live[path].platter

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
        spans = self._spoiled.get(os.fstat(file.fd).st_ino, ())
        return any(start < position + size and position < end for start, end in spans)

    def _check_readable(self, file: File, size: int, position: int) -> None:
        if self._spoiled and self._is_spoiled(file, size, position):
            spans = self._spoiled[os.fstat(file.fd).st_ino]
            first = min(max(start, position) for start, end in spans if start < position + size and position < end)
            raise DiskError("read", file.path, OSError(errno.EIO, os.strerror(errno.EIO)), first)

    # -- The disk ----------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        if self.descriptors is not None:
            if not self.descriptors:
                raise DiskError("open", path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
            self.descriptors -= 1
        existed = path.exists()
        if create and not existed:
            self._step()
        elif self.dead:
            raise PowerCut
        file = super().open(path, create=create, writable=writable)
        if path not in self._live:
            node = self._live[path] = _Node(path.read_bytes())
            if existed:
                self._stable[path] = node
            else:
                self._changes.append(_Change("create", path, path, node))
        self._nodes[file.fd] = self._live[path]
        return file

    def close(self, fd: int) -> None:
        self._nodes.pop(fd, None)
        super().close(fd)

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

    def send(self, file: File, size: int, position: int, socket_fd: int) -> int | None:
        if self._spoiled and self._is_spoiled(file, size, position):
            return None
        return super().send(file, size, position, socket_fd)

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
        if node is not None and node.dropped:
            node.dropped = _without(node.dropped, start, end)
        if self._spoiled:
            inode = os.fstat(file.fd).st_ino
            self._spoiled[inode] = _without(self._spoiled.get(inode, []), start, end)

    def fsync(self, file: File) -> None:
        self._step()
        node = self._nodes[file.fd]
        if self.fsync_fails:
            self._drop(node)
            raise DiskError("fsync", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        node.platter = self._written(node)
        if self.during_fsync is not None:
            self.during_fsync()

    def fsync_dir(self, path: Path) -> None:
        self._step()
        here = [each for each in self._changes if path in (each.path.parent, each.target.parent)]
        for change in here:
            change.apply(self._stable)
        self._changes = [each for each in self._changes if each not in here]
        self._moves = [move for move in self._moves if path not in (move[0].parent, move[1].parent)]

    def fsync_all(self, file: File) -> bool:
        """Put everything on the platter, unless an fsync fails: nothing is lost then, and the answer is False."""
        self._step()
        if self.fsync_fails:
            return False
        for node in set(self._live.values()):
            node.platter = self._written(node)
        self._stable, self._changes, self._moves = dict(self._live), [], []
        return not any(node.dropped for node in self._live.values())

    def truncate(self, file: File, size: int) -> None:
        self._step()
        if self.truncate_fails:
            raise DiskError("truncate", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        super().truncate(file, size)
        node = self._nodes.get(file.fd)
        if node is not None:
            node.dropped = [(start, min(end, size)) for start, end in node.dropped if start < size]

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        if source.is_dir():
            super().rename(source, target)
            self._move(source, target)
            return
        self._know(source)
        self._forget_name(target)
        super().rename(source, target)
        self._live[target] = self._live.pop(source)
        self._changes.append(_Change("rename", source, target))

    def _move(self, source: Path, target: Path) -> None:
        """Rename a directory with its content, also the content that a power cut would leave in it."""
        self._live = {_moved(path, source, target): node for path, node in self._live.items()}
        self._stable = {_moved(path, source, target): node for path, node in self._stable.items()}
        self._changes = [each.moved(source, target) for each in self._changes]
        self._moves = [(first, _moved(last, source, target)) for first, last in self._moves]
        self._moves.append((source, target))

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, which is durable like that of a new file."""
        self._step()
        self._know(source)
        super().link(source, target)
        node = self._live[target] = self._live[source]
        self._changes.append(_Change("create", target, target, node))

    def unlink(self, path: Path) -> None:
        if path.exists():
            self._step()
            self._know(path)
            self._changes.append(_Change("unlink", path, path))
        self._forget_name(path)
        super().unlink(path)
        self._live.pop(path, None)

    def _know(self, path: Path) -> None:
        """Add a file that was not opened here: it counts as synced."""
        if path not in self._live:
            self._live[path] = self._stable[path] = _Node(path.read_bytes())

    def _forget_name(self, path: Path) -> None:
        """Keep the content of a file when its last name is removed: a power cut may bring the name back."""
        if path in self._live and path.exists():
            self._live[path].removed = path.read_bytes()
            self._spoiled.pop(path.stat().st_ino, None)


def _kept(changes: list[_Change], chance: random.Random) -> list[_Change]:
    """Return all changes, none, the first ones, or the first creations and any others, in their order.

    File systems reorder renames and deletions, but write the names of new files in the order in which they came.
    """
    count = chance.choice([0, len(changes), chance.randrange(len(changes) + 1)])
    if chance.random() < 0.5:
        return changes[:count]
    return [each for at, each in enumerate(changes) if (at < count if each.kind == "create" else chance.random() < 0.5)]


def _moved(path: Path, source: Path, target: Path) -> Path:
    return target / path.relative_to(source) if source in (path, *path.parents) else path


def _without(spans: list[Span], start: int, end: int) -> list[Span]:
    """Return what is left of `spans` outside [start, end)."""
    left = [(first, min(last, start)) for first, last in spans] + [(max(first, end), last) for first, last in spans]
    return sorted({(first, last) for first, last in left if first < last})
