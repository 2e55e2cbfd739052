"""Topics and their records: CreateTopics (key 19), DeleteTopics (20), DeleteRecords (21), CreatePartitions (37)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ...protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ...protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ..descriptions import NewTopic
from ..errors import UnknownTopic, raise_error
from ..metadata import TopicInfo
from ..network.cluster import Cluster
from ..network.leaders import request_from_leaders
from ..record import TopicPartition

_FIRST_TOPIC_STATES = 6  # DeleteTopics 6 takes names or ids


async def create(cluster: Cluster, topics: Iterable[NewTopic], validate_only: bool, timeout_ms: int) -> None:
    """Create topics, or check whether they could be created. Raises the error of the first that fails."""
    request = CreateTopicsRequest([_creatable(topic) for topic in topics], timeout_ms, validate_only)

    async def attempt() -> None:
        response = await cluster.request_controller(request, CreateTopicsResponse)
        for topic in response.topics:
            if ErrorCode.of(topic.error_code) is ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} already exists")
            raise_error(topic.error_code, topic.error_message, f"topic {topic.name!r} was not created")

    await cluster.retry(attempt)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def delete(cluster: Cluster, names: Sequence[str], timeout_ms: int) -> None:
    """Delete topics. Raises UnknownTopic, or the error of the first that fails."""

    async def attempt() -> None:
        connection = await cluster.connection(await cluster.controller())
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
        if connection.version_for(DeleteTopicsRequest) >= _FIRST_TOPIC_STATES:
            request.topics = [DeleteTopicState(name=name) for name in names]
        response = await connection.request(request, DeleteTopicsResponse)
        for topic in response.responses:
            _check_exists(topic.name, topic.error_code)
            raise_error(topic.error_code, topic.error_message, f"topic {topic.name!r} was not deleted")

    await cluster.retry(attempt)


def _check_exists(name: str | None, error_code: int) -> None:
    if ErrorCode.of(error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"topic {name!r} does not exist")


async def names(cluster: Cluster, internal: bool) -> list[str]:
    """Return the names of all topics in order, internal ones only if `internal`."""
    view = await cluster.retry(cluster.all_topics)
    return sorted(name for name, topic in view.topics.items() if internal or not topic.is_internal)


async def describe(cluster: Cluster, names: Sequence[str]) -> dict[str, TopicInfo]:
    """Return partitions, leaders and replicas of these topics, or of all. Raises UnknownTopic."""
    view = await cluster.retry(cluster.all_topics)
    for name in names:
        if name not in view.topics:
            code = view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            is_missing = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            why = "does not exist" if is_missing else f"cannot be described: {code.text}"
            raise UnknownTopic(f"topic {name!r} {why}")
    return {name: view.topics[name] for name in names or sorted(view.topics)}


async def create_partitions(cluster: Cluster, totals: Mapping[str, int], validate_only: bool, timeout_ms: int) -> None:
    """Raise the partition counts of topics to `totals`. Raises the error of the first that fails."""
    topics = [CreatePartitionsTopic(name, count, None) for name, count in totals.items()]
    request = CreatePartitionsRequest(topics, timeout_ms, validate_only)

    async def attempt() -> None:
        response = await cluster.request_controller(request, CreatePartitionsResponse)
        for topic in response.results:
            _check_exists(topic.name, topic.error_code)
            if ErrorCode.of(topic.error_code) is ErrorCode.INVALID_PARTITIONS and topic.error_message:
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, topic.error_message)  # it says all
            raise_error(topic.error_code, topic.error_message, f"topic {topic.name!r} was given no partitions")

    await cluster.retry(attempt)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Delete the records before an offset of each partition. Return the log start offsets."""

    async def request(leader: int, led: Mapping[TopicPartition, int]) -> AsyncIterator[tuple[TopicPartition, int]]:
        response = await cluster.request(leader, _delete_records_request(led, timeout_ms), DeleteRecordsResponse)
        for topic in response.topics:
            for each in topic.partitions:
                raise_error(each.error_code, None, f"no records of {topic.name}-{each.partition_index} were deleted")
                yield TopicPartition(topic.name, each.partition_index), each.low_watermark

    return await request_from_leaders(
        cluster, before, request, lambda partition: f"nobody deletes records of {partition} now"
    )


def _delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (name, number), offset in before.items():
        topic = topics.setdefault(name, DeleteRecordsTopic(name))
        topic.partitions.append(DeleteRecordsPartition(number, offset))
    return DeleteRecordsRequest(list(topics.values()), timeout_ms)
