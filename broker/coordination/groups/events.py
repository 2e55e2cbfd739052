"""The events of the group machine, and the answers that it gives. Plain values, no behaviour.

An event is a request of a member, a producer or an administrator, a timer that went off, or news from the coordinator
and its log. A timer is known by its event: `SetTimer(SessionExpired("m-1"), 10_000)` replaces an earlier timer of the
same event. A token stands for a waiting request; the machine only hands it back with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.messages.join_group import JoinGroupResponseMember
from ....protocol.messages.leave_group import MemberIdentity
from .. import outcome
from ..consumer.events import ConsumerHeartbeat, MemberLate, RegexesResolved
from ..modern.events import Beat, MemberSilent, Rejection, TargetComputed
from ..outcome import AppendFailed, CancelTimer, Loaded, Reply, SetTimer, Token, Unload
from ..share_groups.events import (
    AlterStates,
    DeleteStates,
    ForgetTopic,
    ShareHeartbeat,
    StatesDeleted,
    StatesInitialized,
    StatesWanted,
)
from .records import Record

# A member's protocols with their metadata, the one that it prefers first.
Protocols = tuple[tuple[str, bytes], ...]


# -- Requests of members and producers


@dataclass(slots=True)
class Join:
    """JoinGroup. Its versions differ in the two flags alone."""

    token: Token[Joined]
    # Empty if the member has none yet.
    member_id: str
    # The id to give to a member that has none, or needs a new one.
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str | None = None
    # Since version 4: a member without an id gets one, and joins again with it (KIP-394).
    needs_member_id: bool = True
    # Since version 9: the response can tell a static leader that returns not to assign (KIP-814).
    can_skip_assignment: bool = True


@dataclass(slots=True)
class Sync:
    """SyncGroup. The leader sends the assignments by member id, a follower sends none."""

    token: Token[Synced]
    member_id: str
    instance_id: str | None
    generation: int
    assignments: dict[str, bytes]
    # Before version 5 these two are None, and the group does not compare them.
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(slots=True)
class Heartbeat:
    """Heartbeat: a sign of life of a member."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(slots=True)
class Leave:
    """LeaveGroup: members leave."""

    token: Token[Left]
    # Each by its member id, by its instance id (as administrators do), or by both.
    members: Sequence[MemberIdentity]


@dataclass(slots=True)
class CommitOffsets:
    """OffsetCommit, or a commit from outside of the group: generation -1 and no member id."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int
    # The offsets, which are written unless the group rejects the commit.
    records: list[Record]
    # The version of the request: a member of a consumer group needs one that has epochs.
    api_version: int = 9


@dataclass(slots=True)
class CommitInTransaction:
    """TxnOffsetCommit: offsets that count once the producer's transaction commits."""

    token: Token[ErrorCode]
    member_id: str
    instance_id: str | None
    generation: int
    records: list[Record]
    # The producer's id and epoch.
    producer: tuple[int, int]
    # Whether the transaction is open still: a marker may have come while this waited for other records of the group.
    verify: Callable[[], ErrorCode]


# -- Requests of administrators


@dataclass(slots=True)
class Delete:
    """DeleteGroups: delete the group with its committed offsets."""

    token: Token[ErrorCode]


@dataclass(slots=True)
class DeleteOffsets:
    """OffsetDelete: delete committed offsets of topics that no member subscribes."""

    token: Token[OffsetsDeleted | ErrorCode]
    partitions: dict[str, list[int]]


# -- Timers. Each is its own key.


class SessionExpired(NamedTuple):
    """A member was silent for its session timeout, or did not use the id that it was given.

    A tuple as the other timers, because each is looked up as a key, this one by every heartbeat: a data class is hashed
    and compared by functions in Python.
    """

    member_id: str


# The field tells these three apart, and from a member's timer: tuples with equal fields are equal.


class InitialDelayPassed(NamedTuple):
    """The wait for more first members (`group.initial.rebalance.delay.ms`) is over."""

    kind: int = 1


class RebalanceTimeout(NamedTuple):
    """The time for the members to join again is over."""

    kind: int = 2


class SyncTimeout(NamedTuple):
    """The time for the members to sync is over."""

    kind: int = 3


TimerEvent = SessionExpired | InitialDelayPassed | RebalanceTimeout | SyncTimeout | MemberSilent | MemberLate


# -- News from the coordinator and the log


@dataclass(slots=True)
class Create:
    """A classic member is about to join: its group is made, or an empty consumer group becomes classic."""


@dataclass(slots=True)
class Rebalance:
    """The owner of the broker wants the members to join again. Only a test kit does."""


@dataclass(slots=True)
class ExpireOffsets:
    """It is time to delete offsets that were kept long enough."""

    retention_ms: int


@dataclass(slots=True)
class DropTopic:
    """A topic was deleted: its offsets must go too, but for those of a new topic with this name and `kept_id`."""

    topic: str
    kept_id: bytes | None = None


@dataclass(slots=True)
class EndTransaction:
    """The marker of a producer's transaction is in the log: its offsets count from now on, or are dropped."""

    producer_id: int
    commit: bool


@dataclass(slots=True)
class Outcome(outcome.Outcome[Record, TimerEvent]):
    """The outcome of a step of the group."""


Failed = AppendFailed[Outcome]

Request = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | CommitInTransaction
    | Delete
    | DeleteOffsets
    | ConsumerHeartbeat
    | ShareHeartbeat
    | AlterStates
    | DeleteStates
)

Event = (
    Request
    | TimerEvent
    | RegexesResolved
    | TargetComputed
    | StatesInitialized
    | StatesDeleted
    | ForgetTopic
    | Create
    | Rebalance
    | ExpireOffsets
    | DropTopic
    | EndTransaction
    | Loaded
    | Unload
    | Failed
)


# -- Answers


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
    # All members in the answer to the leader, none in the others.
    members: list[JoinGroupResponseMember] = field(default_factory=list[JoinGroupResponseMember])


@dataclass(slots=True)
class Synced:
    """The answer to a sync."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Left:
    """The answer to a leave: an error code for each member, in the order of the request."""

    errors: list[ErrorCode]


@dataclass(slots=True)
class OffsetsDeleted:
    """The answer to a DeleteOffsets that is not rejected: only offsets of subscribed topics are left."""

    subscribed: frozenset[str]


# The answer to a heartbeat, a commit and a deletion is an ErrorCode, and so is that to a rejected DeleteOffsets.
Answer = Joined | Synced | Left | OffsetsDeleted | Beat | Rejection | StatesWanted | ErrorCode


def rejection(event: Request, error: ErrorCode) -> Reply:
    """Return the reply to a request that is rejected as a whole."""
    match event:
        case Join():
            return event.token, Joined(error, event.member_id)
        case Sync():
            return event.token, Synced(error)
        case Leave():
            return event.token, Left([error] * len(event.members))
        case _:
            return event.token, error


def error_answer(answer: Answer, error: ErrorCode) -> Answer:
    """Return what a request is answered in the place of `answer`, because nothing of it has happened."""
    match answer:
        case Joined():
            return Joined(error, "")
        case Synced():
            return Synced(error)
        case Left():
            return Left([error] * len(answer.errors))
        case _:
            return error


def append_failed_replies(event: Failed) -> list[Reply]:
    """Return the replies to the requests whose records could not be written."""
    return [(token, error_answer(answer, event.error)) for token, answer in event.outcome.replies]


__all__ = ["AppendFailed", "CancelTimer", "Loaded", "SetTimer", "Token", "Unload"]
