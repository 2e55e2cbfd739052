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
from ..core.cluster import Cluster
from ..core.descriptions import NewTopic
from ..core.leaders import request_from_leaders
from ..core.metadata import ClusterView, TopicInfo
from ..errors import UnknownTopic, results_of
from ..record import TopicPartition
from .configs import check_config
from .items import for_items, item_result

_FIRST_TOPIC_STATES = 6  # DeleteTopics 6 takes names or ids


async def create(cluster: Cluster, topics: Iterable[NewTopic], validate_only: bool, timeout_ms: int) -> None:
    """Create topics, or check whether they could be created."""
    wanted = {topic.name: _creatable(topic) for topic in topics}

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        request = CreateTopicsRequest([wanted[name] for name in names], timeout_ms, validate_only)
        response = await cluster.request_controller(request, CreateTopicsResponse)
        return {each.name: _created(each.name, each.error_code, each.error_message) for each in response.topics}

    await for_items(cluster, wanted, attempt)


def _created(name: str, code: int, message: str | None) -> KafkaError | None:
    if ErrorCode.of(code) is ErrorCode.TOPIC_ALREADY_EXISTS:
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    return item_result(None, code, message, f"topic {name!r} was not created")


def _creatable(topic: NewTopic) -> CreatableTopic:
    for name, value in topic.configs.items():
        check_config(name, value)
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
    """Delete topics. Raises UnknownTopic."""

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        connection = await cluster.connection(await cluster.controller())
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
        if connection.version_for(DeleteTopicsRequest) >= _FIRST_TOPIC_STATES:
            request.topics = [DeleteTopicState(name=name) for name in names]
        response = await connection.request(request, DeleteTopicsResponse)
        return {
            each.name or "": _missing(each.name, each.error_code)
            or item_result(None, each.error_code, each.error_message, f"topic {each.name!r} was not deleted")
            for each in response.responses
        }

    await for_items(cluster, names, attempt)


def _missing(name: str | None, error_code: int) -> UnknownTopic | None:
    if ErrorCode.of(error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"topic {name!r} does not exist")
    return None


async def names(cluster: Cluster, internal: bool) -> list[str]:
    """Return the names of all topics in order, internal ones only if `internal`."""
    view = await cluster.retry(cluster.all_topics)
    return sorted(name for name, topic in view.topics.items() if internal or not topic.is_internal)


async def describe(cluster: Cluster, names: Sequence[str]) -> dict[str, TopicInfo]:
    """Return partitions, leaders and replicas of these topics, or of all. Raises UnknownTopic."""
    view = await cluster.retry(cluster.all_topics)
    return results_of({name: _described(view, name) for name in names or sorted(view.topics)})


def _described(view: ClusterView, name: str) -> TopicInfo | KafkaError:
    found = view.topics.get(name)
    if found is not None:
        return found
    code = view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _missing(name, code) or KafkaError(code, f"topic {name!r} cannot be described: {code.text}")


async def create_partitions(cluster: Cluster, totals: Mapping[str, int], validate_only: bool, timeout_ms: int) -> None:
    """Raise the partition counts of topics to `totals`."""

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        topics = [CreatePartitionsTopic(name, totals[name], None) for name in names]
        request = CreatePartitionsRequest(topics, timeout_ms, validate_only)
        response = await cluster.request_controller(request, CreatePartitionsResponse)
        return {each.name: _grown(each.name, each.error_code, each.error_message) for each in response.results}

    await for_items(cluster, totals, attempt)


def _grown(name: str, code: int, message: str | None) -> KafkaError | None:
    if ErrorCode.of(code) is ErrorCode.INVALID_PARTITIONS and message:
        return KafkaError(ErrorCode.INVALID_PARTITIONS, message)  # it says all
    return _missing(name, code) or item_result(None, code, message, f"topic {name!r} was given no partitions")


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Delete the records before an offset of each partition. Return the log start offsets."""

    async def request(
        leader: int, led: Mapping[TopicPartition, int]
    ) -> AsyncIterator[tuple[TopicPartition, int | KafkaError]]:
        response = await cluster.request(leader, _delete_records_request(led, timeout_ms), DeleteRecordsResponse)
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                what = f"no records of {topic.name}-{each.partition_index} were deleted"
                yield partition, item_result(each.low_watermark, each.error_code, None, what)

    found = await request_from_leaders(
        cluster, before, request, lambda partition: f"nobody deletes records of {partition} now"
    )
    return results_of(found)


def _delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (name, number), offset in before.items():
        topic = topics.setdefault(name, DeleteRecordsTopic(name))
        topic.partitions.append(DeleteRecordsPartition(number, offset))
    return DeleteRecordsRequest(list(topics.values()), timeout_ms)
