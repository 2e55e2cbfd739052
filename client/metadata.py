"""What the client knows of the cluster: brokers, topics, who leads which partition. Plain values, replaced as a whole.

`ClusterView` is never changed: each answer to Metadata makes a new one from the last, so whoever holds one sees one
moment. An answer with an older leader epoch than is known for a partition is ignored for that partition: a broker
that lags behind must not send us back to an old leader (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..protocol.errors import ErrorCode
from ..protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from .record import TopicPartition

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: its leader (-1: none now), replicas and the error that Metadata had for it."""

    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic that exists. `topic_id` is all zeros where the broker is too old to give ids."""

    name: str
    topic_id: bytes
    # Invariant: partitions[n].partition == n, whatever order the broker gave them in.
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that is known at one moment."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict[int, Node])
    topics: Mapping[str, TopicInfo] = field(default_factory=dict[str, TopicInfo])
    topic_names: Mapping[bytes, str] = field(default_factory=dict[bytes, str])
    # Topics that were asked for and are not there (or not ready), with the reason.
    errors: Mapping[str, ErrorCode] = field(default_factory=dict[str, ErrorCode])

    def leader(self, partition: TopicPartition) -> int:
        """The node id of the partition's leader, NO_LEADER where none is known."""
        info = self.partition(partition)
        return NO_LEADER if info is None or info.leader not in self.nodes else info.leader

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic, all zeros where it is not known."""
        info = self.topics.get(topic)
        return bytes(16) if info is None else info.topic_id

    def updated(self, answer: MetadataResponse, *, whole: bool) -> ClusterView:
        """This view with an answer taken in. `whole`: the answer is of all topics, so those that it lacks are gone."""
        topics: dict[str, TopicInfo] = {} if whole else dict(self.topics)
        errors: dict[str, ErrorCode] = {} if whole else dict(self.errors)
        for topic in answer.topics:
            if topic.name is None:
                continue  # asked by an id that no topic has
            errors.pop(topic.name, None)
            if topic.error_code:
                errors[topic.name] = ErrorCode.of(topic.error_code)
                topics.pop(topic.name, None)
            else:
                topics[topic.name] = _topic(topic, self.topics.get(topic.name))
        return ClusterView(
            answer.cluster_id,
            answer.controller_id,
            {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in answer.brokers},
            topics,
            {topic.topic_id: topic.name for topic in topics.values()},
            errors,
        )


def _topic(answer: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    """The topic as the answer has it, but for partitions whose known leader is of a newer epoch."""
    assert answer.name is not None
    before = known.partitions if known is not None and known.topic_id == answer.topic_id else ()
    partitions: dict[int, PartitionInfo] = {}
    for each in answer.partitions:
        number = each.partition_index
        info = PartitionInfo(
            number,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            ErrorCode.of(each.error_code),
        )
        older = number < len(before) and -1 < each.leader_epoch < before[number].leader_epoch
        partitions[number] = before[number] if older else info
    absent = PartitionInfo(-1, NO_LEADER, error=ErrorCode.LEADER_NOT_AVAILABLE)
    count = max(partitions, default=-1) + 1
    return TopicInfo(
        answer.name,
        answer.topic_id,
        tuple(partitions.get(number) or replace(absent, partition=number) for number in range(count)),
        answer.is_internal,
    )
