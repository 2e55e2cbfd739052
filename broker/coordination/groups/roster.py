"""Who is in a group: the members, those that were only given an id, whose requests are parked, what all can speak.

Promise: every change keeps the roster's invariants; nothing here knows states, timers or the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ....protocol.messages.group_records import MemberMetadata
from .events import Join, Joined, Protocols, Synced, Token
from .history import UNKNOWN_MS, Cause, CauseKind


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
    is_new: bool = False
    """Until its first join is answered: it cannot send heartbeats, and a parked join alone does not keep it alive."""
    heard_ms: int = UNKNOWN_MS
    """When it was last heard of, by the wall clock; unknown after a restart until it says something."""

    @classmethod
    def joining(cls, member_id: str, event: Join) -> Member:
        """The member that a join describes."""
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
        """The member that a record describes. Of its protocols only the chosen one is written down."""
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
        """The member as it is written down in a generation that speaks `protocol`."""
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

    def cause(self, kind: CauseKind, detail: str | None = None) -> Cause:
        """That this member is why the group rebalances."""
        return Cause(kind, self.member_id, self.instance_id, self.client_id, self.client_host, detail=detail or "")

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said under that protocol; empty if it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str | None:
        """The candidate that this member likes best."""
        return next((name for name, _ in self.protocols if name in candidates), None)


class Roster:
    """The members of one group, in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        # Invariant: holds the member of each instance id in `members`, and nothing else.
        self.static: dict[str, str] = {}
        # Invariant: disjoint from `members`. Ids that were given out and have not joined yet; a dict for its order.
        self.pending: dict[str, None] = {}
        # Invariant: both only hold ids of `members`, each token is in one of them at most.
        self.joins: dict[str, Token[Joined]] = {}
        self.syncs: dict[str, Token[Synced]] = {}
        # Invariant: a subset of `members`: who has not yet asked for the assignment of this generation.
        self.not_synced: set[str] = set()
        # Invariant: how many members speak each protocol; no zeros.
        self.speakers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    # Coming and going.

    def add(self, member: Member) -> None:
        """Takes in a member that is not there yet; it is no longer pending."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """Takes out a member or a pending id, and drops what it had parked."""
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
        """What a member says of itself when it joins again."""
        self._count(member, -1)
        member.protocols = event.protocols
        member.session_timeout_ms = event.session_timeout_ms
        member.rebalance_timeout_ms = event.rebalance_timeout_ms
        self._count(member, 1)

    def swap(self, old_id: str, member: Member) -> None:
        """Puts `member` in the place of a member with the same instance id; what that one had parked is dropped."""
        self.joins.pop(old_id, None)
        self.syncs.pop(old_id, None)
        self.replace_all([member if known.member_id == old_id else known for known in self.members.values()])

    def replace_all(self, members: Iterable[Member]) -> None:
        """Exactly these members, in this order; what those that stay had parked stays parked."""
        self.members = {member.member_id: member for member in members}
        self.static = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self.not_synced &= self.members.keys()
        self.speakers.clear()
        for member in self.members.values():
            self._count(member, 1)

    # Questions.

    def missing(self) -> list[str]:
        """Members that have not joined, and ids that were given out and not used."""
        return [member_id for member_id in self.members if member_id not in self.joins] + list(self.pending)

    def all_joined(self) -> bool:
        """Nobody is missing: neither a member nor someone who has only asked for an id."""
        return len(self.joins) == len(self.members) and not self.pending

    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take: the longest of their times."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def speaks(self, protocols: Protocols) -> bool:
        """Whether one of these protocols is spoken by every member."""
        everyone = len(self.members)
        return any(self.speakers[name] == everyone for name, _ in protocols)

    def _count(self, member: Member, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self.speakers[name] += step
            if not self.speakers[name]:
                del self.speakers[name]


def elect_protocol(members: Collection[Member]) -> str:
    """The protocol of a generation: of those that all speak, the one that most like best; on a tie the older member's.

    There is one: nobody is let in who does not share a protocol with all.
    """
    speakers = Counter(name for member in members for name in {name for name, _ in member.protocols})
    candidates = {name for name, count in speakers.items() if count == len(members)}
    votes = Counter(vote for member in members if (vote := member.vote(candidates)) is not None)
    return max(votes, key=lambda name: votes[name])
