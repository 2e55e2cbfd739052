"""ElectLeaders, Alter- and ListPartitionReassignments, AlterReplicaLogDirs: who leads partitions, and where copies are.

Only the controller of a cluster does it. A broker that is alone leads all of its partitions and moves none: it elects
nobody, and rejects every replica elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ..network.request import RequestContext
from ..services import Services
from ..turns import LargeResponse, fill

PREFERRED, UNCLEAN = 0, 1
FIRST_ELECTION_WITH_TYPES = 1


def alter_replica_log_dirs(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse | LargeResponse[AlterReplicaLogDirsResponse]:
    """AlterReplicaLogDirs, API key 34: says that partitions are in a data directory, where they are in it already.

    INVALID_REPLICA_ASSIGNMENT for a move to another directory, which this broker does not make. As in Kafka the last
    directory counts for a partition that is named twice.
    """
    wanted = {
        (topic.name, index): each.path for each in request.dirs for topic in each.topics for index in topic.partitions
    }
    response = AlterReplicaLogDirsResponse()
    results: dict[str, AlterReplicaLogDirTopicResult] = {}

    def steps() -> Iterator[None]:
        for (topic, index), path in wanted.items():
            if topic not in results:
                response.results.append(results.setdefault(topic, AlterReplicaLogDirTopicResult(topic)))
            error = _error_of_place(services, topic, index, path)
            results[topic].partitions.append(AlterReplicaLogDirPartitionResult(index, int(error)))
            yield

    return fill(response, steps(), len(wanted))


def _error_of_place(services: Services, topic: str, index: int, path: str) -> ErrorCode:
    """Return why a partition cannot be in a data directory; NONE where it is."""
    log_dir, partition = services.log_dirs.named(path), services.topics.partition(topic, index)
    if log_dir is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not log_dir.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        partition.check_online()
    except KafkaError as failure:
        return failure.code
    is_there = services.log_dirs.of(partition.log) is log_dir
    return ErrorCode.NONE if is_there else ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def elect_leaders(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | LargeResponse[ElectLeadersResponse]:
    """ElectLeaders, API key 43: preferred leaders, or any living replica where the whole ISR is dead (KIP-460).

    Of all partitions, those that need no election are left out of the response. An error of the request is the one of
    each partition, too: version 0 has no other place for it.
    """
    version, places = context.api_version, request.topic_partitions
    named = None if places is None else [(topic.topic, index) for topic in places for index in topic.partitions]
    kind = request.election_type if version >= FIRST_ELECTION_WITH_TYPES else PREFERRED
    overall = ErrorCode.NONE
    try:
        if kind not in (PREFERRED, UNCLEAN) and places != []:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        errors = await services.replica_admin.elect(named, unclean=kind == UNCLEAN, timeout_ms=request.timeout_ms)
    except KafkaError as failure:
        overall = failure.code
        errors = dict.fromkeys(named or [], overall)
    response = ElectLeadersResponse(error_code=int(overall) if version >= FIRST_ELECTION_WITH_TYPES else 0)
    topics: dict[str, list[PartitionResult]] = {}

    def steps() -> Iterator[None]:
        for topic in chain((each.topic for each in places or ()), (each[0] for each in errors)):
            if topic not in topics:
                partitions = topics[topic] = list[PartitionResult]()
                response.replica_election_results.append(ReplicaElectionResult(topic, partitions))
                yield
        for (topic, index), error in errors.items():
            topics[topic].append(PartitionResult(index, int(error), error.text if error else None))
            yield

    return fill(response, steps(), len(errors) + len(places or ()))


async def alter_partition_reassignments(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments, API key 45: give partitions other replicas, or cancel that (KIP-455).

    The response does not wait for the end of what it begins. Each partition has its own error.
    """
    wanted = {
        (topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
        for topic in request.topics
        for each in topic.partitions
    }
    may_change_factor = request.allow_replication_factor_change
    try:
        errors = await services.replica_admin.reassign(wanted, may_change_factor=may_change_factor)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
    return AlterPartitionReassignmentsResponse(
        error_message=None if request.topics else "",
        allow_replication_factor_change=may_change_factor,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_result(topic.name, each.partition_index, errors) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _result(topic: str, index: int, errors: Mapping[Any, KafkaError]) -> ReassignablePartitionResponse:
    error = errors.get((topic, index))
    if error is None:
        return ReassignablePartitionResponse(index, int(ErrorCode.NONE), None)
    return ReassignablePartitionResponse(index, int(error.code), error.message)


def list_partition_reassignments(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse | LargeResponse[ListPartitionReassignmentsResponse]:
    """ListPartitionReassignments, API key 46: the partitions that are moving to other replicas (KIP-455)."""
    try:
        moving = services.replica_admin.reassignments()
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)
    if request.topics is not None:
        named = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
        moving = {place: each for place, each in moving.items() if place in named}
    response = ListPartitionReassignmentsResponse(error_message=None)
    topics: dict[str, OngoingTopicReassignment] = {}

    def steps() -> Iterator[None]:
        for (topic, index), each in moving.items():
            if topic not in topics:
                response.topics.append(topics.setdefault(topic, OngoingTopicReassignment(topic)))
            replicas = list(each.replicas), list(each.adding), list(each.removing)
            topics[topic].partitions.append(OngoingPartitionReassignment(index, *replicas))
            yield

    return fill(response, steps(), len(moving))
