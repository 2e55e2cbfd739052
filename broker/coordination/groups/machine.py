"""The machine of a classic consumer group: events go in, outcomes come out. Pure: no clock, no log, no network.

    outcome = group.step(event, now_ms)
    append outcome.records; when they are committed:  for record in outcome.records: group.apply(record)
    then send outcome.replies and set outcome.timers

`apply` is also what start-up does with each record of the log, so that a crash between any two steps comes back to the
same place. Between a step that returns a record of the group and its `apply` (or an AppendFailed) the group is not
stepped.

The handlers of events stand beside this module: join_phase.py (Join), sync_phase.py (Sync and words from the log),
membership.py (Heartbeat, Leave, CommitOffsets, SessionExpired), transactional_offsets.py (offsets in transactions),
deletion.py (Delete, DeleteOffsets), expiry.py (offsets that go), rebalance.py (how a rebalance begins, waits and
ends). States and legal moves: states.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.group_records import GroupMetadataValue
from . import deletion, events, expiry, join_phase, membership, rebalance, sync_phase, transactional_offsets
from .committed_offsets import Offsets
from .history import MAX_HISTORY, Rebalance
from .records import GroupRecord, OffsetRecord, Record
from .roster import Member, Roster
from .states import LEGAL, GroupState, IllegalMove

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot send heartbeats before its first join is answered; if it is gone by then, its join does not hold
a place for ever."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the broker's configuration says to every group."""

    initial_rebalance_delay_ms: int = 3000
    """`group.initial.rebalance.delay.ms`."""
    max_size: int = 2**31 - 1
    """`group.max.size`, in members."""


class Group:
    """One group: its state, its generation, its members and its committed offsets."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        # Set by move_to alone.
        self.state = GroupState.EMPTY
        self.state_since_ms = -1
        # Invariant: grows by one with every generation and never falls.
        self.generation = 0
        self.protocol_type: str | None = None
        # Invariant: the elected protocol in CompletingRebalance and Stable, None in Empty.
        self.protocol: str | None = None
        # Invariant: a member, or None when there is none.
        self.leader: str | None = None
        self.roster = Roster()
        self.offsets = Offsets()
        self.recorded = False
        """Whether the log has a record of this group itself, not only of its offsets."""
        self.incoming: Member | None = None
        """A static member that came back under a new id, and becomes real when its record is committed."""
        self.first_round = False
        """In PreparingRebalance: the group was empty, and waits `initial_rebalance_delay_ms` for more members."""
        self.grew = False
        """In the first round: a member came since the delay began."""
        self.first_round_left_ms = 0
        """In the first round: by how much the delay may still be extended."""
        self.rebalances: deque[Rebalance] = deque(maxlen=MAX_HISTORY)
        """The last ones, the oldest first. The newest is the one that runs, if one does."""

    # The two doors.

    def step(self, event: events.Event, now_ms: int) -> events.Outcome:
        """What comes of an event. `now_ms` is the wall clock, which is only written down."""
        outcome = events.Outcome()
        _HANDLERS[event.__class__](self, event, outcome, now_ms)
        return outcome

    def apply(self, record: Record) -> None:
        """A committed record takes effect, now or at start-up."""
        if isinstance(record, OffsetRecord):
            self.offsets.apply(record)
        elif record.value is None:
            self.roster.replace_all(())
            self.leader = None
            self.move_to(GroupState.DEAD, self.state_since_ms)
        else:
            self._apply_generation(record.value)

    # What the handlers share.

    def move_to(self, target: GroupState, now_ms: int) -> None:
        """The one place where the state changes; a move that is not in the table is a defect."""
        if target is not self.state and target not in LEGAL[self.state]:
            raise IllegalMove(self.group_id, self.state, target)
        self.state = target
        self.state_since_ms = now_ms

    def heard(self, member: Member, outcome: events.Outcome, now_ms: int) -> None:
        """The member has shown that it lives."""
        member.heard_ms = now_ms
        self.keep_session(member, outcome)

    def keep_session(self, member: Member, outcome: events.Outcome) -> None:
        """The member's session begins anew."""
        delay_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        outcome.timers.append(events.SetTimer(events.SessionExpired(member.member_id), delay_ms))

    def drop(self, member_id: str, outcome: events.Outcome, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Takes out a member or a pending id, with its timer; what it had parked is answered with `error`."""
        outcome.timers.append(events.CancelTimer(events.SessionExpired(member_id)))
        joins, syncs = self.roster.joins.get(member_id), self.roster.syncs.get(member_id)
        self.roster.remove(member_id)
        if joins is not None:
            outcome.replies.append((joins, events.Joined(error, "")))
        if syncs is not None:
            outcome.replies.append((syncs, events.Synced(error)))
        if self.leader == member_id:
            self.leader = next(iter(self.roster.members), None)

    def generation_record(
        self, generation: int, members: Collection[tuple[Member, bytes]], leader: str | None, now_ms: int
    ) -> GroupRecord:
        """The record of a generation: its members, each with its assignment."""
        protocol = self.protocol if members else None
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=now_ms,
            members=[member.record(protocol or "", assignment) for member, assignment in members],
        )
        return GroupRecord(self.group_id, value)

    def is_blank(self) -> bool:
        """Nothing would be lost if this group were forgotten: it is in no log, and nobody waits in it."""
        offsets = self.offsets or self.offsets.pending
        return not (self.recorded or offsets or self.roster.members or self.roster.pending)

    def _apply_generation(self, value: GroupMetadataValue) -> None:
        """The last written generation becomes the current one; members that are known already keep what they said."""
        known = dict(self.roster.members)
        if self.incoming is not None:
            known[self.incoming.member_id] = self.incoming
            self.incoming = None
        members: list[Member] = []
        for record in value.members:
            member = known.get(record.member_id) or Member.recorded(record, value.protocol)
            member.assignment = record.assignment
            members.append(member)
        self.roster.replace_all(members)
        self.roster.syncs.clear()
        self.recorded = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.first_round = False
        self.move_to(GroupState.STABLE if members else GroupState.EMPTY, value.current_state_timestamp)


_HANDLERS: dict[type, Callable[[Group, Any, events.Outcome, int], None]] = {
    events.Join: join_phase.join,
    events.Sync: sync_phase.sync,
    events.Heartbeat: membership.heartbeat,
    events.Leave: membership.leave,
    events.CommitOffsets: membership.commit_offsets,
    events.CommitInTransaction: transactional_offsets.commit_in_transaction,
    events.Delete: deletion.delete,
    events.DeleteOffsets: deletion.delete_offsets,
    events.SessionExpired: membership.session_expired,
    events.InitialDelayPassed: rebalance.initial_delay_passed,
    events.RebalanceTimeout: rebalance.rebalance_timeout,
    events.SyncTimeout: rebalance.sync_timeout,
    events.Create: sync_phase.create,
    events.ExpireOffsets: expiry.expire_offsets,
    events.DropTopic: expiry.drop_topic,
    events.EndTransaction: transactional_offsets.end_transaction,
    events.Loaded: sync_phase.loaded,
    events.Unload: sync_phase.unload,
    events.AppendFailed: sync_phase.append_failed,
}
