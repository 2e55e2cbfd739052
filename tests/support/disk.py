"""A faulty disk: real files that a test exposes to power cuts, a full disk or a dying drive.

Every byte written and every fsync, rename, creation, truncation and deletion is one step. `stop_after(n)` lets n steps
happen and then raises PowerCut, in the middle of a write if it falls there; from then on nothing works until `restart`.
What was not fsynced is known, file by file and name by name: `kill` keeps it all (the process died, the kernel lives),
`lose` takes it away, torn, zeroed or whole as a seed decides.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odradek.storage.errors import DiskError
from odradek.storage.files import Buffer, Disk, File


class PowerCut(BaseException):
    """The step at which everything stops. No code of ours may catch it."""


@dataclass(slots=True, eq=False)
class _Node:
    """A file, whatever it is called. `synced` is what its last fsync covered."""

    synced: bytes


class FaultyDisk(Disk):
    """A disk as the module describes. It knows the files that were opened through it."""

    def __init__(self) -> None:
        self.steps = 0
        self.marks: list[int] = []  # the step at which each operation began
        self.dead = False
        self.room_bytes: int | None = None  # what still fits; None: no end
        self.fsync_fails = False
        self.truncate_fails = False
        self.during_fsync: Callable[[], None] | None = None  # what another thread does meanwhile
        self._limit: int | None = None
        self._nodes: dict[int, _Node] = {}  # by descriptor
        self._live: dict[Path, _Node] = {}  # the names as the running process sees them
        self._stable: dict[Path, _Node] = {}  # the names that a power cut leaves

    # -- stopping ----------------------------------------------------------------------------------

    def stop_after(self, steps: int) -> None:
        """Let so many more steps happen."""
        self._limit = self.steps + steps

    def keep_going(self) -> None:
        """Cancel `stop_after`."""
        self._limit = None

    def kill(self) -> None:
        """The process died: what it wrote is there, synced or not."""
        self._restart()

    def lose(self, seed: int) -> None:
        """The power went: of what was not synced, anything may be there."""
        contents = self.after_power_cut(seed)
        for path in self._live:
            path.unlink(missing_ok=True)
        for path, content in contents.items():
            if path.parent.exists():
                path.write_bytes(content)
        self._restart()

    def after_power_cut(self, seed: int) -> dict[Path, bytes]:
        """What a power cut at this moment could leave, by path."""
        chance = random.Random(seed)
        return {path: _after_power_cut(path, node, chance) for path, node in self._names(chance).items()}

    def _names(self, chance: random.Random) -> dict[Path, _Node]:
        """What is called what: renames and creations that no fsync of the directory covered may be undone."""
        return dict(self._live) if chance.random() < 0.5 else dict(self._stable)

    def _restart(self) -> None:
        self.dead = False
        self._limit = None
        self.room_bytes = None
        self.fsync_fails = self.truncate_fails = False
        self._nodes, self._live, self._stable = {}, {}, {}

    def _step(self, count: int = 1) -> int:
        """Return how many of `count` steps may happen; at least one, or PowerCut."""
        if self.dead or (self._limit is not None and self.steps >= self._limit):
            self.dead = True
            raise PowerCut
        self.marks.append(self.steps)
        allowed = count if self._limit is None else min(count, self._limit - self.steps)
        self.steps += allowed
        return allowed

    # -- the disk ----------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
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
        self._nodes[file.fd] = self._live[path]
        return file

    def close(self, fd: int) -> None:
        self._nodes.pop(fd, None)
        super().close(fd)

    def write(self, file: File, data: Buffer, position: int) -> None:
        view = memoryview(data)
        allowed = self._step(len(view))
        fits = allowed if self.room_bytes is None else min(allowed, self.room_bytes)
        super().write(file, view[:fits], position)
        if self.room_bytes is not None:
            self.room_bytes -= fits
        if fits < allowed:
            raise DiskError("write", file.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if allowed < len(view):
            self.dead = True
            raise PowerCut

    def fsync(self, file: File) -> None:
        self._step()
        if self.fsync_fails:
            raise DiskError("fsync", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        self._nodes[file.fd].synced = super().read(file, super().size(file), 0)
        if self.during_fsync is not None:
            self.during_fsync()

    def fsync_dir(self, path: Path) -> None:
        self._step()
        for name in [name for name in self._stable if name.parent == path]:
            del self._stable[name]
        self._stable.update({name: node for name, node in self._live.items() if name.parent == path})

    def truncate(self, file: File, size: int) -> None:
        self._step()
        if self.truncate_fails:
            raise DiskError("truncate", file.path, OSError(errno.EIO, os.strerror(errno.EIO)))
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        is_directory = source.is_dir()
        super().rename(source, target)
        if not is_directory:
            if source in self._live:
                self._live[target] = self._live.pop(source)
            return
        for name in [name for name in self._live if source in name.parents]:
            self._live[target / name.relative_to(source)] = self._live.pop(name)
        # A directory takes what it holds along, also what a power cut would leave in it.
        for name in [name for name in self._stable if source in name.parents]:
            self._stable[target / name.relative_to(source)] = self._stable.pop(name)

    def unlink(self, path: Path) -> None:
        if path.exists():
            self._step()
            if path not in self._live:
                self._stable[path] = _Node(path.read_bytes())
        super().unlink(path)
        self._live.pop(path, None)


def _after_power_cut(path: Path, node: _Node, chance: random.Random) -> bytes:
    """What is left of a file: the synced part for certain, of the rest nothing, a part, zeros, or all of it."""
    written = path.read_bytes() if path.exists() else node.synced
    if not written.startswith(node.synced):
        return chance.choice([written, node.synced])
    tail = written[len(node.synced) :]
    kept = tail[: chance.randrange(len(tail) + 1)]
    zeros = bytes(len(tail) - len(kept))
    return node.synced + chance.choice([b"", tail, kept, kept + zeros])
