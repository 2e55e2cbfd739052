"""Operations on ZooKeeper as values, so that what uses them is pure: a generator yields one and is sent its result.

`Steps[T]` is such a generator, which returns a T in the end. `session.py` runs it against ZooKeeper, and tests run it
against a model of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from ..protocol.errors import ErrorCode, KafkaError

# The version that matches every version of a znode.
ANY_VERSION = -1
# ZooKeeper drops the connection of a client that sends more than 1,048,575 bytes at once (jute.maxbuffer).
MAX_WRITE_BYTES = 1_000_000
# What a change has besides its path and data: the chroot, an ACL and lengths.
_CHANGE_BYTES = 128
# Partitions that steps look at in one turn of the event loop: some 10 microseconds each.
PARTITIONS_A_TURN = 1000


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as it was read. `czxid` and `mzxid` number the transactions that created it and that wrote its content.

    These numbers rise over the whole ensemble.
    """

    data: bytes
    version: int
    czxid: int
    mzxid: int
    # The session that an ephemeral znode belongs to; 0 for a persistent one.
    owner: int = 0


# -- Changes


@dataclass(frozen=True, slots=True)
class Create:
    """Make a znode, whose parent must be there. Fails where it exists."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    # ZooKeeper appends the next number to the path. A write whose answer was lost may be done twice.
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the content of a znode that has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a znode that has this version and no children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but require that a znode is there and has this version."""

    path: str
    version: int = ANY_VERSION


Change: TypeAlias = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing of a write was done: the first znode in the way. Exactly one of the flags is set."""

    path: str
    exists: bool = False
    missing: bool = False
    bad_version: bool = False
    has_children: bool = False


# -- What ends steps


class SessionExpired(Exception):
    """The session with ZooKeeper has ended: its ephemeral znodes are gone, and nothing was written."""


class Refused(Exception):
    """ZooKeeper refuses a change for a reason that no step knows, an ACL say: nothing was written."""


class Dropped(Refused):
    """ZooKeeper has dropped the connection each time that it got this write. Nobody knows whether it was done."""


class TooLarge(KafkaError):
    """A write has more bytes than ZooKeeper takes. It was not sent."""

    def __init__(self, path: str, size: int) -> None:
        why = f"the znode {path} would take {size} bytes, and ZooKeeper takes {MAX_WRITE_BYTES} at once"
        super().__init__(ErrorCode.POLICY_VIOLATION, why)


class Fenced(Exception):
    """The znode of the fence has another version: nothing of the write was done."""


# -- Operations


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Read znodes. The result is a list of Znode, None for each that is missing. `watch` reports the next change."""

    paths: tuple[str, ...]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ReadChildren:
    """Read the names of a znode's children; the result is a sorted list, or None where the znode is missing."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class WriteAll:
    """Write groups of changes, each all or nothing. The result is a list: None for each, or its Failure."""

    groups: tuple[tuple[Change, ...], ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let others have a turn of the event loop. ZooKeeper is asked nothing; the result is None."""


Operation: TypeAlias = ReadAll | ReadChildren | WriteAll | Pause

T = TypeVar("T")
Steps: TypeAlias = Generator[Operation, Any, T]


def read(path: str, *, watch: bool = False) -> Steps[Znode | None]:
    """Return a znode, or None where it is missing."""
    found: list[Znode | None] = yield ReadAll((path,), watch)
    return found[0]


def read_all(paths: Iterable[str], *, watch: bool = False) -> Steps[list[Znode | None]]:
    """Return znodes in the order of their paths, None for each that is missing."""
    wanted = tuple(paths)
    return (yield ReadAll(wanted, watch)) if wanted else []


def children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """Return the names of a znode's children; none where it is missing."""
    found: list[str] | None = yield ReadChildren(path, watch)
    return found or []


def write(*changes: Change) -> Steps[Failure | None]:
    """Do all changes or none. Returns why none was done, or None. Raises TooLarge."""
    return (yield from write_all((changes,)))[0]


def check_size(*changes: Change) -> None:
    """Raise TooLarge where ZooKeeper does not take these changes at once."""
    sizes = [(size_of(each), each.path) for each in changes]
    size = sum(each for each, _ in sizes)
    if size > MAX_WRITE_BYTES:
        raise TooLarge(max(sizes)[1], size)


def size_of(change: Change) -> int:
    """Return about how many bytes a change has on its way to ZooKeeper."""
    data = b"" if isinstance(change, (Check, Delete)) else change.data
    return len(change.path) + len(data) + _CHANGE_BYTES


def create(change: Create) -> Steps[Failure | None]:
    """Make a znode, and those above it that somebody has removed by hand. Returns why it was not made, or None."""
    failure = yield from write(change)
    if failure is None or not failure.missing:
        return failure
    names = change.path.split("/")[1:-1]
    for depth in range(1, len(names) + 1):
        yield from write(Create("/" + "/".join(names[:depth])))
    return (yield from write(change))


def write_all(groups: Iterable[tuple[Change, ...]]) -> Steps[list[Failure | None]]:
    """Do each group of changes, all of it or nothing. Returns for each why it was not done, or None.

    Raises TooLarge for one that ZooKeeper would not take; then nothing is done.
    """
    wanted = tuple(groups)
    for each in wanted:
        check_size(*each)
    return (yield WriteAll(wanted)) if wanted else []


# -- Turns


def portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def select(items: Iterable[T], is_wanted: Callable[[T], bool]) -> Steps[list[T]]:
    """Return the wanted items, with a pause after each PARTITIONS_A_TURN. Nobody may change `items` meanwhile."""
    found: list[T] = []
    for number, some in enumerate(portions(items, PARTITIONS_A_TURN)):
        if number:
            yield Pause()
        found += filter(is_wanted, some)
    return found
