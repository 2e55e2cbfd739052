"""DeleteTopics, API key 20: topics by name or, from version 6, by id.

Clients no longer see a deleted topic; its files are removed later. Internal topics cannot be deleted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...protocol.primitives import ZERO_UUID
from ..network.request import RequestContext
from ..quotas.client_quotas import Mutations
from ..services import Services
from ..topics.topic import Topic

if TYPE_CHECKING:
    from ..cluster.member import Member

# The first version whose clients know THROTTLING_QUOTA_EXCEEDED.
FIRST_WITH_QUOTA_ERROR = 5


def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | asyncio.Future[DeleteTopicsResponse]:
    """Return one result for each topic. An error of one topic does not affect the others.

    All are looked up before the first is deleted: a topic that is named twice, perhaps by name and by id, stays.
    """
    requested = request.topics if context.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    if services.cluster is not None and requested:
        services.cluster.admin.check_controller()  # another broker may not know yet which topics there are
    resolved = _resolve(services, requested)
    mutations = services.quotas.mutations(*context.client, context.api_version >= FIRST_WITH_QUOTA_ERROR)
    if services.cluster is not None:
        return asyncio.ensure_future(
            _delete_in_cluster(services.cluster, context, resolved, request.timeout_ms, mutations)
        )
    results = [_delete(services, each, mutations) if isinstance(each, Topic) else each for each in resolved]
    return _response(context, results, mutations)


def _response(
    context: RequestContext, results: list[DeletableTopicResult], mutations: Mutations
) -> DeleteTopicsResponse:
    response = DeleteTopicsResponse(responses=results)
    context.throttle(response, mutations.throttle_ms)
    return response


def _resolve(services: Services, requested: Sequence[DeleteTopicState]) -> list[Topic | DeletableTopicResult]:
    """Return the topics to delete, and in the place of each other one its error."""
    times = Counter((each.name, each.topic_id) for each in requested)
    found = {named: _find(services, *named) for named in times}
    topics: Counter[Topic] = Counter()
    for named, topic in found.items():
        if isinstance(topic, Topic):
            topics[topic] += times[named]
    resolved: list[Topic | DeletableTopicResult] = []
    for named, topic in found.items():
        if isinstance(topic, KafkaError):
            resolved.append(_error(*named, _twice() if times[named] > 1 else topic))
        elif topics[topic] == 1:
            resolved.append(topic)
        elif topics.pop(topic, 0):  # one result covers all of its names
            resolved.append(_error(topic.name, topic.id, _twice()))
    return resolved


async def _delete_in_cluster(
    member: Member,
    context: RequestContext,
    resolved: list[Topic | DeletableTopicResult],
    timeout_ms: int,
    mutations: Mutations,
) -> DeleteTopicsResponse:
    """Have the controller delete the topics."""
    results: list[DeletableTopicResult] = []
    for each in resolved:
        if isinstance(each, DeletableTopicResult):
            results.append(each)
            continue
        try:
            _check_not_internal(each)
            mutations.take(len(each.partitions))
            await member.admin.delete_topic(each.name, timeout_ms)
        except KafkaError as error:
            results.append(_error(each.name, each.id, error))
        else:
            results.append(DeletableTopicResult(each.name, each.id))
    return _response(context, results, mutations)


def _find(services: Services, name: str | None, topic_id: bytes) -> Topic | KafkaError:
    if name is not None and topic_id != ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if not services.config.delete_topic_enable:
        return KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    if name is None:
        return services.topics.by_id(topic_id) or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return services.topics.get(name) or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _delete(services: Services, topic: Topic, mutations: Mutations) -> DeletableTopicResult:
    try:
        _check_not_internal(topic)
        mutations.take(len(topic.partitions))
        services.delete_topic(topic)
    except KafkaError as error:
        return _error(topic.name, topic.id, error)
    return DeletableTopicResult(topic.name, topic.id)


def _check_not_internal(topic: Topic) -> None:
    if topic.is_internal:
        why = f"{topic.name} is the broker's own topic: what groups and transactions stand on is not deleted"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _twice() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named twice, by its name or by its id.")


def _error(name: str | None, topic_id: bytes, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name, topic_id, int(error.code), error.message)
