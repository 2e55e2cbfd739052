"""The metadata of a cluster: brokers, topics, partitions and their leaders.

A `ClusterView` never changes: each Metadata response makes a new view from the last one. A response that has an older
leader epoch for a partition than the view is ignored for that partition, because a broker that lags behind must not
send the client back to an old leader (KIP-320).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ..errors import BadResponse, UnknownTopic, raise_error
from ..record import TopicPartition

NO_LEADER = -1
# Partitions that a broker may not know yet while their topic is being made.
_MOST_GAPS = 10_000


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and the address at which clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: its leader (-1: none now), its replicas and its error in the Metadata response."""

    partition: int
    leader: int
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic that exists. `topic_id` is all zeros if the broker is too old for ids."""

    name: str
    topic_id: bytes
    # Invariant: partitions[n].partition == n
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The brokers and topics known at one moment."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict[int, Node])
    topics: Mapping[str, TopicInfo] = field(default_factory=dict[str, TopicInfo])
    topic_names: Mapping[bytes, str] = field(default_factory=dict[bytes, str])
    # Requested topics that do not exist or are not ready, with the reason.
    errors: Mapping[str, ErrorCode] = field(default_factory=dict[str, ErrorCode])

    def leader(self, partition: TopicPartition) -> int:
        """Return the node id of the partition's leader, NO_LEADER if none is known."""
        info = self.partition(partition)
        return NO_LEADER if info is None or info.leader not in self.nodes else info.leader

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        """Return what is known of a partition, None if it is not known to exist."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def check_topic(self, topic: str) -> None:
        """Raise UnknownTopic, or the error of the Metadata response, if it said that there is no such topic."""
        code = self.errors.get(topic, ErrorCode.NONE)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(f"topic '{topic}' does not exist")
        raise_error(code, None, f"topic '{topic}'")

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, all zeros if it is not known."""
        info = self.topics.get(topic)
        return bytes(16) if info is None else info.topic_id

    def without(self, topics: Collection[str]) -> ClusterView:
        """Return this view without some topics."""
        left = {name: info for name, info in self.topics.items() if name not in topics}
        errors = {name: code for name, code in self.errors.items() if name not in topics}
        return replace(self, topics=left, topic_names=_names(left), errors=errors)

    def updated(self, response: MetadataResponse, *, whole: bool) -> ClusterView:
        """Return this view updated with a response.

        `whole` says that the response covers all topics: a topic that it lacks no longer exists.
        """
        topics: dict[str, TopicInfo] = {} if whole else dict(self.topics)
        errors: dict[str, ErrorCode] = {} if whole else dict(self.errors)
        for topic in response.topics:
            if topic.name is None:
                continue  # the request named an id that no topic has
            errors.pop(topic.name, None)
            if topic.error_code:
                errors[topic.name] = ErrorCode.of(topic.error_code)
                topics.pop(topic.name, None)
            else:
                topics[topic.name] = _topic(topic, self.topics.get(topic.name))
        return ClusterView(
            response.cluster_id,
            response.controller_id,
            {
                broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            },
            topics,
            _names(topics),
            errors,
        )


def _names(topics: Mapping[str, TopicInfo]) -> dict[bytes, str]:
    return {topic.topic_id: topic.name for topic in topics.values()}


def _topic(topic: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    """Return the topic of a response, but keep known partitions whose leader epoch is newer."""
    assert topic.name is not None
    before = known.partitions if known is not None and known.topic_id == topic.topic_id else ()
    partitions: dict[int, PartitionInfo] = {}
    count = max((each.partition_index for each in topic.partitions), default=-1) + 1
    if count > len(topic.partitions) + _MOST_GAPS or any(each.partition_index < 0 for each in topic.partitions):
        raise BadResponse(f"the metadata of topic {topic.name!r} name a partition that cannot be, beside {count - 1}")
    for each in topic.partitions:
        number = each.partition_index
        older = number < len(before) and -1 < each.leader_epoch < before[number].leader_epoch
        partitions[number] = before[number] if older else _partition(each)
    absent = PartitionInfo(-1, NO_LEADER, error=ErrorCode.LEADER_NOT_AVAILABLE)
    return TopicInfo(
        topic.name,
        topic.topic_id,
        tuple(partitions.get(number) or replace(absent, partition=number) for number in range(count)),
        topic.is_internal,
    )


def _partition(partition: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        ErrorCode.of(partition.error_code),
    )
