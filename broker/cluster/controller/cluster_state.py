"""What the controller knows of the cluster: who is alive, where replicas are, who leads. It is read from ZooKeeper at
an election and kept up to date by the controller's own writes and by watches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ....zookeeper.operations import Steps, select
from ..znodes import NO_LEADER, LeaderAndIsr, Registration, Replicas, TopicPartition


@dataclass(slots=True)
class ClusterState:
    """The cluster as the controller of `epoch` knows it."""

    broker_id: int
    epoch: int
    # -- Brokers
    live: dict[int, Registration] = field(default_factory=dict[int, Registration])
    # Brokers that asked for a controlled shutdown: they are alive, but get no leadership any more.
    shutting_down: set[int] = field(default_factory=set[int])
    # -- Topics
    topic_ids: dict[str, bytes] = field(default_factory=dict[str, bytes])
    replicas: dict[TopicPartition, Replicas] = field(default_factory=dict[TopicPartition, Replicas])
    # Invariant: holds only partitions that `replicas` holds. A partition that never had a leader has no entry.
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict[TopicPartition, LeaderAndIsr])
    # Topics whose assignment cannot be read. Nobody can be told of them, and brokers may hold partitions of them.
    unread: set[str] = field(default_factory=set[str])
    # Topics that are to be deleted. Until nothing stands in the way they live on as any other.
    deletions: set[str] = field(default_factory=set[str])
    # Topics whose replicas are being deleted. Invariant: holds only topics that `deletions` holds.
    deleting: set[str] = field(default_factory=set[str])
    # Replicas whose log directory failed: broker and partition.
    failed: set[tuple[int, TopicPartition]] = field(default_factory=set[tuple[int, TopicPartition]])
    # Replicas whose log directory has no room: they can be read, and lead where no other may.
    full: set[tuple[int, TopicPartition]] = field(default_factory=set[tuple[int, TopicPartition]])

    def is_alive(self, broker_id: int, place: TopicPartition) -> bool:
        """Return whether a replica may lead: its broker is alive and stays, and its log directory works."""
        stays = broker_id in self.live and broker_id not in self.shutting_down
        return stays and (broker_id, place) not in self.failed

    def can_write(self, broker_id: int, place: TopicPartition) -> bool:
        """Return whether a replica may lead and has room for records."""
        return self.is_alive(broker_id, place) and (broker_id, place) not in self.full

    def best(self, place: TopicPartition, brokers: Iterable[int]) -> tuple[int, ...]:
        """Return those of `brokers` whose replica can write, in order; where none can, those that are alive."""
        alive = self.alive(place, brokers)
        return tuple(each for each in alive if self.can_write(each, place)) or alive

    def alive(self, place: TopicPartition, brokers: Iterable[int]) -> tuple[int, ...]:
        """Return those of `brokers` whose replica is alive, in order."""
        return tuple(each for each in brokers if self.is_alive(each, place))

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, by index."""
        return sorted(each for each in self.replicas if each.topic == topic)

    def on_broker(self, broker_id: int) -> Steps[list[TopicPartition]]:
        """Return the partitions that have a replica on a broker and are not being deleted."""

        def is_there(place: TopicPartition) -> bool:
            return broker_id in self.replicas[place].replicas and place.topic not in self.deleting

        return (yield from select(self.replicas, is_there))

    def is_led(self, place: TopicPartition) -> bool:
        """Return whether a partition has a leader that is alive."""
        state = self.states.get(place)
        return state is not None and state.leader != NO_LEADER and self.is_alive(state.leader, place)

    def without_leader(self) -> Steps[list[TopicPartition]]:
        """Return the partitions whose leader is dead, or that have none; those of topics in deletion are left out."""
        return (yield from select(self.states, lambda each: each.topic not in self.deleting and not self.is_led(each)))

    def never_led(self) -> Steps[list[TopicPartition]]:
        """Return the partitions that never had a leader, because no replica was alive when they were made."""
        deleting = self.deleting
        return (yield from select(self.replicas, lambda each: each not in self.states and each.topic not in deleting))

    def forget_topic(self, topic: str) -> None:
        """Drop a topic that exists no more."""
        for place in self.partitions_of(topic):
            del self.replicas[place]
            self.states.pop(place, None)
        self.failed = {each for each in self.failed if each[1].topic != topic}
        self.full = {each for each in self.full if each[1].topic != topic}
        self.topic_ids.pop(topic, None)
        self.deletions.discard(topic)
        self.deleting.discard(topic)
