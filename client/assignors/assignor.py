"""The common type of all assignors: who gets which partition, as a pure function.

An assignor sees the members of a group with the topics that each subscribes, and how many partitions each topic has.
It gives every partition of a subscribed topic to exactly one member that subscribes it. The leader of a group runs it
(JoinGroup tells who leads), SyncGroup carries the result. Nothing in here waits, reads a clock or draws a random
number: the same input gives the same result on every machine, which is what lets Kafka's other clients share a group
with ours.

Custom strategies subclass `Assignor`, and are named by class in `Consumer(partition_assignment_strategy=[...])`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..record import TopicPartition

# The generation of a member that was in none yet, or that does not say.
NO_GENERATION = -1
# Topic -> for each of its partitions, in order, the racks that hold a replica of it. Topics may be missing.
Racks = Mapping[str, Sequence[frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as the leader sees it.

    `owned` is what the member says it holds at the time of the join (subscription version 1 and up), empty for eager
    strategies, and `generation_id` the generation it was given that in (version 2 and up, KIP-792; -1: not said).
    `user_data` is the strategy's own and opaque to everybody else; `rack_id` says where the member runs (version 3,
    KIP-881).
    """

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
    generation_id: int = NO_GENERATION
    rack_id: str | None = None

    @property
    def rank(self) -> tuple[int, str]:
        """The order in which Kafka's assignors serve members.

        Static ones by instance id, then the others by member id.
        """
        return (1, self.member_id) if self.group_instance_id is None else (0, self.group_instance_id)


class Assignor(ABC):
    """A strategy by name. `name` is what goes over the wire: all members of a group must have one in common."""

    name: ClassVar[str]
    # Members keep their partitions through a rebalance and give up only those that they lose (KIP-429).
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        """Member id to its partitions; every member appears, if only with an empty list.

        `partitions` maps each topic that exists to its number of partitions; a subscribed topic that is not in it is
        left out.
        """

    def assign_with_racks(
        self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        """`assign` for those who know where replicas lie (KIP-881); strategies that do not look at racks stay as they
        are. What a leader calls."""
        return self.assign(members, partitions)

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition] = (), generation_id: int = NO_GENERATION
    ) -> bytes | None:
        """What this member tells the leader besides its topics, in the strategy's own format.

        `previous` is what it was given last, in generation `generation_id`; NO_GENERATION: nothing yet.
        """
        return None
