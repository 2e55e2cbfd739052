"""A broker of the controller's simulation: what it was told, what it has files of, and its controller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import BecomeLeaderOrFollower, PartitionUpdate, TellMetadata
from odradek.broker.cluster.controller.requests import _type
from odradek.broker.cluster.znodes import LEADER_DURING_DELETE, TopicPartition
from odradek.broker.replication.named_partitions import FullNames
from odradek.broker.replication.replicas import FULL as FULL_ROLES
from odradek.protocol.messages.update_metadata import FULL as FULL_METADATA
from odradek.zookeeper.operations import Steps


@dataclass
class Node:
    """A broker: what it was told as a replica, and its controller while it is elected."""

    broker_id: int
    session: int = 0
    is_alive: bool = True
    # A paused process: it does nothing, and its session may expire meanwhile.
    is_paused: bool = False
    broker_epoch: int = -1
    controller_epoch: int = 0
    roles: dict[TopicPartition, PartitionUpdate] = field(default_factory=dict[TopicPartition, PartitionUpdate])
    metadata: dict[TopicPartition, PartitionUpdate] = field(default_factory=dict[TopicPartition, PartitionUpdate])
    # The brokers that it was told are alive.
    brokers: set[int] = field(default_factory=set[int])
    # Whether it could not take note of the last message that told it so.
    has_missed: bool = False
    # Replicas whose disk has failed, until the next start.
    offline: set[TopicPartition] = field(default_factory=set[TopicPartition])
    # Whether its disk has no room: it says so of every replica.
    is_full: bool = False
    # Replicas that it has files of, and those whose files it gave up though it has to delete them. Starts keep both.
    held: set[TopicPartition] = field(default_factory=set[TopicPartition])
    left_over: set[TopicPartition] = field(default_factory=set[TopicPartition])
    # What the pieces of full messages have named until now.
    named_roles: FullNames[TopicPartition] = field(default_factory=lambda: FullNames[TopicPartition](FULL_ROLES))
    named_topics: FullNames[str] = field(default_factory=lambda: FullNames[str](FULL_METADATA))
    # -- As a controller
    machine: ControllerMachine | None = None
    fence: int | None = None
    steps: Steps[Any] | None = None
    result: Any = None
    asked: deque[Callable[[ControllerMachine], Steps[Any]]] = field(
        default_factory=deque[Callable[["ControllerMachine"], Steps[Any]]]
    )
    must_stand: bool = True

    def take_metadata(self, message: TellMetadata) -> None:
        """Take note of who is alive, and of the leaders of partitions."""
        self.brokers, self.has_missed = {each.broker_id for each in message.brokers}, False
        deleted = {each.place for each in message.updates if each.state.leader == LEADER_DURING_DELETE}
        self.metadata |= {each.place: each for each in message.updates}
        topics = {each.place.topic for each in message.updates}
        named = self.named_topics.take(_type(message, FULL_METADATA), topics)
        if named is not None:
            deleted |= {each for each in self.metadata if each.topic not in named}
        for each in deleted:
            self.metadata.pop(each, None)

    def named_by(self, message: BecomeLeaderOrFollower) -> set[TopicPartition] | None:
        """Return every replica that the broker has, where this message completes a full one."""
        return self.named_roles.take(_type(message, FULL_ROLES), {each.place for each in message.updates})

    def lose_pieces(self) -> None:
        """Forget the pieces of full messages, because one was not carried out."""
        self.named_roles, self.named_topics = FullNames(FULL_ROLES), FullNames(FULL_METADATA)

    def end_process(self) -> None:
        """Lose what is not on the disk."""
        self.roles.clear()
        self.metadata.clear()
        self.brokers.clear()
        self.lose_pieces()
        self.controller_epoch = 0
