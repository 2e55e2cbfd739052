"""Produce, API key 0: batches to partitions.

Versions 0 to 2 carry message sets, each of which becomes one batch (validation.py). Version 3 brought record batches
(v2) and transactional ids, 7 zstd, 8 error messages, 13 topic ids.

acks=1 and -1 are acknowledged once the log has the batch, and after the fsync where the topic requires one. In a
cluster acks=-1 waits until every replica in the ISR has it, at most for the request's time-out. acks=0 gets no
response: after a failure the broker closes the connection, so that the client notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.apis import ApiKey
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...protocol.primitives import uuid_to_text
from ...protocol.records.batch import BatchHeader
from ...protocol.topic_partition import TopicPartition
from ..coordination.transactions.verification import LateWord
from ..network.connection import CloseConnection
from ..network.request import RequestContext
from ..topics.disk_reads import warm_up
from ..topics.partition import Appended, Partition, VerifyTransaction
from ..topics.validation import BatchRejected, ColdLog, LargeBatch, check_form
from ..turns import keeper
from .reachable_brokers import current_leader, tell_address

if TYPE_CHECKING:
    from ..services import Services

_ACKS = (-1, 0, 1)
ALL = -1
FIRST_WITH_LEADERS = 10
_FAILED_OFFSET = -1
# Cold logs whose ends a thread reads at a time.
COLD_AT_ONCE = 50
# What Kafka finds only where the records are one batch of the right format.
_FOUND_AFTER_FORM = frozenset(
    {
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
# Errors of a client with old metadata, or whose last transaction is still being ended. It retries; nobody needs a line
# in the log.
_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)

_log = logging.getLogger(__name__)


class _Round:
    """One request while its batches are appended."""

    __slots__ = (
        "context",
        "deferred",
        "first_error",
        "rejected",
        "replicating",
        "request",
        "response",
        "services",
        "unflushed",
        "verify",
    )

    def __init__(self, services: Services, context: RequestContext, request: ProduceRequest) -> None:
        self.services = services
        self.context = context
        self.request = request
        self.response = ProduceResponse()
        self.verify: VerifyTransaction | None = None
        if request.transactional_id is not None:
            version = context.api_version
            self.verify = services.verification.of_batches(request.transactional_id, version, self._places)
        # Batches that wait for a thread, or for the word of a transaction coordinator, before they are appended:
        # (partition, its result, records to keep).
        self.deferred: list[tuple[Partition, PartitionProduceResponse, memoryview]] = []
        # Partitions whose append is acknowledged after an fsync, with their results.
        self.unflushed: list[tuple[Partition, PartitionProduceResponse]] = []
        # Partitions in a cluster whose followers must have the append: its reign, its end, and its result.
        self.replicating: list[tuple[Partition, int, int, PartitionProduceResponse]] = []
        # How many batches were rejected, and where the first one was to go, with its error. A request of thousands is
        # one line of the log all the same.
        self.rejected = 0
        self.first_error: tuple[str, int, KafkaError] | None = None

    def _places(self) -> frozenset[TopicPartition]:
        """Return the partitions that the request may write to."""
        found: set[TopicPartition] = set()
        for data in self.request.topic_data:
            for each in data.partition_data:
                try:
                    partition = _partition(self, data, each.index)
                    partition.check_leading()
                except KafkaError:
                    # Its own turn tells the client.
                    continue
                found.add(TopicPartition(partition.topic, partition.index))
        return frozenset(found)


def handle(
    services: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | asyncio.Future[ProduceResponse] | asyncio.Future[ProduceResponse | None] | None:
    """Append each partition's batch. An error of one partition does not affect the others."""
    work = _Round(services, context, request)
    response = work.response
    for data in request.topic_data:
        results: list[PartitionProduceResponse] = []
        for each in data.partition_data:
            results.append(_append(work, data, each))
        if results:
            response.responses.append(TopicProduceResponse(data.name, data.topic_id, results))
    if len(response.responses) > 1:
        response.responses = _merge_topics(response.responses)
    if work.deferred:
        return asyncio.ensure_future(_append_deferred(work))
    return _respond(work)


