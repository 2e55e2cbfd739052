"""Topics, their partitions and records: CreateTopics (key 19), DeleteTopics (20), DeleteRecords (21), CreatePartitions
(37), ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46). A broker that is alone does
not serve the last three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
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
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..core import leaders
from ..core.clock import api_result
from ..core.cluster import Cluster
from ..core.connection import Connection
from ..core.descriptions import NewTopic, Reassignment
from ..core.leaders import errors_in, for_items, request_from_leaders, retried, rows_in, timeout_of
from ..core.metadata import ClusterView, TopicInfo
from ..core.options import (
    by_partition,
    check_choice,
    check_mapping,
    check_switches,
    items_of,
    whole_number,
)
from ..errors import UnknownTopic, error_of, raise_error, results_of
from ..record import OffsetAndTimestamp, TopicPartition, by_topic
from .configs import check_config

_FIRST_TOPIC_STATES = 6  # DeleteTopics 6 takes names or ids
_PREFERRED, _UNCLEAN = 0, 1

# -- Topics


async def create_topics(
    cluster: Cluster,
    topics: NewTopic | Iterable[NewTopic] = (),
    *more: NewTopic,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Create topics, or check whether they could be created. Raises KafkaError: TOPIC_ALREADY_EXISTS, ..."""
    check_switches(validate_only=validate_only)
    wanted = {topic.name: _creatable(topic) for topic in items_of("create_topics", NewTopic, (topics, *more))}
    limit_ms = timeout_of(cluster, timeout_ms)

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        request = CreateTopicsRequest([wanted[name] for name in names], limit_ms, validate_only)
        response = await cluster.request_controller(request, CreateTopicsResponse)
        return {each.name: _created(each.name, each.error_code, each.error_message) for each in response.topics}

    await for_items(cluster, wanted, attempt)


def _created(name: str, code: int, message: str | None) -> KafkaError | None:
    if ErrorCode.of(code) is ErrorCode.TOPIC_ALREADY_EXISTS:
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    return error_of(code, message, f"topic {name!r} was not created")


def _creatable(topic: NewTopic) -> CreatableTopic:
    for name, value in topic.configs.items():
        check_config(name, value)
    return CreatableTopic(
        name=topic.name,
        num_partitions=whole_number(topic.num_partitions, "num_partitions"),
        replication_factor=whole_number(topic.replication_factor, "replication_factor"),
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def delete_topics(cluster: Cluster, *names: str | Iterable[str], timeout_ms: int | None = None) -> None:
    """Delete topics with all their records. Raises UnknownTopic, KafkaError."""
    wanted = items_of("delete_topics", str, names)

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        def request(connection: Connection) -> DeleteTopicsRequest:
            made = DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_of(cluster, timeout_ms))
            if connection.version_for(DeleteTopicsRequest) >= _FIRST_TOPIC_STATES:
                made.topics = [DeleteTopicState(name=name) for name in names]
            return made

        response = await cluster.request_controller(request, DeleteTopicsResponse)
        return {
            each.name or "": _missing(each.name, each.error_code)
            or error_of(each.error_code, each.error_message, f"topic {each.name!r} was not deleted")
            for each in response.responses
        }

    await for_items(cluster, wanted, attempt)


def _missing(name: str | None, error_code: int) -> UnknownTopic | None:
    if ErrorCode.of(error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"topic {name!r} does not exist")
    return None


async def list_topics(cluster: Cluster, *, internal: bool = False) -> list[str]:
    """Return the names of all topics, in order; internal topics only if `internal`."""
    check_switches(internal=internal)
    view = await cluster.retry(cluster.all_topics)
    return sorted(name for name, topic in view.topics.items() if internal or not topic.is_internal)


async def describe_topics(cluster: Cluster, *names: str | Iterable[str]) -> dict[str, TopicInfo]:
    """Return partitions, leaders and replicas of topics, of all without an argument. Raises UnknownTopic."""
    wanted = items_of("describe_topics", str, names)
    view = await cluster.retry(cluster.all_topics)
    return results_of({name: _described(view, name) for name in (wanted if names else sorted(view.topics))})


def _described(view: ClusterView, name: str) -> TopicInfo | KafkaError:
    found = view.topics.get(name)
    if found is not None:
        return found
    code = view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _missing(name, code) or KafkaError(code, f"topic {name!r} cannot be described: {code.text}")


