"""What happens to a group, and what comes of it: the vocabulary of the group machine. Plain values, no behaviour.

An event is a request of a member (Join, Sync, Heartbeat, Leave, CommitOffsets), of a producer on behalf of one
(CommitInTransaction) or of an administrator (Delete, DeleteOffsets), a timer that went off, or word from the log
(AppendFailed, EndTransaction). A timer is known by the event that it will bring: `SetTimer(SessionExpired("m-1"),
10_000)` replaces an earlier timer of the same event. Tokens stand for parked requests; the machine only hands them
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....protocol.errors import ErrorCode
from .. import outcome
from ..outcome import CancelTimer, Loaded, SetTimer, Token
from .records import Record

Protocols = tuple[tuple[str, bytes], ...]
"""A member's protocols with their metadata, the one that it likes best first."""


# Requests of members.


@dataclass(slots=True)
class Join:
    """JoinGroup. Versions differ in the two flags only."""

    token: Token[Joined]
    member_id: str
    """Empty where the member has none yet."""
    new_member_id: str
    """What to call the member if it has no id, or must be given a new one."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str | None = None
    needs_member_id: bool = True
    """Version 4 and up: a member without an id is given one and joins again with it (KIP-394)."""
    can_skip_assignment: bool = True
    """Version 9 and up: a static leader that came back can be told that there is nothing to assign (KIP-814)."""


@dataclass(slots=True)
class Sync:
    """SyncGroup. The leader's assignments by member id, from followers none."""

    token: Token[Synced]
    member_id: str
    instance_id: str | None
    generation: int
    assignments: dict[str, bytes]
    protocol_type: str | None = None
    """None (versions below 5) is not compared."""
    protocol: str | None = None


@dataclass(slots=True)
class Heartbeat:
    """Heartbeat: the member lives."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(slots=True)
class Leaver:
    """One member of a LeaveGroup, by member id, by instance id alone (an administrator's way), or both."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class Leave:
    """LeaveGroup."""

    token: Token[Left]
    members: Sequence[Leaver]


@dataclass(slots=True)
class CommitOffsets:
    """OffsetCommit, or a commit from outside of the group: generation -1 and no member id."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int
    records: list[Record]
    """The offsets, to be written if the group lets this member commit."""


@dataclass(slots=True)
class CommitInTransaction:
    """TxnOffsetCommit: offsets that count once the producer's transaction commits."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int
    records: list[Record]
    producer: tuple[int, int]
    """Its id and epoch."""


# Requests of administrators.


@dataclass(slots=True)
class Delete:
    """DeleteGroups: the group goes, with all that it has committed."""

    token: Token[ErrorCode]


@dataclass(slots=True)
class DeleteOffsets:
    """OffsetDelete: committed offsets go, where nobody subscribes their topics."""

    token: Token[OffsetsDeleted | ErrorCode]
    partitions: dict[str, list[int]]


# Timers. Each is its own key.


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """A member was silent for its session timeout, or has not used the id that it asked for."""

    member_id: str


@dataclass(frozen=True, slots=True)
class InitialDelayPassed:
    """The wait for more first members (`group.initial.rebalance.delay.ms`) is over."""


@dataclass(frozen=True, slots=True)
class RebalanceTimeout:
    """The members had their time to join again."""


@dataclass(frozen=True, slots=True)
class SyncTimeout:
    """The members had their time to fetch their assignments."""


TimerEvent = SessionExpired | InitialDelayPassed | RebalanceTimeout | SyncTimeout


# Word from the coordinator and the log.


@dataclass(slots=True)
class Create:
    """A first member asks for a group that is in no log yet."""


@dataclass(slots=True)
class ExpireOffsets:
    """Time to look for offsets that were kept long enough."""

    retention_ms: int


@dataclass(slots=True)
class DropTopic:
    """A topic was deleted, and its offsets with it."""

    topic: str


@dataclass(slots=True)
class EndTransaction:
    """The marker of a producer's transaction is in the log: what it committed here counts, or is dropped."""

    producer_id: int
    commit: bool


@dataclass(slots=True)
class Unload:
    """This broker coordinates the group no longer, or stops."""


@dataclass(slots=True)
class Outcome(outcome.Outcome[Record, TimerEvent]):
    """What is to be done after a step of the group."""


@dataclass(slots=True)
class AppendFailed(outcome.AppendFailed[Outcome]):
    """The records of this outcome were not committed."""


Request = Join | Sync | Heartbeat | Leave | CommitOffsets | CommitInTransaction | Delete | DeleteOffsets

Event = (
    Request
    | SessionExpired
    | InitialDelayPassed
    | RebalanceTimeout
    | SyncTimeout
    | Create
    | ExpireOffsets
    | DropTopic
    | EndTransaction
    | Loaded
    | Unload
    | AppendFailed
)


# What comes of an event.


@dataclass(slots=True)
class JoinedMember:
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True)
class Joined:
    """The answer to a join."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: list[JoinedMember] = field(default_factory=list[JoinedMember])
    """Everyone, for the leader; empty for the others."""


@dataclass(slots=True)
class Synced:
    """The answer to a sync."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Left:
    """The answer to a leave: an error code for each of its members, in their order."""

    errors: list[ErrorCode]


@dataclass(slots=True)
class OffsetsDeleted:
    """The answer to a DeleteOffsets that the group takes: all is gone but what is subscribed."""

    subscribed: frozenset[str]


Answer = Joined | Synced | Left | OffsetsDeleted | ErrorCode
"""Heartbeats, commits and deletions are answered with an ErrorCode alone, and so is a DeleteOffsets that is refused."""


def rejection(event: Request, error: ErrorCode) -> Answer:
    """Return the answer to a request that is rejected as a whole."""
    if isinstance(event, Join):
        return Joined(error, event.member_id)
    if isinstance(event, Sync):
        return Synced(error)
    if isinstance(event, Leave):
        return Left([error] * len(event.members))
    return error


__all__ = ["CancelTimer", "Loaded", "SetTimer", "Token"]
