"""A disk that can lose what no fsync has covered: real files, and what a power cut would leave of them.

For each file, the disk knows the bytes on the platter; the page cache's are in the file itself. For each directory, it
knows the creations, renames and deletions that no fsync has covered. `lose(seed)` cuts the power: unsynced bytes are
gone, torn, zeroed or there; of the unsynced names all, none or a part are there.

Nothing is forced to the real disk. Several threads may use it.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..storage.files import Disk, File


@dataclass(slots=True, eq=False)
class Node:
    """A file (an inode), independent of its names."""

    # The bytes on the platter: those that the last fsync covered.
    platter: bytes
    # The page cache's content when the last name of the file was removed.
    removed: bytes = b""


@dataclass(slots=True, frozen=True)
class Change:
    """A change of a directory that no fsync has covered."""

    kind: Literal["create", "rename", "unlink"]
    path: Path
    target: Path
    node: Node | None = None
    # The directories that it changes.
    places: tuple[Path, Path] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", (self.path.parent, self.target.parent))

    def apply(self, names: dict[Path, Node]) -> None:
        """Make the change, if its file exists."""
        if self.kind == "create":
            assert self.node is not None
            names[self.path] = self.node
        elif self.kind == "unlink":
            names.pop(self.path, None)
        elif self.path in names:
            names[self.target] = names.pop(self.path)

    def moved(self, source: Path, target: Path) -> Change:
        """Return the same change after a rename of the directory."""
        return Change(self.kind, _moved(self.path, source, target), _moved(self.target, source, target), self.node)


class LossyDisk(Disk):
    """The disk that the module describes. It knows the files that were opened through it."""

    def __init__(self) -> None:
        # Held by every call that opens, syncs or renames.
        self._lock = threading.RLock()
        self._nodes: dict[int, Node] = {}  # by descriptor
        self._live: dict[Path, Node] = {}  # the names as the running process sees them
        self._stable: dict[Path, Node] = {}  # the names that are on the platter
        self._changes: list[Change] = []  # the changes that turn the stable names into the live ones, in order
        self._moves: list[tuple[Path, Path]] = []  # renames of directories that no fsync has covered
        self._boots = 1
        self.boot_id = lambda: str(self._boots)

    def identity(self, path: Path) -> str:
        """Return the same of every file: a power cut makes files again, which are no copies."""
        return "1"

    # -- The power cut

    def lose(self, seed: int) -> None:
        """Cut the power: any part of the unsynced bytes may be lost."""
        with self._lock:
            self._boots += 1
            contents, undone = self._choose(random.Random(seed))
            for path in self._live:
                path.unlink(missing_ok=True)
            for source, target in undone:
                target.rename(source)
            for path, content in contents.items():
                if path.parent.exists():
                    path.write_bytes(content)
            self._nodes, self._live, self._stable, self._changes, self._moves = {}, {}, {}, [], []

    @contextmanager
    def held(self) -> Generator[None]:
        """Let nobody open, sync or rename a file meanwhile."""
        with self._lock:
            yield

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

    def _left(self, node: Node, chance: random.Random) -> bytes:
        """Return what is left of a file: the bytes on the platter, and nothing, a part, zeros or all of the rest."""
        written = self._written(node, self._cached(node))
        if not written.startswith(node.platter):
            return chance.choice([written, node.platter])
        tail = written[len(node.platter) :]
        kept = tail[: chance.randrange(len(tail) + 1)]
        zeros = bytes(len(tail) - len(kept))
        return node.platter + chance.choice([b"", tail, kept, kept + zeros])

    def _cached(self, node: Node) -> bytes:
        path = next((path for path, each in self._live.items() if each is node), None)
        return path.read_bytes() if path is not None and path.exists() else node.removed

    def _written(self, node: Node, cached: bytes) -> bytes:
        """Return the bytes on the platter after a write of all pages that the kernel can still write."""
        return cached

    def platters(self) -> dict[Path, bytes]:
        """Return what an fsync has covered of each file, by its present name."""
        return {path: node.platter for path, node in self._live.items()}

    def platter(self, path: Path) -> bytes:
        """Return what an fsync has covered of a file."""
        return self._live[path].platter

    # -- The disk

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File:
        with self._lock:
            existed = os.path.exists(path)
            file = super().open(path, create=create, writable=writable)
            if path not in self._live:
                node = self._live[path] = Node(path.read_bytes())
                if existed:
                    self._stable[path] = node
                else:
                    self._changes.append(Change("create", path, path, node))
            self._nodes[file.fd] = self._live[path]
            return file

    def close(self, fd: int) -> None:
        with self._lock:
            self._nodes.pop(fd, None)
            super().close(fd)

    def fsync(self, file: File) -> None:
        with self._lock:
            node = self._nodes[file.fd]
            node.platter = self._written(node, os.pread(file.fd, os.fstat(file.fd).st_size, 0))

    def fsync_dir(self, path: Path) -> None:
        with self._lock:
            left: list[Change] = []
            for each in self._changes:
                if path in each.places:
                    each.apply(self._stable)
                else:
                    left.append(each)
            self._changes = left
            self._moves = [move for move in self._moves if path not in (move[0].parent, move[1].parent)]

    def fsync_all(self, file: File) -> bool:
        """Put everything on the platter."""
        with self._lock:
            for node in set(self._live.values()):
                node.platter = self._written(node, self._cached(node))
            self._stable, self._changes, self._moves = dict(self._live), [], []
            return True

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            if source.is_dir():
                super().rename(source, target)
                self._move(source, target)
                return
            self._know(source)
            self._forget_name(target)
            super().rename(source, target)
            self._live[target] = self._live.pop(source)
            self._changes.append(Change("rename", source, target))

    def _move(self, source: Path, target: Path) -> None:
        """Rename a directory with its content, also the content that a power cut would leave in it."""
        self._live = {_moved(path, source, target): node for path, node in self._live.items()}
        self._stable = {_moved(path, source, target): node for path, node in self._stable.items()}
        self._changes = [each.moved(source, target) for each in self._changes]
        self._moves = [(first, _moved(last, source, target)) for first, last in self._moves]
        self._moves.append((source, target))

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, which is durable like that of a new file."""
        with self._lock:
            self._know(source)
            super().link(source, target)
            node = self._live[target] = self._live[source]
            self._changes.append(Change("create", target, target, node))

    def unlink(self, path: Path) -> None:
        with self._lock:
            if os.path.exists(path):
                self._know(path)
                self._changes.append(Change("unlink", path, path))
                self._forget_name(path)
            super().unlink(path)
            self._live.pop(path, None)

    def _know(self, path: Path) -> None:
        """Add a file that was not opened here: it counts as synced."""
        if path not in self._live:
            self._live[path] = self._stable[path] = Node(path.read_bytes())

    def _forget_name(self, path: Path) -> None:
        """Keep the content of a file when its last name is removed: a power cut may bring the name back."""
        if path in self._live and os.path.exists(path):
            self._live[path].removed = path.read_bytes()


def _kept(changes: list[Change], chance: random.Random) -> list[Change]:
    """Return all changes, none, the first ones, or the first creations and any others, in their order.

    File systems reorder renames and deletions, but write the names of new files in the order in which they came.
    """
    count = chance.choice([0, len(changes), chance.randrange(len(changes) + 1)])
    if chance.random() < 0.5:
        return changes[:count]
    return [each for at, each in enumerate(changes) if (at < count if each.kind == "create" else chance.random() < 0.5)]


def _moved(path: Path, source: Path, target: Path) -> Path:
    before, name = str(source), str(path)
    return Path(f"{target}{name[len(before) :]}") if path == source or name.startswith(before + os.sep) else path
