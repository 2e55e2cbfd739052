"""Requests to the leaders of many partitions: grouped by leader, retried where leaders have moved."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..errors import ConnectionLost, UnknownTopic
from ..record import TopicPartition
from .cluster import Cluster
from .metadata import NO_LEADER

W = TypeVar("W")
F = TypeVar("F")


async def request_from_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    request: Callable[[int, Mapping[TopicPartition, W]], AsyncIterator[tuple[TopicPartition, F | KafkaError]]],
    missing_text: Callable[[TopicPartition], str],
) -> dict[TopicPartition, F | KafkaError]:
    """Return what the leaders of `wanted` say of each partition: a result, or an error that is not retriable.

    `request` sends the partitions of one leader to its node id and yields what became of each. Partitions that it
    leaves out, or that have a retriable error, are requested again until `default_api_timeout_ms` is over. Raises
    UnknownTopic, and for a partition without a result its last error, or KafkaError with `missing_text`.
    """
    found: dict[TopicPartition, F | KafkaError] = {}
    last_errors: dict[TopicPartition, KafkaError] = {}

    async def request_the_rest() -> None:
        rest = {partition: value for partition, value in wanted.items() if partition not in found}
        await know_leaders(cluster, rest)
        try:
            for leader, partitions in group_by_leader(cluster, rest).items():
                async for partition, value in request(leader, {partition: rest[partition] for partition in partitions}):
                    if isinstance(value, KafkaError) and value.retriable:
                        last_errors[partition] = value
                    else:
                        found[partition] = value
        except ConnectionLost:
            # Another broker may lead by now.
            await cluster.learn({partition.topic for partition in rest})
            raise
        missing = [partition for partition in wanted if partition not in found]
        if missing:
            await cluster.learn({partition.topic for partition in missing})
            nobody = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, missing_text(missing[0]))
            raise last_errors.get(missing[0], nobody)

    await cluster.retry(request_the_rest)
    return found


async def know_leaders(cluster: Cluster, partitions: Collection[TopicPartition]) -> None:
    """Request the metadata of these partitions where a leader is not known. Raises UnknownTopic."""
    topics = {partition.topic for partition in partitions}
    for topic in topics:
        await cluster.topic(topic)
    if any(cluster.leader(partition) == NO_LEADER for partition in partitions):
        await cluster.learn(topics)


def group_by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Return the partitions by their leader's node id, without those that have no leader. Raises UnknownTopic."""
    leaders: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        leader = cluster.leader(partition)
        if leader != NO_LEADER:
            leaders.setdefault(leader, []).append(partition)
        elif cluster.view.partition(partition) is None:
            raise UnknownTopic(f"topic {partition.topic!r} has no partition {partition.partition}")
    return leaders
