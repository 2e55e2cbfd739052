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


# What a member has its rebalance timeout for. Only one of the classic protocol joins again, and syncs.
REVOKE, REJOIN, SYNC = "give its partitions up", "join again", "sync"


class MemberLate(NamedTuple):
    """A member has not done something within its rebalance timeout."""

    member_id: str
    # REVOKE, REJOIN or SYNC. It tells the timers of a member apart: tuples with equal fields are equal.
    kind: str


MemberTimer = MemberSilent | MemberLate


def member_timers(member_id: str) -> list[MemberTimer]:
    """Return the timers that a member may have."""
    return [MemberSilent(member_id), *(MemberLate(member_id, kind) for kind in (REVOKE, REJOIN, SYNC))]


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
