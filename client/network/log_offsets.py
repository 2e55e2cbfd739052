"""Offsets of the log: where partitions begin and end, and which offset was at a time (ListOffsets, key 2)."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..errors import UnknownTopic
from ..metadata import NO_LEADER
from ..record import OffsetAndTimestamp, TopicPartition
from .cluster import Cluster

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first offset at or after a timestamp (ms), or at an end of the log (LATEST -1, EARLIEST
    -2).

    Leaders are asked, again where they have moved, for `default_api_timeout_ms`. Raises KafkaError, UnknownTopic.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def ask_for_the_rest() -> None:
        rest = {partition: time for partition, time in wanted.items() if partition not in found}
        await know_leaders(cluster, rest)
        for leader, partitions in by_leader(cluster, rest).items():
            question = _question(cluster, partitions, isolation_level)
            answer = await cluster.ask(leader, question, ListOffsetsResponse)
            found.update(_taken(answer))
        missing = [partition for partition in wanted if partition not in found]
        if missing:
            cluster.refresh_soon()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no offset was found for {missing[0]}")

    await cluster.until_done(ask_for_the_rest)
    return found


async def know_leaders(cluster: Cluster, partitions: Mapping[TopicPartition, int]) -> None:
    """Asks for the metadata of these partitions where they are not known. Raises UnknownTopic."""
    for topic in {partition.topic for partition in partitions}:
        await cluster.topic(topic)
    if any(cluster.leader(partition) == NO_LEADER for partition in partitions):
        await cluster.refresh()


def by_leader(cluster: Cluster, partitions: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
    """The partitions by the node that leads them; those without a leader now are left out. Raises UnknownTopic."""
    leaders: dict[int, dict[TopicPartition, int]] = {}
    for partition, time in partitions.items():
        leader = cluster.leader(partition)
        if leader != NO_LEADER:
            leaders.setdefault(leader, {})[partition] = time
        elif cluster.view.partition(partition) is None:
            raise UnknownTopic(f"topic {partition.topic!r} has no partition {partition.partition}")
    return leaders


def _question(cluster: Cluster, partitions: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, number), time in partitions.items():
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        entry.partitions.append(ListOffsetsPartition(partition_index=number, timestamp=time))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=int(cluster.options.request_timeout_ms),
    )


def _taken(answer: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp]:
    """What the leader knew. Partitions with an error that may pass are left out, others raise it."""
    taken: dict[TopicPartition, OffsetAndTimestamp] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            code = ErrorCode.of(each.error_code)
            if code is ErrorCode.NONE:
                taken[partition] = OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            elif not code.retriable:
                raise KafkaError(code, f"{topic.name}-{each.partition_index}: {code.text}")
    return taken
