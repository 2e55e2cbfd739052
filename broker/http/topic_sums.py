"""Sums over partitions: by topic for those that have metrics of their own, and over the whole broker.

They are made some partitions a turn of the event loop, so a broker of very many partitions serves its clients
meanwhile. A topic that is deleted between two turns is summed as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..services import Services
from ..topics.partition import Partition, RemotePartition

# The label of all topics, or groups, beyond the bound. A topic cannot have a blank in its name.
OTHERS = "(all others)"


@dataclass(slots=True)
class TopicSum:
    """The sums of a topic, or of all topics beyond metrics.max.topics."""

    name: str
    partitions: int = 0
    bytes_in: int = 0
    records_in: int = 0
    bytes_out: int = 0
    log_bytes: int = 0

    def add(self, partition: Partition) -> None:
        """Add a partition. One without a log, here or at all, adds nothing but itself."""
        self.partitions += 1
        received = partition.received
        self.bytes_in += received.size
        self.records_in += received.records
        self.bytes_out += partition.bytes_out
        if partition.is_online:
            self.log_bytes += partition.log.size_bytes


@dataclass(slots=True)
class BrokerSums:
    """The sums of a broker, complete once every step of `sum_topics` was taken."""

    topics: list[TopicSum] = field(default_factory=list[TopicSum])
    # Topics in the last of these rows.
    summed: int = 0
    held: int = 0
    led: int = 0
    offline: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    damaged_places: int = 0

    def note(self, partition: Partition) -> None:
        """Count a partition of this broker by its state."""
        if partition.is_online:
            self.held += 1
            self.damaged_places += partition.log.damaged_places
            self.led += partition.not_leading is None
        elif not isinstance(partition, RemotePartition):
            self.offline += 1


def sum_topics(services: Services, sums: BrokerSums) -> Iterator[str]:
    """Fill `sums`, a part in each step. Yields no text."""
    most, others = services.config.metrics_max_topics, TopicSum(OTHERS)
    for number, topic in enumerate(services.topics.all()):
        row = others if number >= most else TopicSum(topic.name)
        sums.summed += row is others
        if row is not others:
            sums.topics.append(row)
        # As they are now: a deletion or growth in a later turn changes the topic's own list.
        for partition in list(topic.partitions):
            row.add(partition)
            sums.note(partition)
            yield ""
    if sums.summed:
        sums.topics.append(others)
    yield from _sum_replicas(services, sums)


def _sum_replicas(services: Services, sums: BrokerSums) -> Iterator[str]:
    if services.replicas is None:
        return
    for replica in services.replicas.all():
        leadership = replica.leadership
        if leadership is not None:
            sums.under_replicated += len(leadership.isr) < len(replica.role.replicas)
            sums.under_min_isr += leadership.is_under_min_isr
        yield ""
