"""DeleteTopics, API key 20: topics by name or, from version 6, by id.

Clients no longer see a deleted topic; its files are removed later. Internal topics cannot be deleted.
"""

from __future__ import annotations

from collections import Counter
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
from ..topics.topic import Topic

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Return one result for each topic. An error of one topic does not affect the others.

    All are looked up before the first is deleted: a topic that is named twice, perhaps by name and by id, stays.
    """
    requested = request.topics if context.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in requested)
    found = {named: _find(services, *named) for named in times}
    topics: Counter[Topic] = Counter()
    for named, topic in found.items():
        if isinstance(topic, Topic):
            topics[topic] += times[named]
    results: list[DeletableTopicResult] = []
    for named, topic in found.items():
        if isinstance(topic, KafkaError):
            results.append(_error(*named, _twice() if times[named] > 1 else topic))
        elif topics[topic] == 1:
            results.append(_delete(services, topic))
        elif topics.pop(topic, 0):  # one result covers all of its names
            results.append(_error(topic.name, topic.id, _twice()))
    return DeleteTopicsResponse(responses=results)


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


def _delete(services: Services, topic: Topic) -> DeletableTopicResult:
    try:
        if topic.is_internal:
            why = f"{topic.name} is the broker's own topic: what groups and transactions stand on is not deleted"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        services.delete_topic(topic)
    except KafkaError as error:
        return _error(topic.name, topic.id, error)
    return DeletableTopicResult(topic.name, topic.id)


def _twice() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named twice, by its name or by its id.")


def _error(name: str | None, topic_id: bytes, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name, topic_id, int(error.code), error.message or error.code.text)
