"""Produce, API key 0: batches to partitions.

Version 3 brought record batches (v2) and transactional ids, 7 zstd, 8 error messages, 13 topic ids. acks: 0 is not
answered (a failure closes the connection, so that the client notices), 1 and -1 are answered once the log has the
batch, and after the fsync where the topic asks for one.
"""

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ..connection import CloseConnection
from ..dispatch import RequestContext
from ..partition import Partition
from ..topics import Topic

if TYPE_CHECKING:
    from ..server import Broker

_ACKS = (-1, 0, 1)
_FAILED_OFFSET = -1


def handle(
    broker: "Broker", context: RequestContext, request: ProduceRequest
) -> "ProduceResponse | asyncio.Future[ProduceResponse] | None":
    """Appends each partition's batch; one partition's error is no other's."""
    response = ProduceResponse()
    unflushed: list[Partition] = []
    for data in request.topic_data:
        answers = [_append(broker, context, request, data, each, unflushed) for each in data.partition_data]
        response.responses.append(TopicProduceResponse(data.name, data.topic_id, answers))
    if request.acks == 0:
        _close_if_failed(response)
        return None
    if unflushed:
        return broker.flusher.after(unflushed, response)
    return response


def _append(
    broker: "Broker",
    context: RequestContext,
    request: ProduceRequest,
    data: TopicProduceData,
    asked: PartitionProduceData,
    unflushed: list[Partition],
) -> PartitionProduceResponse:
    try:
        partition = _partition(broker, context, request, data, asked.index)
        if asked.records is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a produce request carries exactly one batch a partition, not null"
            )
        appended = partition.append(asked.records, context.api_version)  # type: ignore[arg-type]
    except KafkaError as error:
        return PartitionProduceResponse(
            asked.index, int(error.code), _FAILED_OFFSET, error_message=error.message or error.code.text
        )
    if partition.must_flush:
        unflushed.append(partition)
    return PartitionProduceResponse(
        asked.index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
    )


def _partition(
    broker: "Broker", context: RequestContext, request: ProduceRequest, data: TopicProduceData, index: int
) -> Partition:
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet")
    topic = _topic(broker, context, data)
    partition = topic.partition(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _topic(broker: "Broker", context: RequestContext, data: TopicProduceData) -> Topic:
    if context.api_version >= 13:
        topic = broker.topics.by_id(data.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        topic = broker.topics.get(data.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is the broker's own: clients do not write to it"
        )
    return topic


def _close_if_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode.of(partition.error_code)
                why = f"a produce request with acks=0 to {topic.name}-{partition.index} failed: {code.name}"
                raise CloseConnection(f"{why} ({partition.error_message})")
