"""The state of one group: plain data, and how a committed record changes it.

A group is a classic one (what stands here), a consumer group (`consumer`) or a share group (`share`), each in a room of
its own. Committed offsets belong to the group whatever its kind is; share groups have none.

The machine (machine.py) decides what happens next. Requests and timers change a group through its steps; records of the
log change it through `apply`, now or while the log is replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from ....protocol.messages.consumer_group_records import ConsumerGroupMetadataKey
from ....protocol.messages.group_records import GroupMetadataValue
from ....protocol.messages.share_group_records import ShareGroupMetadataKey
from ..classic.roster import Member, Roster
from ..classic.states import LEGAL, GroupState
from ..consumer.state import ConsumerGroup
from ..interfaces import Topics
from .committed_offsets import CommittedOffsets
from .history import MAX_HISTORY, Rebalance
from .limits import GroupLimits
from .records import ClassicEnded, GroupRecord, OffsetRecord, PartRecord, Record

if TYPE_CHECKING:
    from ..share_groups.state import ShareGroup


class Group:
    """One group: its state, its generation, its members and its committed offsets."""

    def __init__(self, group_id: str, limits: GroupLimits, topics: Topics) -> None:
        self.group_id = group_id
        # What the members of a consumer group subscribe, read and never changed.
        self.topics = topics
        self.limits = limits
        # Invariant: only move_to sets these two.
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
        self.offsets = CommittedOffsets()
        # None: a classic group, or one of which only offsets are known. Otherwise the classic state is Empty.
        self.consumer: ConsumerGroup | None = None
        # None: no share group. Otherwise nothing else is known of the group.
        self.share: ShareGroup | None = None
        # Whether the log has a record of the group itself, not only of its offsets.
        self.recorded = False
        # Whether offsets were committed since the start: such a group stays without them until the next sweep.
        self.had_offsets = False
        # A static member that returned under a new id. It joins the roster when its record is committed.
        self.incoming: Member | None = None
        # In PreparingRebalance: the group was empty, and waits `initial_rebalance_delay_ms` for more members.
        self.first_round = False
        # In the first round: a member joined since the delay began.
        self.grew = False
        # In the first round: by how much the delay may still be extended.
        self.first_round_left_ms = 0
        # The last rebalances, the oldest first. The newest may still be running.
        self.rebalances: deque[Rebalance] = deque(maxlen=MAX_HISTORY)

    def move_to(self, target: GroupState, now_ms: int) -> None:
        """Change the state. A move that LEGAL does not list is a defect."""
        is_legal = target is self.state or target in LEGAL[self.state]
        assert is_legal, f"group {self.group_id!r} cannot go from {self.state} to {target}"
        self.state = target
        self.state_since_ms = now_ms

    def is_new(self) -> bool:
        """Return whether there is no group of any kind yet, so that it may become a share group."""
        return self.share is None and self.consumer is None and self.is_blank()

    def is_blank(self) -> bool:
        """Return whether the group is to be forgotten: it is dead, or has no record, no member and no offsets.

        As in Kafka, a group whose last offset went stays listed until the sweep or a restart.
        """
        if self.state is GroupState.DEAD:
            return True
        has_members = self.recorded or self.roster.members or self.roster.pending
        if self.consumer is not None:
            has_members = not self.consumer.is_blank()
        elif self.share is not None:
            has_members = not self.share.is_blank()
        return not (has_members or self.had_offsets or self.offsets or self.offsets.pending)

    def apply(self, record: Record) -> None:
        """Let a committed record take effect, now or at start-up."""
        if isinstance(record, OffsetRecord):
            self.offsets.apply(record)
            self.had_offsets = self.had_offsets or record.value is not None
        elif isinstance(record, PartRecord):
            self._apply_part(record)
        elif isinstance(record, ClassicEnded):
            self.recorded, self.protocol_type = False, None
        elif record.value is None:
            self.roster.replace_all(())
            self.leader = None
            self.move_to(GroupState.DEAD, self.state_since_ms)
        else:
            self._apply_generation(record.value)

    def _apply_part(self, record: PartRecord) -> None:
        """Change the consumer or share group, make it with its first record, and forget it with its last."""
        is_gone = record.value is None
        if record.is_share:
            if self.share is None:
                from ..share_groups.state import ShareGroup

                self.share = ShareGroup()
            self.share.apply(record)
            if is_gone and isinstance(record.key, ShareGroupMetadataKey):
                self.share = None
            return
        if self.consumer is None:
            self.consumer = ConsumerGroup()
            self._leave_classic()
        self.consumer.apply(record)
        if is_gone and isinstance(record.key, ConsumerGroupMetadataKey):
            self.consumer = None
            self.had_offsets = bool(self.offsets)

    def _leave_classic(self) -> None:
        """Forget the classic group, of which the consumer group has the members."""
        self.roster.replace_all(())
        self.roster.pending.clear()
        self.roster.not_synced.clear()
        self.leader = self.protocol = None
        self.first_round = False
        if self.state is not GroupState.EMPTY:
            self.move_to(GroupState.EMPTY, self.state_since_ms)

    def _apply_generation(self, value: GroupMetadataValue) -> None:
        """Make the generation of a record the current one. Members that the roster knows keep what they said."""
        known = dict(self.roster.members)
        if self.incoming is not None:
            known[self.incoming.member_id] = self.incoming
            self.incoming = None
        members: list[Member] = []
        for record in value.members:
            member = known.get(record.member_id) or Member.recorded(record, value.protocol)
            member.assignment = record.assignment
            members.append(member)
        if members != list(self.roster.members.values()):
            self.roster.replace_all(members)
        self.roster.syncs.clear()
        self.recorded = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.first_round = False
        self.move_to(GroupState.STABLE if members else GroupState.EMPTY, value.current_state_timestamp)


def empty_record(group: Group, now_ms: int) -> GroupRecord:
    """Return the record of a classic group that has had no members yet."""
    value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=now_ms)
    return GroupRecord(group.group_id, value)


def generation_record(
    group: Group, generation: int, members: Collection[tuple[Member, bytes]], leader: str | None, now_ms: int
) -> GroupRecord:
    """Return the record of a generation. `members` holds each member with its assignment."""
    protocol = group.protocol if members else None
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=now_ms,
        members=[member.record(protocol or "", assignment) for member, assignment in members],
    )
    return GroupRecord(group.group_id, value)
