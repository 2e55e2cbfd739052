"""The state of one consumer group (KIP-848), beside what it shares with share groups (../modern/state.py).

Promise: a partition has one owner. It is owned while it is in `assigned` or `revoking` of a member, and nobody else is
given it meanwhile (reconciliation.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import repeat
from types import MappingProxyType
from typing import NamedTuple

from ....protocol.messages import consumer_group_records as kafka
from ..groups.records import PartRecord
from ..modern import state as modern
from ..modern.state import ModernGroup, Place, count


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
class Member(modern.Member[kafka.ConsumerGroupMemberMetadataValue, Current]):
    """A member of a consumer group."""

    current: Current = _NOWHERE


class Resolved(NamedTuple):
    """The topics that a regular expression matched, and when they were found."""

    topics: frozenset[str]
    resolved_ms: int


class Match(NamedTuple):
    """What regular expressions were matched with, by this process."""

    # The topics that the member might see whose heartbeat it was.
    names: frozenset[str]
    # How often topics and ACLs had changed.
    changes: tuple[int, int]
    # When it was, by the monotonic clock.
    at_ms: int


class ConsumerGroup(ModernGroup[Member]):
    """One consumer group. Only `apply` changes it, but for what is not kept."""

    def __init__(self) -> None:
        super().__init__(Member)
        self.regexes: dict[str, Resolved] = {}
        # Whether the log has a record of type 4, which Kafka before 4.1 wrote.
        self.has_partition_metadata = False
        # -- Derived from the above
        self.static: dict[str, str] = {}
        self.owners: dict[Place, str] = {}
        self.regex_subscribers: Counter[str] = Counter()
        # None: not known since regular expressions have changed.
        self._topics_of_regexes: frozenset[str] | None = None
        # -- Not kept: the classic members that were told to join again.
        self.rejoining: set[str] = set()
        # Not kept, because another process counts other changes: what each regular expression was matched with.
        self.matched: dict[str, Match] = {}

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

    def has_place(self, member_id: str, instance_id: str | None) -> bool:
        """Return whether a full group has a place for this one: its own, or that of the static member it replaces."""
        return member_id in self.members or instance_id in self.static

    def topics_of(self, said: kafka.ConsumerGroupMemberMetadataValue) -> set[str]:
        """Return the topics that a member subscribes now."""
        return topics_of(said, self.regexes)

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that any member subscribes."""
        return self.topics_of_regexes() | self.topic_subscribers.keys()

    def topics_of_regexes(self) -> frozenset[str]:
        """Return the topics that any member subscribes by a regular expression."""
        if self._topics_of_regexes is None:
            found = (self.regexes[each].topics for each in self.regex_subscribers if each in self.regexes)
            self._topics_of_regexes = frozenset[str]().union(*found)
        return self._topics_of_regexes

    def is_blank(self) -> bool:
        """Return whether nothing would be lost without this group, but for committed offsets."""
        return not self.members and not self.recorded

    # -- Records

    def apply(self, record: PartRecord) -> None:
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
            case _:
                raise AssertionError(record)

    def _count(self, member: Member, by: int) -> None:
        super()._count(member, by)
        said = member.said
        assert said is not None
        if said.subscribed_topic_regex:
            count(self.regex_subscribers, [said.subscribed_topic_regex], by)
            self._topics_of_regexes = None
        if said.instance_id is None:
            return
        if by > 0:
            self.static[said.instance_id] = member.member_id
        elif self.static.get(said.instance_id) == member.member_id:
            del self.static[said.instance_id]

    def _apply_current(self, member_id: str, value: kafka.ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        if value is None and member_id not in self.members:
            return
        member = self._member(member_id)
        self._disown(member)
        member.current = _NOWHERE if value is None else current_of(value)
        for places in (member.current.assigned, member.current.revoking):
            self.owners.update(dict.fromkeys(places, member_id))

    def _apply_regex(self, regex: str, value: kafka.ConsumerGroupRegularExpressionValue | None) -> None:
        self._topics_of_regexes = None
        if value is None:
            self.regexes.pop(regex, None)
            self.matched.pop(regex, None)
        else:
            self.regexes[regex] = Resolved(frozenset(value.topics), value.timestamp)

    def _remove(self, member: Member) -> None:
        self._disown(member)
        super()._remove(member)

    def _disown(self, member: Member) -> None:
        for places in (member.current.assigned, member.current.revoking):
            for place in places:
                if self.owners.get(place) == member.member_id:
                    del self.owners[place]


def topics_of(said: kafka.ConsumerGroupMemberMetadataValue, regexes: Mapping[str, Resolved]) -> set[str]:
    """Return the topics that a member subscribes: by name, and those that its regular expression matched."""
    names = set(said.subscribed_topic_names)
    resolved = regexes.get(said.subscribed_topic_regex or "")
    return names | resolved.topics if resolved is not None else names


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
        # A member may have ten thousand topics, so this loop runs in C.
        found.update(zip(zip(repeat(each.topic_id), each.partitions, strict=False), epochs, strict=True))
    return found
