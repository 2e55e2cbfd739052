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
from ..errors import results_of
from ..record import OffsetAndTimestamp, TopicPartition
from .arguments import whole_number
from .cluster import Cluster
from .leaders import request_from_leaders

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
_CONSUMER = -1
# Replicas that are not the leader's answer only to it.
_DEBUGGING_CONSUMER = -2
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset at or after a timestamp (ms), or an end of its log (LATEST, EARLIEST).

    Retries for `default_api_timeout_ms`. Raises UnknownTopic, KafkaError, ItemsFailed if some of several partitions
    fail.
    """

    async def request(
        leader: int, led: Mapping[TopicPartition, int]
    ) -> AsyncIterator[tuple[TopicPartition, OffsetAndTimestamp | KafkaError]]:
        response = await cluster.request(leader, _request(cluster, led, isolation_level), ListOffsetsResponse)
        for found in _offsets(response):
            yield found

    found = await request_from_leaders(
        cluster, timestamps, request, lambda partition: f"no offset was found for {partition}"
    )
    return results_of(found)


async def list_replica_offsets(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Ask a broker for the offsets of its own replicas, which reach to the end of its log; once.

    Raises ConnectionLost, KafkaError, ItemsFailed if some of several partitions fail.
    """
    request = _request(cluster, timestamps, READ_UNCOMMITTED, _DEBUGGING_CONSUMER)
    response = await cluster.request(node_id, request, ListOffsetsResponse)
    return results_of(dict(_offsets(response)))


def _request(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int, replica_id: int = _CONSUMER
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, number), timestamp in timestamps.items():
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        time_ms = whole_number(timestamp, "a time, or LATEST or EARLIEST,")
        topic.partitions.append(ListOffsetsPartition(partition_index=number, timestamp=time_ms))
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=list(topics.values()),
        timeout_ms=int(cluster.options.request_timeout_ms),
    )


def _offsets(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KafkaError]]:
    """Yield the offset of each partition in a response, or its error."""
    for topic in response.topics:
        for each in topic.partitions:
            code = ErrorCode.of(each.error_code)
            partition = TopicPartition(topic.name, each.partition_index)
            if code is ErrorCode.NONE:
                yield partition, OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            else:
                yield partition, KafkaError(code, f"{topic.name}-{each.partition_index}: {code.text}")
