"""The log directories of brokers: DescribeLogDirs (key 35, sizes KIP-827), AlterReplicaLogDirs (34), KIP-113."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ..core.cluster import Cluster
from ..errors import raise_error
from ..record import TopicPartition
from .items import for_items, item_result

_UNKNOWN_SIZE = -1


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition in a directory. `offset_lag` is its lag in offsets; `is_future` says that it is moving in."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker.

    `error` says why it cannot be used; sizes are those of its volume, None if the broker is too old for them.
    """

    node_id: int
    path: str
    error: ErrorCode | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[Replica, ...]

    @property
    def size_bytes(self) -> int:
        """The total size of `replicas`."""
        return sum(each.size_bytes for each in self.replicas)


async def describe(
    cluster: Cluster, node_ids: Collection[int], partitions: Collection[TopicPartition] | None
) -> list[LogDir]:
    """Return the log directories of these brokers, or of all. Raises BROKER_NOT_AVAILABLE for an unknown broker."""
    return await cluster.retry(lambda: _describe_once(cluster, node_ids, partitions))


async def _describe_once(
    cluster: Cluster, node_ids: Collection[int], partitions: Collection[TopicPartition] | None
) -> list[LogDir]:
    await cluster.refresh()
    unknown = sorted(set(node_ids) - set(cluster.view.nodes))
    if unknown:
        there = ", ".join(map(str, sorted(cluster.view.nodes)))
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {unknown[0]}; there are {there}")
    request = DescribeLogDirsRequest(None if partitions is None else _by_topic(partitions))
    found: list[LogDir] = []
    for node_id in sorted(node_ids or cluster.view.nodes):
        connection = await cluster.connection(node_id)
        response = await connection.request(request, DescribeLogDirsResponse)
        raise_error(response.error_code, None, f"{connection.address} cannot describe its data directories")
        found += [_log_dir(node_id, each) for each in sorted(response.results, key=lambda each: each.log_dir)]
    return found


def _by_topic(partitions: Collection[TopicPartition]) -> list[DescribableLogDirTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [DescribableLogDirTopic(topic, numbers) for topic, numbers in topics.items()]


def _log_dir(node_id: int, result: DescribeLogDirsResult) -> LogDir:
    replicas = [
        Replica(
            TopicPartition(topic.name, each.partition_index), each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in result.topics
        for each in topic.partitions
    ]
    return LogDir(
        node_id,
        result.log_dir,
        ErrorCode.of(result.error_code) if result.error_code else None,
        None if result.total_bytes == _UNKNOWN_SIZE else result.total_bytes,
        None if result.usable_bytes == _UNKNOWN_SIZE else result.usable_bytes,
        tuple(sorted(replicas, key=lambda each: each.partition)),
    )


# A replica: the broker's node id, and the partition.
ReplicaKey = tuple[int, TopicPartition]


async def move(cluster: Cluster, moves: Mapping[ReplicaKey, str]) -> None:
    """Begin to move replicas to other directories of their brokers; `describe` shows when they are there."""

    async def attempt(keys: list[ReplicaKey]) -> dict[ReplicaKey, KafkaError | None]:
        found: dict[ReplicaKey, KafkaError | None] = {}
        for node_id in sorted({node_id for node_id, _ in keys}):
            wanted = [partition for node, partition in keys if node == node_id]
            found |= await _move_on(cluster, node_id, {partition: moves[node_id, partition] for partition in wanted})
        return found

    await for_items(cluster, moves, attempt)


async def _move_on(
    cluster: Cluster, node_id: int, wanted: Mapping[TopicPartition, str]
) -> dict[ReplicaKey, KafkaError | None]:
    dirs: dict[str, AlterReplicaLogDir] = {}
    for path in wanted.values():
        some = [partition for partition, its_path in wanted.items() if its_path == path]
        topics = [AlterReplicaLogDirTopic(each.topic, each.partitions) for each in _by_topic(some)]
        dirs[path] = AlterReplicaLogDir(path, topics)
    request = AlterReplicaLogDirsRequest(list(dirs.values()))
    try:
        response = await cluster.request(node_id, request, AlterReplicaLogDirsResponse)
    except KafkaError as error:
        return {(node_id, partition): error for partition in wanted}
    return {
        (node_id, TopicPartition(topic.topic_name, each.partition_index)): item_result(
            None,
            each.error_code,
            None,
            f"{topic.topic_name}-{each.partition_index} of broker {node_id} was not moved",
        )
        for topic in response.results
        for each in topic.partitions
    }