async def create_partitions(cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
    """Raise the partition counts of topics. Raises INVALID_PARTITIONS for a count that is not higher."""
    check_switches(validate_only=validate_only)
    check_mapping("create_partitions", totals, "topic and number of partitions")
    totals = {name: whole_number(total, "a number of partitions") for name, total in totals.items()}

    async def attempt(names: list[str]) -> dict[str, KafkaError | None]:
        topics = [CreatePartitionsTopic(name, totals[name], None) for name in names]
        request = CreatePartitionsRequest(topics, timeout_of(cluster), validate_only)
        response = await cluster.request_controller(request, CreatePartitionsResponse)
        return {each.name: _grown(each.name, each.error_code, each.error_message) for each in response.results}

    await for_items(cluster, totals, attempt)


def _grown(name: str, code: int, message: str | None) -> KafkaError | None:
    if ErrorCode.of(code) is ErrorCode.INVALID_PARTITIONS and message:
        return KafkaError(ErrorCode.INVALID_PARTITIONS, message)  # it says all
    return _missing(name, code) or error_of(code, message, f"topic {name!r} was given no partitions")


# -- Records


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before an offset of each partition (-1: all). Return the log start offsets.

    Raises KafkaError, OFFSET_OUT_OF_RANGE for an offset past the end.
    """
    before = by_partition("delete_records", before, "offset")

    async def request(leader: int, led: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        rows = [(each.topic, DeleteRecordsPartition(each.partition, offset)) for each, offset in led.items()]
        topics = [DeleteRecordsTopic(*each) for each in by_topic(rows).items()]
        request = DeleteRecordsRequest(topics, timeout_of(cluster))
        response = await cluster.request(leader, request, DeleteRecordsResponse)
        return {
            each: error_of(row.error_code, None, f"no records of {each} were deleted") or row.low_watermark
            for each, row in rows_in(response).items()
        }

    nobody = "nobody deletes records of {} now"
    return results_of(await request_from_leaders(cluster, before, request, nobody.format))


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: str = "read_uncommitted",
    node_id: int | None = None,
    partial: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset at or after a time (ms), or an end: LATEST (-1), EARLIEST (-2).

    Leaders are asked. With `node_id` that broker is asked, once, for its own replicas: LATEST is where its log
    ends, whatever is committed. With `partial` partitions that have no leader now, or fail, are left out: an outage
    of one does not hide the others.
    """
    check_choice("isolation_level", isolation_level, leaders.ISOLATION_LEVELS)
    wanted = by_partition("list_offsets", wanted, "time")
    if node_id is not None:
        limit_ms = cluster.options.default_api_timeout_ms
        return await api_result(leaders.list_replica_offsets(cluster, node_id, wanted), limit_ms)
    ask = leaders.led_offsets if partial else leaders.list_offsets
    return await ask(cluster, wanted, leaders.ISOLATION_LEVELS[isolation_level])


# -- Leaders and replicas


async def elect_leaders(
    cluster: Cluster,
    partitions: TopicPartition | Iterable[TopicPartition] | None = None,
    *more: TopicPartition,
    unclean: bool = False,
) -> list[TopicPartition]:
    """Make preferred replicas leaders again, of these partitions or all. Return those that have a new leader.

    `unclean` elects any living replica of partitions whose in-sync replicas are all dead, which loses records.
    """
    check_switches(unclean=unclean)
    asked: list[TopicPartition] | None = None
    if partitions is not None or more:
        asked = items_of("elect_leaders", TopicPartition, (() if partitions is None else partitions, *more))

    async def attempt(wanted: list[TopicPartition] | None) -> dict[TopicPartition, bool | KafkaError]:
        topics = None if wanted is None else [TopicPartitions(*each) for each in by_topic(wanted).items()]
        request = ElectLeadersRequest(_UNCLEAN if unclean else _PREFERRED, topics, timeout_of(cluster))
        response = await cluster.request_controller(request, ElectLeadersResponse)
        raise_error(response.error_code, None, "no leader was elected")
        return {partition: _elected(partition, row) for partition, row in rows_in(response).items()}

    if asked is not None:
        found = await for_items(cluster, asked, attempt)
    else:  # of all: the broker names those that it tried
        found = results_of(await cluster.retry(lambda: attempt(None)))
    return [partition for partition, elected in found.items() if elected]


def _elected(partition: TopicPartition, result: PartitionResult) -> bool | KafkaError:
    if ErrorCode.of(result.error_code) is ErrorCode.ELECTION_NOT_NEEDED:
        return False
    return error_of(result.error_code, result.error_message, f"no leader of {partition} was elected") or True


async def alter_partition_reassignments(
    cluster: Cluster, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> None:
    """Begin to give partitions other replicas, the preferred leader first; None cancels what is under way."""
    replicas = by_partition("alter_partition_reassignments", replicas, "broker ids")

    async def attempt(partitions: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        rows: list[tuple[str, ReassignablePartition]] = []
        for name, number in partitions:
            brokers = replicas[TopicPartition(name, number)]
            rows.append((name, ReassignablePartition(number, None if brokers is None else list(brokers))))
        topics = [ReassignableTopic(*each) for each in by_topic(rows).items()]
        request = AlterPartitionReassignmentsRequest(timeout_ms=timeout_of(cluster), topics=topics)
        response = await cluster.request_controller(request, AlterPartitionReassignmentsResponse)
        raise_error(response.error_code, response.error_message, "no partition was reassigned")
        return errors_in(response, lambda each: f"{each} was not reassigned")

    await for_items(cluster, replicas, attempt)


@retried
async def list_partition_reassignments(cluster: Cluster) -> dict[TopicPartition, Reassignment]:
    """Return the partitions that are moving to other replicas."""
    request = ListPartitionReassignmentsRequest(timeout_of(cluster))
    response = await cluster.request_controller(request, ListPartitionReassignmentsResponse)
    raise_error(response.error_code, response.error_message, "the reassignments are unknown")
    return {
        partition: Reassignment(tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas))
        for partition, row in rows_in(response).items()
    }
