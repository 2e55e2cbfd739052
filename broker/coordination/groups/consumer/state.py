"""The state of one consumer group (KIP-848): plain data, and how each record changes it.

A group has an epoch, which grows when its members or their topics change, and a target: which partitions each member
should have, computed for an epoch (the assignment epoch). Each member has a current assignment on its way to the
target, with an epoch of its own.

Everything here comes from records alone. Their order does not matter as long as the last one of each key comes last,
because a replay keeps no other order (replay.py).

Promise: a partition has one owner. It is owned while it is in `assigned` or `revoking` of a member, and nobody else is
given it meanwhile (reconciliation.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import NamedTuple

from .....protocol.messages import consumer_group_records as kafka
from ..records import ConsumerRecord

# Topic id, partition index.
Place = tuple[bytes, int]


class MemberState(IntEnum):
    """How far a member is on its way to the target. The values are those of the records."""

    # It has what it should have, as far as nobody else had to give it up.
    STABLE = 0
    # It has to give partitions up, and has not confirmed it.
    UNREVOKED_PARTITIONS = 1
    # It waits for partitions that others have not given up.
    UNRELEASED_PARTITIONS = 2
    # Written by a coordinator that knows more states than this one.
    UNKNOWN = 127


class GroupState(Enum):
    """The states of a consumer group, with Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Current(NamedTuple):
    """Where a member stands. Its partitions have the epoch at which the member got each (KIP-1251)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Place, int] = MappingProxyType({})
    revoking: Mapping[Place, int] = MappingProxyType({})


_NOWHERE = Current()


@dataclass(slots=True)
class Member:
    """A member: what it said of itself, where it stands and where it should be."""

    member_id: str
    # None only while a replay has not brought it yet.
    said: kafka.ConsumerGroupMemberMetadataValue | None = None
    current: Current = _NOWHERE
    target: frozenset[Place] = frozenset()


class Resolved(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    # The number of changes of topics that the match had seen, and when it was made.
    version: int
    resolved_ms: int


class ConsumerGroup:
    """One consumer group. Only `apply` changes it, but for what is not kept."""

    def __init__(self) -> None:
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        # When the target was computed; 0: never.
        self.assignment_ms = 0
        self.members: dict[str, Member] = {}
        self.regexes: dict[str, Resolved] = {}
        # Whether the log has a record of the group itself.
        self.recorded = False
        # Whether the log has a record of type 4, which Kafka before 4.1 wrote.
        self.has_partition_metadata = False
        # -- Derived from the above
        self.static: dict[str, str] = {}
        self.owners: dict[Place, str] = {}
        self.topic_subscribers: Counter[str] = Counter()
        self.regex_subscribers: Counter[str] = Counter()
        # -- Not kept: the number of changes of topics that the metadata hash has seen.
        self.seen_changes = -1
        # Not kept: whether a target is due that is too large for one turn (target.py).
        self.wants_target = False
        # Not kept: since when the classic members that were told to join again have known it.
        self.rejoining: dict[str, int] = {}

    @property
    def state(self) -> GroupState:
        """The state that ListGroups and ConsumerGroupDescribe show."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        for member in self.members.values():
            if member.current.state is not MemberState.STABLE or member.current.epoch != self.assignment_epoch:
                return GroupState.RECONCILING
        return GroupState.STABLE

    def topics_of(self, said: kafka.ConsumerGroupMemberMetadataValue) -> set[str]:
        """Return the topics that a member subscribes: by name, and those that its regular expression matched."""
        names = set(said.subscribed_topic_names)
        resolved = self.regexes.get(said.subscribed_topic_regex or "")
        return names | resolved.topics if resolved is not None else names

    def subscribed_topics(self) -> set[str]:
        """Return the topics that any member subscribes."""
        names = set(self.topic_subscribers)
        for regex in self.regex_subscribers:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                names |= resolved.topics
        return names

    def is_blank(self) -> bool:
        """Return whether nothing would be lost without this group, but for committed offsets."""
        return not self.members and not self.recorded

    # -- Records

    def apply(self, record: ConsumerRecord) -> None:
        """Let a committed record take effect, now or while the log is loaded."""
        match record.key:
            case kafka.ConsumerGroupMetadataKey():
                self._apply_group(record.value)
            case kafka.ConsumerGroupPartitionMetadataKey():
                self.has_partition_metadata = record.value is not None
            case kafka.ConsumerGroupMemberMetadataKey(member_id=member_id):
                self._apply_member(member_id, record.value)
            case kafka.ConsumerGroupTargetAssignmentMetadataKey():
                self._apply_target_epoch(record.value)
            case kafka.ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                self._apply_target(member_id, record.value)
            case kafka.ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, record.value)
            case kafka.ConsumerGroupRegularExpressionKey(regular_expression=regex):
                self._apply_regex(regex, record.value)

    def _apply_group(self, value: kafka.ConsumerGroupMetadataValue | None) -> None:
        self.recorded = value is not None
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_target_epoch(self, value: kafka.ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.assignment_epoch, self.assignment_ms = value.assignment_epoch, value.assignment_timestamp

    def _apply_member(self, member_id: str, value: kafka.ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if member is not None and member.said is not None:
            self._count(member.said, -1)
            instance_id = member.said.instance_id
            if instance_id is not None and self.static.get(instance_id) == member_id:
                del self.static[instance_id]
        if value is None:
            if member is not None:
                self._disown(member)
                del self.members[member_id]
            return
        self._member(member_id).said = value
        self._count(value, 1)
        if value.instance_id is not None:
            self.static[value.instance_id] = member_id

    def _count(self, said: kafka.ConsumerGroupMemberMetadataValue, by: int) -> None:
        for counter, names in (
            (self.topic_subscribers, set(said.subscribed_topic_names)),
            (self.regex_subscribers, {said.subscribed_topic_regex} if said.subscribed_topic_regex else set[str]()),
        ):
            for name in names:
                counter[name] += by
                if not counter[name]:
                    del counter[name]

    def _apply_target(self, member_id: str, value: kafka.ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        if value is not None:
            places = ((each.topic_id, index) for each in value.topic_partitions for index in each.partitions)
            self._member(member_id).target = frozenset(places)
        elif member_id in self.members:
            self.members[member_id].target = frozenset()

    def _apply_current(self, member_id: str, value: kafka.ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        if value is None and member_id not in self.members:
            return
        member = self._member(member_id)
        self._disown(member)
        member.current = _NOWHERE if value is None else current_of(value)
        for places in (member.current.assigned, member.current.revoking):
            for place in places:
                self.owners[place] = member_id

    def _apply_regex(self, regex: str, value: kafka.ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = Resolved(frozenset(value.topics), value.version, value.timestamp)

    def _member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id)
        return member

    def _disown(self, member: Member) -> None:
        for places in (member.current.assigned, member.current.revoking):
            for place in places:
                if self.owners.get(place) == member.member_id:
                    del self.owners[place]

    def drop_halves(self) -> None:
        """Forget members of which a log that lost records has no description."""
        for member in [each for each in self.members.values() if each.said is None]:
            self._disown(member)
            del self.members[member.member_id]


def current_of(value: kafka.ConsumerGroupCurrentMemberAssignmentValue) -> Current:
    """Return the current assignment that a record has."""
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    epoch = max(value.member_epoch, 0)
    assigned = _with_epochs(value.assigned_partitions, epoch)
    revoking = _with_epochs(value.partitions_pending_revocation, epoch)
    return Current(value.member_epoch, value.previous_member_epoch, state, assigned, revoking)


def _with_epochs(topics: list[kafka.TopicPartitions], default: int) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [default] * len(each.partitions)
        found.update(((each.topic_id, index), epoch) for index, epoch in zip(each.partitions, epochs, strict=True))
    return found
