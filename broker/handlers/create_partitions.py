"""CreatePartitions, API key 37: more partitions for a topic.

The existing partitions keep their records, so that a key may go to another partition from then on.
"""

from __future__ import annotations

from collections import Counter

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..network.request import RequestContext
from ..quotas.client_quotas import Mutations
from ..services import Services
from ..topics.topic import Topic
from ..topics.topic_names import check_asked_partitions, check_partition_count
from ..turns import keeper

# The first version whose clients know THROTTLING_QUOTA_EXCEEDED.
FIRST_WITH_QUOTA_ERROR = 3


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Return one result for each topic, in order. An error of one topic does not affect the others.

    A name that comes twice is an error.
    """
    mutations = services.quotas.mutations(*context.client, context.api_version >= FIRST_WITH_QUOTA_ERROR)
    times = Counter(topic.name for topic in request.topics)
    known = services.topics.get
    present = (len(topic.partitions) if (topic := known(each.name)) else 0 for each in request.topics)
    asked = sum(max(each.count - have, 0) for each, have in zip(request.topics, present, strict=True))
    results: dict[str, CreatePartitionsTopicResult] = {}
    for requested in request.topics:
        result = results[requested.name] = CreatePartitionsTopicResult(requested.name)
        try:
            if services.cluster is not None:
                services.cluster.admin.check_controller()
            if times[requested.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            check_asked_partitions(asked)
            await _grow(services, requested, request, mutations)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        await keeper().pause()
    response = CreatePartitionsResponse(results=list(results.values()))
    context.throttle(response, mutations.throttle_ms)
    return response


async def _grow(
    services: Services, requested: CreatePartitionsTopic, request: CreatePartitionsRequest, mutations: Mutations
) -> None:
    topic = services.topics.get(requested.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{requested.name}' does not exist.")
    if topic.is_internal:
        why = f"{topic.name} is the broker's own topic: what it holds is found by its number of partitions"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if services.cluster is not None:
        chosen = requested.assignments
        check_partition_count(requested.count)
        mutations.take(max(requested.count - len(topic.partitions), 0))
        await services.cluster.admin.add_partitions(
            topic.name,
            requested.count,
            None if chosen is None else [tuple(each.broker_ids) for each in chosen],
            request.timeout_ms,
            validate_only=request.validate_only,
        )
        return
    services.topics.check_growth(topic, requested.count)
    _check_assignments(services, topic, requested)
    mutations.take(requested.count - len(topic.partitions))
    if not request.validate_only:
        await services.topics.begin_growth(topic, requested.count).wait()


def _check_assignments(services: Services, topic: Topic, requested: CreatePartitionsTopic) -> None:
    """Check that named replicas are on this broker, one for each new partition."""
    if requested.assignments is None:
        return
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    wanted = requested.count - len(topic.partitions)
    if len(requested.assignments) != wanted:
        why = f"{wanted} new partitions were asked for, and replicas of {len(requested.assignments)} are assigned."
        raise KafkaError(code, why)
    for number, each in enumerate(requested.assignments, start=len(topic.partitions)):
        if each.broker_ids != [services.config.node_id]:
            why = f"partition {number} cannot be on {each.broker_ids}: the only broker is {services.config.node_id}"
            raise KafkaError(code, why)
