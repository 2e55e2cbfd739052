"""The events that only a share group takes, and its answers. Plain values, no behaviour.

The states of its partitions are with the share coordinator, which the machine cannot ask. A step that needs it answers
a token with the work (`StatesWanted`); its result comes back as an event (`StatesInitialized`, `StatesDeleted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..modern.state import Place
from ..outcome import Token


class StatesWanted(NamedTuple):
    """Partitions whose states are to be initialized, or deleted, and the state epoch of new ones."""

    state_epoch: int
    places: frozenset[Place]
    # The topics whose states are to be deleted.
    topics: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class ShareHeartbeat:
    """ShareGroupHeartbeat. None means: as before."""

    # Answered with a Beat or a Rejection.
    token: Token[Any]
    # Answered with StatesWanted where partitions are not ready.
    starter: Token[Any]
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: list[str] | None = None


@dataclass(slots=True)
class AlterStates:
    """AlterShareGroupOffsets: begin the states of these partitions anew, by topic id. Answered with StatesWanted."""

    token: Token[Any]
    topics: Mapping[bytes, tuple[str, frozenset[int]]]


@dataclass(slots=True)
class DeleteStates:
    """DeleteShareGroupOffsets, or DeleteGroups (None: all topics): delete the states. Answered with StatesWanted."""

    token: Token[Any]
    topics: frozenset[bytes] | None


@dataclass(slots=True)
class StatesInitialized:
    """The share coordinator has begun the states of some partitions, and not of others."""

    done: frozenset[Place]
    failed: frozenset[Place]


@dataclass(slots=True)
class StatesDeleted:
    """The share coordinator has no states of these topics any more."""

    topics: frozenset[bytes]


@dataclass(slots=True)
class ForgetTopic:
    """A topic was deleted. The share coordinator deletes its states by itself."""

    topic_id: bytes