def _append(work: _Round, data: TopicProduceData, sent: PartitionProduceData) -> PartitionProduceResponse:
    result = PartitionProduceResponse(sent.index)
    version = work.context.api_version
    try:
        partition = _partition(work, data, sent.index)
        records = sent.records
        if records is None:
            why = "a produce request carries exactly one batch a partition, not null"
            raise KafkaError(ErrorCode.INVALID_RECORD, why)
        if partition.replication is not None and work.request.acks == ALL:
            partition.replication.check_min_isr()
        try:
            appended = partition.append(records, version, work.verify)  # type: ignore[arg-type]
        except (ColdLog, LargeBatch, LateWord):
            work.deferred.append((partition, result, work.context.connection.keep(records)))
            return result
        _acknowledge(work, partition, result, appended)
    except KafkaError as error:
        _reject(work, _topic_name(work.services, data), result, _first_error(sent, version, error))
    return result


def _first_error(sent: PartitionProduceData, version: int, error: KafkaError) -> KafkaError:
    """Return what is wrong with the form of the records where Kafka would have found that before this error."""
    if sent.records is not None and error.code in _FOUND_AFTER_FORM:
        try:
            check_form(sent.records, version)  # type: ignore[arg-type]
        except KafkaError as earlier:
            return earlier
    return error


async def _append_deferred(work: _Round) -> ProduceResponse | None:
    """Append the batches that had to wait, one after the other."""
    services, deferred = work.services, work.deferred
    for first in range(0, len(deferred), COLD_AT_ONCE):
        some = deferred[first : first + COLD_AT_ONCE]
        await warm_up((partition for partition, _, _ in some), services.threads)
        for partition, result, records in some:
            try:
                _acknowledge(work, partition, result, await _append_later(work, partition, records))
            except KafkaError as error:
                _reject(work, partition.topic, result, error)
            # To open a log for its first append takes some 0.1 ms, also where all of it is in memory.
            await keeper().pause()
    done = _respond(work)
    return await done if isinstance(done, asyncio.Future) else done


async def _append_later(work: _Round, partition: Partition, records: memoryview) -> Appended:
    """Append a batch; a large one is prepared in a thread, and staged. Raises KafkaError."""
    version, services = work.context.api_version, work.services
    try:
        return await _append_verified(work, partition, partial(partition.append, records, version))
    except LargeBatch:
        prepared = await services.conversions.run(partial(partition.prepare, records, version))
    async with services.staging.staged(partition, prepared.records) as staged:
        append = partial(partition.append_prepared, prepared, version, staged=staged)
        return await _append_verified(work, partition, append)


async def _append_verified(
    work: _Round, partition: Partition, append: Callable[[VerifyTransaction | None], Appended]
) -> Appended:
    """Append a batch, with the word of its transaction's coordinator. Raises KafkaError."""
    try:
        return append(work.verify)
    except LateWord as late:
        may_write, version = partial(append, _is_verified), work.context.api_version
        return await work.services.verification.verify_later(late, partition, version, may_write)


def _is_verified(partition: Partition, header: BatchHeader) -> None:
    """Accept a batch that its coordinator has just verified."""


def _acknowledge(work: _Round, partition: Partition, result: PartitionProduceResponse, appended: Appended) -> None:
    result.base_offset = appended.base_offset
    result.log_append_time_ms = appended.log_append_time_ms
    result.log_start_offset = appended.log_start_offset
    if partition.replication is not None and work.request.acks == ALL:
        # Also for a duplicate: the first copy may not be committed yet.
        work.replicating.append((partition, partition.reign, partition.log.log_end_offset, result))
    if appended.must_flush:
        work.unflushed.append((partition, result))


def _reject(work: _Round, topic: str, result: PartitionProduceResponse, error: KafkaError) -> None:
    result.error_code, result.error_message = int(error.code), error.message
    result.base_offset = _FAILED_OFFSET
    if isinstance(error, BatchRejected):
        result.log_start_offset = error.log_start_offset
        result.record_errors = [BatchIndexAndErrorMessage(at, why) for at, why in error.record_errors]
    work.services.requests.of(ApiKey.PRODUCE).reject(error.code)
    _tell_leader(work, topic, result)
    if error.code not in _EXPECTED:
        work.rejected += 1
        work.first_error = work.first_error or (topic, result.index, error)


