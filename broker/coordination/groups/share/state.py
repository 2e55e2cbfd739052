"""The state of one share group (KIP-932): plain data, and how each record changes it.

A group has an epoch, which grows when its members, their topics or the partitions that are ready change, and a target:
which partitions each member should have, computed for an epoch. Several members may have the same partition. A member
goes to its target in one step, because records are handed out one by one and nobody owns a partition.

A partition is ready for members once the share coordinator has a state of it (`initialized`). Everything here comes
from records alone, in any order as long as the last one of each key comes last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .....protocol.messages import share_group_records as kafka
from ..consumer.state import Place
from ..records import ShareRecord


class GroupState(Enum):
    """The states of a share group, with Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


class Current(NamedTuple):
    """Where a member stands."""

    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Place] = frozenset()


_NOWHERE = Current()


class TopicStates(NamedTuple):
    """Partitions of a topic, of which the share coordinator has states or is asked for them."""

    name: str
    partitions: frozenset[int]


# By topic id.
States = dict[bytes, TopicStates]


@dataclass(slots=True)
class Member:
    """A member: what it said of itself, where it stands and where it should be."""

    member_id: str
    # None only while a replay has not brought it yet.
    said: kafka.ShareGroupMemberMetadataValue | None = None
    current: Current = _NOWHERE
    target: frozenset[Place] = frozenset()


class ShareGroup:
    """The members, epochs and target of one share group, and its partitions that are ready."""

    def __init__(self) -> None:
        # A group that the log knows nothing of begins at 1, as in Kafka.
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        # When the target was computed; 0: never.
        self.assignment_ms = 0
        self.members: dict[str, Member] = {}
        # Partitions of which the share coordinator is asked for states, has states, and topics whose states go.
        self.initializing: States = {}
        self.initialized: States = {}
        self.deleting: dict[bytes, str] = {}
        # Whether the log has a record of the group itself.
        self.recorded = False
        # -- Derived from the above
        self.topic_subscribers: Counter[str] = Counter()
        # -- Not kept: the number of changes of topics that the metadata hash has seen.
        self.seen_changes = -1
        # Not kept: the number of changes of topics for which all that is subscribed was ready and in the target.
        self.complete_changes = -1
        # Not kept: whether a target is due that is too large for one turn (target.py).
        self.wants_target = False

    @property
    def state(self) -> GroupState:
        """The state that ListGroups and ShareGroupDescribe show."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def is_blank(self) -> bool:
        """Return whether nothing would be lost without this group."""
        return not (self.members or self.recorded or self.initializing or self.initialized or self.deleting)

    def places(self) -> set[Place]:
        """Return every partition of which there is a state, or may be."""
        return {*places_of(self.initializing), *places_of(self.initialized)}

    # -- Records

    def apply(self, record: ShareRecord) -> None:
        """Let a committed record take effect, now or while the log is loaded."""
        self.complete_changes = -1
        match record.key:
            case kafka.ShareGroupMetadataKey():
                self._apply_group(record.value)
            case kafka.ShareGroupMemberMetadataKey(member_id=member_id):
                self._apply_member(member_id, record.value)
            case kafka.ShareGroupTargetAssignmentMetadataKey():
                self._apply_target_epoch(record.value)
            case kafka.ShareGroupTargetAssignmentMemberKey(member_id=member_id):
                self._apply_target(member_id, record.value)
            case kafka.ShareGroupCurrentMemberAssignmentKey(member_id=member_id):
                self._apply_current(member_id, record.value)
            case kafka.ShareGroupStatePartitionMetadataKey():
                self._apply_states(record.value or kafka.ShareGroupStatePartitionMetadataValue())

    def _apply_group(self, value: kafka.ShareGroupMetadataValue | None) -> None:
        self.recorded = value is not None
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_target_epoch(self, value: kafka.ShareGroupTargetAssignmentMetadataValue | None) -> None:
        if value is not None:
            self.assignment_epoch, self.assignment_ms = value.assignment_epoch, value.assignment_timestamp

    def _apply_member(self, member_id: str, value: kafka.ShareGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if member is not None and member.said is not None:
            self._count(member.said, -1)
        if value is None:
            self.members.pop(member_id, None)
            return
        self._member(member_id).said = value
        self._count(value, 1)

    def _count(self, said: kafka.ShareGroupMemberMetadataValue, by: int) -> None:
        for name in set(said.subscribed_topic_names):
            self.topic_subscribers[name] += by
            if not self.topic_subscribers[name]:
                del self.topic_subscribers[name]

    def _apply_target(self, member_id: str, value: kafka.ShareGroupTargetAssignmentMemberValue | None) -> None:
        if value is not None:
            places = ((each.topic_id, index) for each in value.topic_partitions for index in each.partitions)
            self._member(member_id).target = frozenset(places)
        elif member_id in self.members:
            self.members[member_id].target = frozenset()

    def _apply_current(self, member_id: str, value: kafka.ShareGroupCurrentMemberAssignmentValue | None) -> None:
        if value is not None:
            places = ((each.topic_id, index) for each in value.assigned_partitions for index in each.partitions)
            self._member(member_id).current = Current(
                value.member_epoch, value.previous_member_epoch, frozenset(places)
            )
        elif member_id in self.members:
            self.members[member_id].current = _NOWHERE

    def _apply_states(self, value: kafka.ShareGroupStatePartitionMetadataValue) -> None:
        self.initializing = _states(value.initializing_topics)
        self.initialized = _states(value.initialized_topics)
        self.deleting = {each.topic_id: each.topic_name for each in value.deleting_topics}

    def _member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id)
        return member

    def drop_halves(self) -> None:
        """Forget members of which a log that lost records has no description."""
        for member in [each for each in self.members.values() if each.said is None]:
            del self.members[member.member_id]


def _states(topics: Iterable[kafka.TopicPartitionsInfo]) -> States:
    return {each.topic_id: TopicStates(each.topic_name, frozenset(each.partitions)) for each in topics}


def places_of(states: Mapping[bytes, TopicStates]) -> Iterable[Place]:
    """Yield the partitions."""
    return ((topic_id, index) for topic_id, states in states.items() for index in states.partitions)


def united(states: Mapping[bytes, TopicStates], more: Mapping[bytes, TopicStates]) -> States:
    """Return the partitions of both."""
    found = dict(states)
    for topic_id, (name, partitions) in more.items():
        known = found.get(topic_id)
        found[topic_id] = TopicStates(name, partitions if known is None else known.partitions | partitions)
    return found


def without(states: Mapping[bytes, TopicStates], places: Iterable[Place]) -> States:
    """Return the partitions but for `places`."""
    gone = set(places)
    found: States = {}
    for topic_id, (name, partitions) in states.items():
        left = frozenset(index for index in partitions if (topic_id, index) not in gone)
        if left:
            found[topic_id] = TopicStates(name, left)
    return found
