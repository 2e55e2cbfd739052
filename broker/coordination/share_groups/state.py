"""The state of one share group (KIP-932), beside what it shares with consumer groups (../modern/state.py).

The epoch grows also when the partitions that are ready change. Several members may have the same partition. A member
goes to its target in one step, because records are handed out one by one and nobody owns a partition.

A partition is ready for members once the share coordinator has a state of it (`initialized`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ....protocol.messages import share_group_records as kafka
from ..groups.records import PartRecord
from ..modern import state as modern
from ..modern.state import ModernGroup, Place, places_in


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
class Member(modern.Member[kafka.ShareGroupMemberMetadataValue, Current]):
    """A member of a share group."""

    current: Current = _NOWHERE


class ShareGroup(ModernGroup[Member]):
    """One share group, and its partitions that are ready. Only `apply` changes it, but for what is not kept."""

    def __init__(self) -> None:
        super().__init__(Member)
        # Partitions of which the share coordinator is asked for states, has states, and topics whose states go.
        self.initializing: States = {}
        self.initialized: States = {}
        self.deleting: dict[bytes, str] = {}
        # Whether the log has a record of these, which may be empty.
        self.states_recorded = False
        # Not kept: the number of changes of topics for which all that is subscribed was ready and in the target.
        self.complete_changes = -1

    @property
    def state(self) -> GroupState:
        """The state that ListGroups and ShareGroupDescribe show."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def is_blank(self) -> bool:
        """Return whether nothing would be lost without this group."""
        return not (self.members or self.recorded or self.states_recorded)

    def places(self) -> set[Place]:
        """Return every partition of which there is a state, or may be."""
        return {*places_of(self.initializing), *places_of(self.initialized)}

    # -- Records

    def apply(self, record: PartRecord) -> None:
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
                self.states_recorded = record.value is not None
                self._apply_states(record.value or kafka.ShareGroupStatePartitionMetadataValue())
            case _:
                raise AssertionError(record)

    def _apply_current(self, member_id: str, value: kafka.ShareGroupCurrentMemberAssignmentValue | None) -> None:
        if value is not None:
            assigned = frozenset(places_in(value.assigned_partitions))
            self._member(member_id).current = Current(value.member_epoch, value.previous_member_epoch, assigned)
        elif member_id in self.members:
            self.members[member_id].current = _NOWHERE

    def _apply_states(self, value: kafka.ShareGroupStatePartitionMetadataValue) -> None:
        self.initializing = _states(value.initializing_topics)
        self.initialized = _states(value.initialized_topics)
        self.deleting = {each.topic_id: each.topic_name for each in value.deleting_topics}


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
