"""Offsets of logs: where partitions begin and end, and the offset of a point in time (ListOffsets, key 2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..record import OffsetAndTimestamp, TopicPartition
from .cluster import Cluster
from .leaders import request_from_leaders

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset at or after a timestamp (ms), or an end of its log (LATEST, EARLIEST).

    Retries for `default_api_timeout_ms`. Raises KafkaError, UnknownTopic.
    """

    async def request(
        leader: int, led: Mapping[TopicPartition, int]
    ) -> AsyncIterator[tuple[TopicPartition, OffsetAndTimestamp]]:
        response = await cluster.request(leader, _request(cluster, led, isolation_level), ListOffsetsResponse)
        for found in _offsets(response):
            yield found

    return await request_from_leaders(
        cluster, timestamps, request, lambda partition: f"no offset was found for {partition}"
    )


def _request(cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, number), timestamp in timestamps.items():
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=number, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=int(cluster.options.request_timeout_ms),
    )


def _offsets(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp]]:
    """Yield the offsets in a response without partitions that have a retriable error. Raises the other errors."""
    for topic in response.topics:
        for each in topic.partitions:
            code = ErrorCode.of(each.error_code)
            if code is ErrorCode.NONE:
                partition = TopicPartition(topic.name, each.partition_index)
                yield partition, OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            elif not code.retriable:
                raise KafkaError(code, f"{topic.name}-{each.partition_index}: {code.text}")
