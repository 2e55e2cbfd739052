"""A model of ZooKeeper's guarantees: one tree, sessions with ephemeral znodes, watches that fire once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from ..broker.cluster.znodes import PERSISTENT
from ..zookeeper.operations import (
    ANY_VERSION,
    Change,
    Check,
    Create,
    Delete,
    Failure,
    Fenced,
    Operation,
    Pause,
    Put,
    ReadAll,
    ReadChildren,
    SessionExpired,
    Znode,
)

# What ZooKeeper takes in one request (jute.maxbuffer), and what a change has in it besides its path and data.
MAX_REQUEST_BYTES = 0xFFFFF
CHANGE_BYTES = 50


@dataclass(slots=True)
class _Node:
    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int


class FakeZookeeper:
    """The ensemble."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {"": _Node(b"", 0, 0, 0, 0)}
        self.zxid = 0
        self._sessions = 0
        self._live: set[int] = set()
        # (kind, path) -> sessions that are told of the next change. Kinds: data, children.
        self._watches: dict[tuple[str, str], set[int]] = defaultdict(set)
        # What each session was told and has not looked at.
        self.events: dict[int, deque[tuple[str, str]]] = defaultdict(deque)
        # Every content that a znode had, for tests that look at its history.
        self.history: list[tuple[str, bytes | None]] = []
        # Hears of each change as it comes.
        self.changed: Callable[[str, bytes | None], object] = lambda path, data: None
        for path in PERSISTENT:
            self.make(path)

    # -- Sessions

    def connect(self) -> int:
        """Return a new session."""
        self._sessions += 1
        self._live.add(self._sessions)
        return self._sessions

    def expire(self, session: int) -> None:
        """End a session: its ephemeral znodes go, and it learns of it with its next request."""
        self._live.discard(session)
        self.events.pop(session, None)
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self._remove(path)

    def lose_connection(self, session: int, *, is_told: bool = True) -> None:
        """Cut a session's connection for a moment: its watches are gone, and all of them are reported as changes."""
        for (kind, path), sessions in self._watches.items():
            if session in sessions:
                sessions.discard(session)
                if is_told:
                    self.events[session].append((kind, path))

    def is_live(self, session: int) -> bool:
        """Return whether a session has not ended."""
        return session in self._live

    # -- Reading from outside

    def make(self, path: str, data: bytes = b"") -> None:
        """Make a znode and its missing parents."""
        names = path.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            each = "/" + "/".join(names[:depth])
            if each not in self.nodes:
                self._insert(each, data if each == path else b"", 0)

    def get(self, path: str) -> bytes | None:
        """Return a znode's content."""
        node = self.nodes.get(path)
        return None if node is None else node.data

    def children_of(self, path: str) -> list[str]:
        """Return the names of a znode's children."""
        start = path + "/"
        names = (each[len(start) :] for each in self.nodes if each.startswith(start))
        return sorted(name for name in names if "/" not in name)

    def put_by_hand(self, path: str, data: bytes) -> None:
        """Replace the content of a znode, as an operator does with a shell."""
        self._apply(0, Put(path, data))

    def delete_by_hand(self, path: str) -> None:
        """Remove a znode, as an operator does with a shell."""
        self._remove(path)

    # -- Operations

    def run(self, session: int, operation: Operation, fence: Check | None = None) -> object:
        """Do one operation. Raises SessionExpired, and Fenced where `fence` does not hold."""
        if session not in self._live:
            raise SessionExpired
        if isinstance(operation, ReadAll):
            return [self._read(session, path, watch=operation.watch) for path in operation.paths]
        if isinstance(operation, ReadChildren):
            if operation.watch:
                self._watches["children", operation.path].add(session)
            return self.children_of(operation.path) if operation.path in self.nodes else None
        if isinstance(operation, Pause):
            return None
        return [self._write(session, group, fence) for group in operation.groups]

    def _read(self, session: int, path: str, *, watch: bool) -> Znode | None:
        if watch:
            self._watches["data", path].add(session)
        node = self.nodes.get(path)
        return None if node is None else Znode(node.data, node.version, node.czxid, node.mzxid, node.owner)

    def _write(self, session: int, group: tuple[Change, ...], fence: Check | None) -> Failure | None:
        if fence is not None and self._check(fence) is not None:
            raise Fenced
        size = sum(len(each.path) + len(getattr(each, "data", b"")) + CHANGE_BYTES for each in group)
        assert size <= MAX_REQUEST_BYTES, f"ZooKeeper drops the connection of a client that sends {size} bytes"
        # No group of the broker's changes the same znode twice, so all checks come first.
        for change in group:
            failure = self._check(change)
            if failure is not None:
                return failure
        for change in group:
            self._apply(session, change)
        return None

    def _check(self, change: Change) -> Failure | None:
        path, node = change.path, self.nodes.get(change.path)
        if isinstance(change, Create):
            if node is not None:
                return Failure(path, exists=True)
            return None if path.rpartition("/")[0] in self.nodes else Failure(path, missing=True)
        if node is None:
            return Failure(path, missing=True)
        if change.version not in (ANY_VERSION, node.version):
            return Failure(path, bad_version=True)
        if isinstance(change, Delete) and self.children_of(path):
            return Failure(path, has_children=True)
        return None

    def _apply(self, session: int, change: Change) -> None:
        if isinstance(change, Create):
            number = f"{self.zxid:010d}" if change.is_sequential else ""
            self._insert(change.path + number, change.data, session if change.ephemeral else 0)
        elif isinstance(change, Put):
            node = self.nodes[change.path]
            node.data, node.version = change.data, node.version + 1
            self.zxid += 1
            node.mzxid = self.zxid
            self._note(change.path, change.data)
            self._fire("data", change.path)
        elif isinstance(change, Delete):
            self._remove(change.path)

    def _insert(self, path: str, data: bytes, owner: int) -> None:
        self.zxid += 1
        self.nodes[path] = _Node(data, 0, self.zxid, self.zxid, owner)
        self._note(path, data)
        self._fire("data", path)
        self._fire("children", path.rpartition("/")[0])

    def _remove(self, path: str) -> None:
        self.zxid += 1
        del self.nodes[path]
        self._note(path, None)
        for kind, where in (("data", path), ("children", path), ("children", path.rpartition("/")[0])):
            self._fire(kind, where)

    def _note(self, path: str, data: bytes | None) -> None:
        self.history.append((path, data))
        self.changed(path, data)

    def _fire(self, kind: str, path: str) -> None:
        for session in self._watches.pop((kind, path), set()):
            if session in self._live:
                self.events[session].append((kind, path))
