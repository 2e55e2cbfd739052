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


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as the leader sees it.

    `owned` is what the member says it holds at the time of the join (subscription version 1 and up), empty for eager
    strategies; `user_data` is the strategy's own and opaque to everybody else.
    """

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None

    @property
    def rank(self) -> tuple[int, str]:
        """The order in which Kafka's assignors serve members.

        Static ones by instance id, then the others by member id.
        """
        return (1, self.member_id) if self.group_instance_id is None else (0, self.group_instance_id)


class Assignor(ABC):
    """A strategy by name. `name` is what goes over the wire: all members of a group must have one in common."""

    name: ClassVar[str]

    @abstractmethod
    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        """Member id to its partitions; every member appears, if only with an empty list.

        `partitions` maps each topic that exists to its number of partitions; a subscribed topic that is not in it is
        left out.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """What this member tells the leader besides its topics, in the strategy's own format."""
        return None
