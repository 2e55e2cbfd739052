"""The roster of a group: its members, the ids that were given out, the parked requests, the shared protocols.

Every change keeps the roster's invariants. The roster knows no states, timers or records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ....protocol.messages.group_history import HistoricCause
from ....protocol.messages.group_records import MemberMetadata
from ..groups.events import Join, Joined, Protocols, Synced, Token
from ..groups.history import UNKNOWN_MS, CauseKind
from ..modern.state import count


@dataclass(slots=True)
class Member:
    """A member of a group, as its last join described it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    # Until its first join is answered: it cannot send heartbeats, and a parked join alone does not keep it alive.
    is_new: bool = False
    # The time of its last request, by the wall clock. It is unknown after a restart until the next request.
    heard_ms: int = UNKNOWN_MS

    @classmethod
    def joining(cls, member_id: str, event: Join) -> Member:
        """Return the member that a join describes."""
        return cls(
            member_id,
            event.instance_id,
            event.client_id,
            event.client_host,
            event.session_timeout_ms,
            event.rebalance_timeout_ms,
            event.protocols,
            is_new=True,
        )

    @classmethod
    def recorded(cls, record: MemberMetadata, protocol: str | None) -> Member:
        """Return the member that a record describes. The record has only the elected one of its protocols."""
        return cls(
            record.member_id,
            record.group_instance_id,
            record.client_id,
            record.client_host,
            record.session_timeout,
            record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
            ((protocol or "", record.subscription),),
        )

    def record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        """Return the member's part in the record of a generation that elected `protocol`."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def cause(self, kind: CauseKind, detail: str | None = None, silent_ms: int = UNKNOWN_MS) -> HistoricCause:
        """Return this member as the cause of a rebalance."""
        who = self.member_id, self.instance_id, self.client_id, self.client_host
        return HistoricCause(kind, *who, silent_ms, detail or "")

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol, or nothing if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """Return the candidate that this member prefers; it supports one at least."""
        return next(name for name, _ in self.protocols if name in candidates)


class Roster:
    """The members of one group, in the order in which they joined."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        # Invariant: holds the member of each instance id in `members`, and nothing else.
        self.static: dict[str, str] = {}
        # Invariant: disjoint from `members`. The ids that were given out and have not joined yet; a dict keeps order.
        self.pending: dict[str, None] = {}
        # Invariant: both hold ids of `members` alone, and a token is in one of them at most. The parked requests.
        self.joins: dict[str, Token[Joined]] = {}
        self.syncs: dict[str, Token[Synced]] = {}
        # Invariant: a subset of `members`. Those that have not yet synced in this generation.
        self.not_synced: set[str] = set()
        # Invariant: the number of members that support each protocol, without zeros.
        self.supporters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    # -- Changes

    def add(self, member: Member) -> None:
        """Add a member that the roster does not have. Its id is no longer pending."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id, and drop its parked requests."""
        self.pending.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None:
            del self.static[member.instance_id]
        self._count(member, -1)
        self.not_synced.discard(member_id)
        self.joins.pop(member_id, None)
        self.syncs.pop(member_id, None)

    def update(self, member: Member, event: Join) -> None:
        """Take over what a member says of itself when it joins again."""
        self._count(member, -1)
        member.protocols = event.protocols
        member.session_timeout_ms = event.session_timeout_ms
        member.rebalance_timeout_ms = event.rebalance_timeout_ms
        self._count(member, 1)

    def swap(self, old_id: str, member: Member) -> None:
        """Put `member` in the place of one with the same instance id, and drop the parked requests of that one."""
        self.joins.pop(old_id, None)
        self.syncs.pop(old_id, None)
        self.replace_all([member if known.member_id == old_id else known for known in self.members.values()])

    def replace_all(self, members: Iterable[Member]) -> None:
        """Set the members, in this order. Parked requests of those that stay remain parked."""
        self.members = {member.member_id: member for member in members}
        self.static = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self.not_synced &= self.members.keys()
        self.supporters.clear()
        for member in self.members.values():
            self._count(member, 1)

    # -- What the roster tells

    def missing(self) -> list[str]:
        """Return the members that have not joined, and the pending ids."""
        return [member_id for member_id in self.members if member_id not in self.joins] + list(self.pending)

    def all_joined(self) -> bool:
        """Return whether all members have joined and no id is pending."""
        return len(self.joins) == len(self.members) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocols: Protocols) -> bool:
        """Return whether all members support one of these protocols."""
        member_count = len(self.members)
        return any(self.supporters[name] == member_count for name, _ in protocols)

    def _count(self, member: Member, by: int) -> None:
        count(self.supporters, dict(member.protocols), by)


def elect_protocol(members: Collection[Member]) -> str:
    """Return the protocol of a generation: of those that all members support, the one that most members prefer.

    On a tie the older member's wins. There is always one: a member that shares no protocol with the others cannot join.
    """
    candidates = set[str].intersection(*[set(dict(member.protocols)) for member in members])
    votes: dict[str, int] = {}
    for member in members:
        vote = member.vote(candidates)
        votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=votes.__getitem__)
