"""Produce, API key 0: batches to partitions.

Versions 0 to 2 carry message sets, each of which becomes one batch (conversion.py). Version 3 brought record batches
(v2) and transactional ids, 7 zstd, 8 error messages, 13 topic ids. acks: 0 is not
answered (a failure closes the connection, so that the client notices), 1 and -1 are answered once the log has the
batch, and after the fsync where the topic asks for one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...protocol.primitives import uuid_to_text
from ..network.connection import CloseConnection
from ..network.request import RequestContext
from ..topics.partition import Partition, VerifyTransaction
from ..topics.topic import Topic
from ..topics.validation import BatchRejected, is_large

if TYPE_CHECKING:
    from ..services import Services

_ACKS = (-1, 0, 1)
_FAILED_OFFSET = -1
# What a client gets whose metadata is old, or whose transaction is still being written: it asks again, and nobody needs
# a line in the log.
_EVERYDAY = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.CONCURRENT_TRANSACTIONS}
)

# Partitions whose last append is answered after an fsync, and that answer.
Unflushed = list[tuple[Partition, PartitionProduceResponse]]

_log = logging.getLogger(__name__)


class _Round:
    """One request while its batches are appended."""

    __slots__ = ("admit", "context", "later", "refused", "request", "services", "unflushed")

    def __init__(self, services: Services, context: RequestContext, request: ProduceRequest) -> None:
        self.services = services
        self.context = context
        self.request = request
        self.admit: VerifyTransaction | None = None
        if request.transactional_id is not None:
            self.admit = services.verification.of_batches(request.transactional_id, context.api_version)
        self.unflushed: Unflushed = []
        # (topic, partition, its answer, a copy of its records): what a thread must look into before it is appended.
        self.later: list[tuple[Partition, PartitionProduceResponse, bytearray]] = []
        # What the log is told, and of how many partitions: a request of thousands is one line all the same.
        self.refused: list[str] = []


def handle(
    services: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | asyncio.Future[Any] | None:
    """Appends each partition's batch; one partition's error is no other's."""
    response = ProduceResponse()
    work = _Round(services, context, request)
    for data in request.topic_data:
        answers = [_append(work, data, each) for each in data.partition_data]
        if answers:
            response.responses.append(TopicProduceResponse(data.name, data.topic_id, answers))
    if len(response.responses) > 1:
        response.responses = _merged(response.responses)
    if work.later:
        return asyncio.ensure_future(_prepared(work, response))
    return _answer(work, response)


def _answer(work: _Round, response: ProduceResponse) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    """Everything is appended or refused: what the client gets, and when."""
    services, context, request = work.services, work.context, work.request
    if request.acks == 0:
        _close_if_failed(response)
        return None
    if work.refused:
        more = f" (and {len(work.refused) - 1} more)" if len(work.refused) > 1 else ""
        _log.warning("%s: a batch for %s%s", context.connection.name, work.refused[0], more)
    if work.unflushed:
        return asyncio.ensure_future(_flushed(services, work.unflushed, response))
    return response


def _merged(responses: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """One entry a topic, also where the request had two."""
    topics: dict[tuple[str, bytes], TopicProduceResponse] = {}
    for each in responses:
        first = topics.setdefault((each.name, each.topic_id), each)
        if first is not each:
            first.partition_responses += each.partition_responses
    return list(topics.values())


async def _flushed(services: Services, unflushed: Unflushed, response: ProduceResponse) -> ProduceResponse:
    """The response once all of it is on disk; a partition where that failed answers so, and only that one."""
    failures = await services.flusher.flush_all({partition for partition, _ in unflushed})
    for partition, answer in unflushed:
        error = failures.get(partition)
        if error is not None:
            answer.error_code, answer.error_message = int(ErrorCode.KAFKA_STORAGE_ERROR), str(error)
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = _FAILED_OFFSET
    return response


async def _prepared(work: _Round, response: ProduceResponse) -> ProduceResponse | None:
    """Appends what was too large to be looked into on the loop, one after the other."""
    version = work.context.api_version
    for partition, answer, records in work.later:
        try:
            prepared = await work.services.conversions.run(
                lambda p=partition, r=records: p.prepare(memoryview(r), version)
            )
            appended = partition.append_prepared(prepared, version, work.admit)
        except KafkaError as error:
            _note_refusal(work, partition.topic, partition.index, error)
            refusal = _refusal(partition.index, error)
            answer.error_code, answer.error_message = refusal.error_code, refusal.error_message
            answer.base_offset, answer.log_start_offset = refusal.base_offset, refusal.log_start_offset
            answer.record_errors = refusal.record_errors
            continue
        answer.base_offset, answer.log_start_offset = appended.base_offset, appended.log_start_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        if partition.must_flush:
            work.unflushed.append((partition, answer))
    done = _answer(work, response)
    return await done if isinstance(done, asyncio.Future) else done


def _append(work: _Round, data: TopicProduceData, asked: PartitionProduceData) -> PartitionProduceResponse:
    try:
        partition = _partition(work.services, work.context, work.request, data, asked.index)
        if asked.records is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a produce request carries exactly one batch a partition, not null"
            )
        if partition.needs_preparation(work.context.api_version) and is_large(asked.records):
            answer = PartitionProduceResponse(asked.index)
            work.later.append((partition, answer, bytearray(asked.records)))
            return answer
        appended = partition.append(asked.records, work.context.api_version, work.admit)  # type: ignore[arg-type]
    except KafkaError as error:
        _note_refusal(work, _named(work.services, data), asked.index, error)
        return _refusal(asked.index, error)
    answer = PartitionProduceResponse(
        asked.index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
    )
    if partition.must_flush:
        work.unflushed.append((partition, answer))
    return answer


def _named(services: Services, data: TopicProduceData) -> str:
    """What a person knows the topic by."""
    topic = None if data.name else services.topics.by_id(data.topic_id)
    return data.name or (topic.name if topic is not None else uuid_to_text(data.topic_id))


def _note_refusal(work: _Round, topic: str, index: int, error: KafkaError) -> None:
    if error.code not in _EVERYDAY:
        work.refused.append(f"{topic}-{index} refused: {error}")


def _refusal(index: int, error: KafkaError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index, int(error.code), _FAILED_OFFSET, error_message=error.message)
    if isinstance(error, BatchRejected):
        answer.log_start_offset = error.log_start_offset
        answer.record_errors = [BatchIndexAndErrorMessage(at, why) for at, why in error.record_errors]
    return answer


def _partition(
    services: Services, context: RequestContext, request: ProduceRequest, data: TopicProduceData, index: int
) -> Partition:
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    topic = _topic(services, context, data)
    partition = topic.partition(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _topic(services: Services, context: RequestContext, data: TopicProduceData) -> Topic:
    if context.api_version >= 13:
        topic = services.topics.by_id(data.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        topic = services.topics.get(data.name)
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
