"""What a consumer that rebalances through ZooKeeper does, as values: a generator yields one and is sent its result.

So its life (membership.py) is pure. connector.py runs it against ZooKeeper, and tests run it against a model.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ..record import TopicPartition


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as it was read."""

    data: bytes
    # The session that an ephemeral znode belongs to; 0 for a persistent one.
    owner: int = 0


# -- Changes


@dataclass(frozen=True, slots=True)
class Create:
    """Make a znode, whose parent must be there. Fails where it exists."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the content of a znode."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a znode."""

    path: str


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but require that a znode is there."""

    path: str


Change: TypeAlias = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing of a group of changes was done: the first znode in the way exists, or is missing."""

    path: str
    exists: bool = False
    missing: bool = False


# -- Operations on ZooKeeper


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Read znodes. The result is a list of Znode, None for each that is missing. `watch` reports the next change."""

    paths: tuple[str, ...]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """Read the names of a znode's children; none where it is missing, which cannot be watched."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class WriteAll:
    """Write groups of changes, each all or nothing. The result is a list: None for each, or its Failure."""

    groups: tuple[tuple[Change, ...], ...]


# -- Operations of the consumer


@dataclass(frozen=True, slots=True)
class StopReading:
    """Hand out no more records, and commit those that are processed."""


@dataclass(frozen=True, slots=True)
class StartReading:
    """Read these partitions from their committed offsets on, each for one stream, by the number of the stream.

    The result is whether the offsets could be read.
    """

    streams: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a watch has fired since the last Wait, or for `timeout_ms`."""

    timeout_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the user that the consumer has no partitions."""

    why: str


Operation: TypeAlias = ReadAll | ReadChildren | WriteAll | StopReading | StartReading | Wait | Report

T = TypeVar("T")
Steps: TypeAlias = Generator[Operation, Any, T]


def read_all(paths: Iterable[str], *, watch: bool = False) -> Steps[list[Znode | None]]:
    """Return znodes in the order of their paths, None for each that is missing."""
    wanted = tuple(paths)
    return (yield ReadAll(wanted, watch)) if wanted else []


def children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """Return the names of a znode's children; none where it is missing."""
    return (yield ReadChildren(path, watch))


def write(*changes: Change) -> Steps[Failure | None]:
    """Do all changes or none. Returns why none was done, or None."""
    failures: list[Failure | None] = yield WriteAll((changes,))
    return failures[0]


def write_all(groups: Iterable[tuple[Change, ...]]) -> Steps[list[Failure | None]]:
    """Do each group of changes, all of it or nothing. Returns for each why it was not done, or None."""
    wanted = tuple(groups)
    return (yield WriteAll(wanted)) if wanted else []
