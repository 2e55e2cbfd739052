"""Where brokers keep their partitions: DescribeLogDirs (key 35), asked of each broker (KIP-113, sizes KIP-827)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ..errors import refuse
from ..network.cluster import Cluster
from ..record import TopicPartition

NOT_TOLD = -1


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in a directory. `offset_lag` is how far it is behind; `is_future` says that it is moving in."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A data directory of a broker. `error` says why it cannot be used; sizes are of its volume, None where the broker
    is too old to tell."""

    node_id: int
    path: str
    error: ErrorCode | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[Replica, ...]

    @property
    def size_bytes(self) -> int:
        """What the partitions take that were asked for."""
        return sum(each.size_bytes for each in self.replicas)


async def describe(
    cluster: Cluster, node_ids: Collection[int], partitions: Collection[TopicPartition] | None
) -> list[LogDir]:
    """Once: of these brokers, or of all. BROKER_NOT_AVAILABLE for one that is not there."""
    await cluster.refresh()
    unknown = sorted(set(node_ids) - set(cluster.view.nodes))
    if unknown:
        there = ", ".join(map(str, sorted(cluster.view.nodes)))
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {unknown[0]}; there are {there}")
    question = DescribeLogDirsRequest(None if partitions is None else _by_topic(partitions))
    found: list[LogDir] = []
    for node_id in sorted(node_ids or cluster.view.nodes):
        connection = await cluster.connection(node_id)
        answer = await connection.request(question, DescribeLogDirsResponse)
        refuse(answer.error_code, None, f"{connection.address} cannot describe its data directories")
        found += [_log_dir(node_id, each) for each in sorted(answer.results, key=lambda each: each.log_dir)]
    return found


def _by_topic(partitions: Collection[TopicPartition]) -> list[DescribableLogDirTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [DescribableLogDirTopic(topic, numbers) for topic, numbers in topics.items()]


def _log_dir(node_id: int, told: DescribeLogDirsResult) -> LogDir:
    replicas = [
        Replica(
            TopicPartition(topic.name, each.partition_index), each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in told.topics
        for each in topic.partitions
    ]
    return LogDir(
        node_id,
        told.log_dir,
        ErrorCode.of(told.error_code) if told.error_code else None,
        None if told.total_bytes == NOT_TOLD else told.total_bytes,
        None if told.usable_bytes == NOT_TOLD else told.usable_bytes,
        tuple(sorted(replicas, key=lambda each: each.partition)),
    )
