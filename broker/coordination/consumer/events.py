"""The events that only a consumer group takes, and its answer to a heartbeat: plain values, as ../groups/events.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..modern.events import MemberSilent
from ..modern.state import Place
from ..outcome import Token
from .state import ConsumerGroup, Match, Resolved

# A static member leaves and will come back under the same instance id.
STATIC_LEAVE_EPOCH = -2


@dataclass(slots=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. None means: as before."""

    # Answered with a Beat or a Rejection; the steps of classic members take a heartbeat too, and answer in their way.
    token: Token[Any]
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    # -1: as before.
    rebalance_timeout_ms: int = -1
    topics: list[str] | None = None
    # Empty: no regular expression any more.
    regex: str | None = None
    assignor: str | None = None
    # The partitions that the member has.
    owned: frozenset[Place] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the member says all, as after an error: it wants to hear all too."""
        names_topics = self.topics is not None or self.regex is not None
        return self.epoch == 0 or (self.rebalance_timeout_ms != -1 and names_topics and self.owned is not None)


# The names tell the timers of one member apart: tuples with equal fields are equal.


class RevocationLate(NamedTuple):
    """A member has not given its partitions up within its rebalance timeout."""

    member_id: str
    kind: str = "revocation"


class RejoinLate(NamedTuple):
    """A member of the classic protocol has not joined again within its rebalance timeout."""

    member_id: str
    kind: str = "rejoin"


class SyncLate(NamedTuple):
    """A member of the classic protocol has not fetched its assignment within its rebalance timeout."""

    member_id: str
    kind: str = "sync"


MemberTimer = MemberSilent | RevocationLate | RejoinLate | SyncLate


def member_timers(member_id: str) -> list[MemberTimer]:
    """Return the timers that a member may have."""
    return [MemberSilent(member_id), RevocationLate(member_id), RejoinLate(member_id), SyncLate(member_id)]


@dataclass(slots=True)
class RegexesResolved:
    """The topics that regular expressions of a group match, where they are others than before."""

    # The group that was matched: another one may have its id by then.
    body: ConsumerGroup
    found: dict[str, Resolved]
    # What was tried, and with what; None: more is to come.
    tried: dict[str, Match] | None = None
    # Whether the group has other topics now: an expression that is new and matches nothing changes none.
    changed: bool = False