def _respond(work: _Round) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    """Return the response now, after the fsyncs, or for acks=0 not at all."""
    if work.request.acks == 0:
        _close_if_failed(work.response)
        return None
    if work.first_error is not None:
        _log_rejected(work, *work.first_error)
    if work.unflushed:
        return asyncio.ensure_future(_flush(work))
    return _replicate(work) if work.replicating else work.response


def _log_rejected(work: _Round, topic: str, index: int, error: KafkaError) -> None:
    more = f" (and {work.rejected - 1} more)" if work.rejected > 1 else ""
    fields = {**work.context.log_fields, "topic": topic, "partition": index, "error": error.code.name}
    said = f"a batch for {topic}-{index} rejected: {error}{more}"
    _log.warning("%s: %s", work.context.connection.name, said, extra=fields)


async def _flush(work: _Round) -> ProduceResponse:
    """Return the response once everything is on disk. Only the partitions where that failed get the error."""
    failures = await work.services.flusher.flush_all({partition for partition, _ in work.unflushed})
    for partition, result in work.unflushed:
        error = failures.get(partition)
        if error is not None:
            _fail(result, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    done = _replicate(work)
    return await done if isinstance(done, asyncio.Future) else done


def _replicate(work: _Round) -> ProduceResponse | asyncio.Future[ProduceResponse]:
    """Return the response once the ISR has everything, or the time is up. An error concerns one partition."""

    def attempt(expired: bool) -> ProduceResponse | None:
        work.replicating = [each for each in work.replicating if not _is_settled(work, *each)]
        if work.replicating and not expired:
            return None
        for partition, _, offset, result in work.replicating:
            why = f"{partition.topic}-{partition.index}: the ISR did not get everything below offset {offset} in time"
            _fail(result, ErrorCode.REQUEST_TIMED_OUT, why)
        return work.response

    if attempt(False) is not None:
        return work.response
    keys = [partition for partition, _, _, _ in work.replicating]
    return work.services.purgatory.park(keys, max(work.request.timeout_ms, 0), attempt)


def _is_settled(work: _Round, partition: Partition, reign: int, offset: int, result: PartitionProduceResponse) -> bool:
    """Return whether a partition is done: the ISR has the append, or it has failed, which the result then says."""
    if result.error_code:
        return True
    try:
        return partition.is_committed(reign, offset)
    except KafkaError as error:
        _fail(result, error.code, error.message)
        _tell_leader(work, partition.topic, result)
        return True


def _fail(result: PartitionProduceResponse, code: ErrorCode, message: str) -> None:
    result.error_code, result.error_message = int(code), message
    result.base_offset = result.log_append_time_ms = result.log_start_offset = _FAILED_OFFSET


def _tell_leader(work: _Round, topic: str, result: PartitionProduceResponse) -> None:
    """Tell a client that has sent a batch to another broker who leads the partition."""
    is_elsewhere = result.error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if is_elsewhere and work.context.api_version >= FIRST_WITH_LEADERS:
        leader, epoch = current_leader(work.services, topic, result.index)
        result.current_leader = LeaderIdAndEpoch(leader, epoch)
        tell_address(work.services, work.context, leader, work.response.node_endpoints, NodeEndpoint)


def _merge_topics(responses: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """Return one entry for each topic, also where the request had two."""
    topics: dict[tuple[str, bytes], TopicProduceResponse] = {}
    for each in responses:
        first = topics.setdefault((each.name, each.topic_id), each)
        if first is not each:
            first.partition_responses += each.partition_responses
    return list(topics.values())


def _partition(work: _Round, data: TopicProduceData, index: int) -> Partition:
    topics = work.services.topics
    has_id = work.context.api_version >= 13
    topic = topics.by_id(data.topic_id) if has_id else topics.get(data.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if has_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = topic.partitions
    if not 0 <= index < len(partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if work.request.acks not in _ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic.is_internal:
        why = f"{topic.name} is the broker's own: clients do not write to it"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    return partitions[index]


def _topic_name(services: Services, data: TopicProduceData) -> str:
    """Return the name by which the log calls the topic."""
    topic = None if data.name else services.topics.by_id(data.topic_id)
    return data.name or (topic.name if topic is not None else uuid_to_text(data.topic_id))


def _close_if_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode.of(partition.error_code)
                why = f"a produce request with acks=0 to {topic.name}-{partition.index} failed: {code.name}"
                raise CloseConnection(f"{why} ({partition.error_message})")
