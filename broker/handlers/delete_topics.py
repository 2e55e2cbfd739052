"""DeleteTopics, API key 20: topics by name or, from version 6, by id.

Gone at once for every client; the files follow.
"""

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
from ..dispatch import RequestContext
from ..topics import Topic

if TYPE_CHECKING:
    from ..server import Broker


def handle(broker: "Broker", context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """One result a topic; one topic's error is no other's."""
    asked = request.topics if context.api_version >= 6 else [DeleteTopicState(name) for name in request.topic_names]
    times = Counter((each.name, each.topic_id) for each in asked)
    results: list[DeletableTopicResult] = []
    for each in asked:
        try:
            if times[each.name, each.topic_id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            topic = _find(broker, each)
            broker.delete_topic(topic)
            results.append(DeletableTopicResult(topic.name, topic.id))
        except KafkaError as error:
            message = error.message or error.code.text
            results.append(DeletableTopicResult(each.name, each.topic_id, int(error.code), message))
    return DeleteTopicsResponse(responses=results)


def _find(broker: "Broker", asked: DeleteTopicState) -> Topic:
    if asked.name is not None and asked.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if asked.name is None and asked.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if not broker.config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    topic = broker.topics.get(asked.name) if asked.name is not None else broker.topics.by_id(asked.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if asked.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic
