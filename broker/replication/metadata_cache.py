"""The metadata cache: brokers, controller and partitions of the cluster, as the controller has told (UpdateMetadata).

Metadata answers from it. It may lag behind the controller for a moment. A client with old metadata is told so by the
broker that it asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...protocol.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest
from .leadership import NO_LEADER

# The leader of a partition that the controller deletes (Kafka's LeaderDuringDelete).
DELETED = -2


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One live broker. `endpoints` maps the name of a listener to its advertised host and port."""

    id: int
    endpoints: dict[str, tuple[str, int]]
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The state of one partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...]
    # zkVersion.
    partition_epoch: int


@dataclass(slots=True)
class TopicView:
    """A topic and its partitions by index."""

    name: str
    id: bytes
    partitions: dict[int, PartitionView]


class MetadataCache:
    """What the last UpdateMetadata requests said, together."""

    def __init__(self) -> None:
        self.controller_id = NO_LEADER
        self.brokers: dict[int, BrokerView] = {}
        self.topics: dict[str, TopicView] = {}
        self._next_update = asyncio.Event()

    async def updated(self) -> None:
        """Wait for the next update."""
        await self._next_update.wait()

    def update(self, request: UpdateMetadataRequest, gone: Iterable[str] = ()) -> Iterator[None]:
        """Take over a request of the present controller: all live brokers, and the partitions that it names.

        The topics `gone` were deleted while this broker was not registered. Each step takes over a partition;
        others may have their turn between two of them.
        """
        self.controller_id = request.controller_id
        self.brokers = {each.id: _broker(each) for each in request.live_brokers}
        for topic in request.topic_states:
            known = self.topics.get(topic.topic_name)
            if known is None or known.id != topic.topic_id:
                known = self.topics[topic.topic_name] = TopicView(topic.topic_name, topic.topic_id, {})
            for each in topic.partition_states:
                yield
                if each.leader == DELETED:
                    known.partitions.pop(each.partition_index, None)
                    continue
                known.partitions[each.partition_index] = PartitionView(
                    each.leader,
                    each.leader_epoch,
                    tuple(each.isr),
                    tuple(each.replicas),
                    tuple(each.offline_replicas),
                    each.zk_version,
                )
            if not known.partitions:
                del self.topics[topic.topic_name]
            yield
        for name in gone:
            self.topics.pop(name, None)
        self._next_update.set()
        self._next_update = asyncio.Event()

    def partition(self, topic: str, index: int) -> PartitionView | None:
        """Return the state of a partition, None if there is none of that name."""
        known = self.topics.get(topic)
        return known.partitions.get(index) if known is not None else None

    def leader_id(self, topic: str, index: int) -> int | None:
        """Return the number of the live leader of a partition, None while there is none."""
        leader = self.leader(topic, index)
        return None if leader is None else leader.id

    def leader(self, topic: str, index: int) -> BrokerView | None:
        """Return the live leader of a partition, None while there is none."""
        found = self.partition(topic, index)
        return self.brokers.get(found.leader) if found is not None else None


def _broker(broker: UpdateMetadataBroker) -> BrokerView:
    endpoints = {each.listener: (each.host, each.port) for each in broker.endpoints}
    return BrokerView(broker.id, endpoints, broker.rack or None)
