"""DescribeTopicPartitions, API key 75: topics in the order of their names, page by page (KIP-966).

A page holds at most as many partitions as the request and `max.request.partition.size.limit` allow, and at least one.
The cursor in the response says where the next page begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...protocol.messages.metadata import MetadataResponsePartition
from ..network.request import RequestContext
from ..security.acls import Operation, ResourceType
from ..services import Services
from ..topics.topic import Topic
from ..topics.topic_names import INTERNAL_TOPICS, check_name
from ..turns import LargeResponse, fill
from .metadata import partition_states

_DESCRIBE, _TOPIC = Operation.DESCRIBE, ResourceType.TOPIC


def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | LargeResponse[DescribeTopicPartitionsResponse]:
    """Return the requested topics, or all, from the cursor on.

    An invalid cursor is INVALID_REQUEST for each topic that the request names.
    """
    requested = sorted({each.name for each in request.topics})
    names = requested or sorted(services.topics.names())
    start = request.cursor
    if start is not None:
        if start.partition_index < 0 or (requested and start.topic_name not in requested):
            return _reject_all([each.name for each in request.topics])
        names = [name for name in names if name >= start.topic_name]
    response = DescribeTopicPartitionsResponse()
    limit = min(request.response_partition_limit, services.config.max_request_partition_size_limit)
    room = max(limit, 1)
    steps = _page(services, context, response, names, start, room, is_all=not requested)
    return fill(response, steps, len(requested))


def _page(
    services: Services,
    context: RequestContext,
    response: DescribeTopicPartitionsResponse,
    names: Sequence[str],
    start: Cursor | None,
    room: int,
    *,
    is_all: bool,
) -> Iterator[None]:
    """Fill a page, a topic a step. Of all topics (`is_all`) those are left out that the client may not see."""
    for name in names:
        yield
        topic = services.known(services.topics.get(name))
        if is_all and (topic is None or not context.may(_DESCRIBE, _TOPIC, name, audited=False)):
            continue
        if not room:
            response.next_cursor = Cursor(name, 0)
            return
        if topic is None:
            response.topics.append(_unknown(name, context))
            continue
        first = start.partition_index if start is not None and start.topic_name == name else 0
        states = partition_states(services, context, topic)
        shown = states[first : first + room]
        response.topics.append(_describe(context, topic, shown))
        room -= len(shown)
        if first + len(shown) < len(states):
            response.next_cursor = Cursor(name, first + len(shown))
            return


def _describe(
    context: RequestContext, topic: Topic, shown: Sequence[MetadataResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                each.error_code,
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                each.replica_nodes,
                each.isr_nodes,
                [],
                [],
                each.offline_replicas,
            )
            for each in shown
        ],
        topic_authorized_operations=context.operations(ResourceType.TOPIC, topic.name),
    )


def _unknown(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except KafkaError as error:
        code = error.code
    operations = context.operations(ResourceType.TOPIC, name)
    return DescribeTopicPartitionsResponseTopic(
        int(code), name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=operations
    )


def _reject_all(names: Sequence[str]) -> DescribeTopicPartitionsResponse:
    if not names:
        # The response has an error for each topic and none for itself: an empty one would look like the last page.
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a cursor with a partition below 0")
    code = int(ErrorCode.INVALID_REQUEST)
    return DescribeTopicPartitionsResponse(topics=[DescribeTopicPartitionsResponseTopic(code, name) for name in names])
