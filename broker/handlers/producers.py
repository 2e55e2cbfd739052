"""InitProducerId, DescribeProducers and WriteTxnMarkers: producers with an id, and the ends of their transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.records.batch import NO_PRODUCER_ID
from ...storage.producers import ProducerStates
from ..coordination.transactions.markers import TransactionEnd
from ..network.request import RequestContext
from ..services import Services
from ..topics.topic import Topic
from ..topics.topic_names import check_name
from ..turns import LargeResponse, fill

Describe = Callable[[int], PartitionResponse]


def describe_producers(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | LargeResponse[DescribeProducersResponse]:
    """DescribeProducers, API key 61: the producers of a partition, and their open transactions (KIP-664).

    Operators use it to find hanging transactions. Version 0 is the only one. Each partition is described on its own,
    and once: an error concerns one partition.
    """
    response = DescribeProducersResponse()
    values = 0
    steps: list[Iterator[None]] = []
    for asked in request.topics:
        topic = services.topics.get(asked.name)
        describe = _unknown_topic(asked.name) if topic is None else _partitions_of(topic)
        partitions = [describe(index) for index in dict.fromkeys(asked.partition_indexes)]
        response.topics.append(TopicResponse(asked.name, partitions))
        values += len(partitions)
        for each in partitions:
            if topic is not None and not each.error_code:
                producers = topic.partitions[each.partition_index].log.producers
                values += len(producers)
                steps.append(_add_states(each, producers))
    return fill(response, chain.from_iterable(steps), values)


def _unknown_topic(name: str) -> Describe:
    """Describe partitions of an unknown topic. They get an error message; in Kafka an unknown partition gets none."""
    error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    try:
        check_name(name)
    except KafkaError as wrong:
        error = wrong
    return lambda index: PartitionResponse(index, int(error.code), error.message)


def _partitions_of(topic: Topic) -> Describe:
    def describe(index: int) -> PartitionResponse:
        partition = topic.partition(index)
        if partition is None:
            return PartitionResponse(index, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        try:
            # Kafka describes the producers of a follower, too: its tool may name any broker.
            partition.check_online()
        except KafkaError as error:
            return PartitionResponse(index, int(error.code), error.message)
        return PartitionResponse(index)

    return describe


def _add_states(response: PartitionResponse, producers: ProducerStates) -> Iterator[None]:
    """Add the producers of a partition, as they are in the turn in which they are added."""
    for producer_id, each in list(producers.items()):
        state = ProducerState(
            producer_id,
            each.epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            each.current_txn_first_offset,
        )
        response.active_producers.append(state)
        yield


def init_producer_id(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]:
    """InitProducerId, API key 22: an id that tells a producer's batches from their repetitions. Versions 0-5.

    Version 3 lets a producer that lost its way ask for more with its old id and epoch (KIP-360): an idempotent producer
    gets a new id. With a transactional id the transaction coordinator says which epoch it gets.
    """
    if services.cluster is not None and not services.cluster.producer_ids.can_give:
        code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    if request.transactional_id is not None:
        return services.transactions.initialize(context, request)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=int(ErrorCode.INVALID_REQUEST), producer_id=-1, producer_epoch=-1)
    member = services.cluster
    try:
        producer_id = services.metadata.new_producer_id() if member is None else member.producer_ids.new_id()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=int(error.code), producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


# A coordinator has one request at a time under way to a broker: what waits longer would hold the markers of others.
PATIENCE_S = 1.0
# Markers that wait for an fsync, and their results.
Waiting = list[tuple["asyncio.Future[None]", WritableTxnMarkerPartitionResult]]


def write_txn_markers(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
    """WriteTxnMarkers, API key 27: ends transactions in partitions, on behalf of another broker's coordinator.

    All markers are written, then it waits a second for the fsyncs and followers of those that need them: after that
    REQUEST_TIMED_OUT is the answer of a partition, and others do not wait for its followers. Version 2 adds the
    transaction version of each marker. An error concerns one partition.
    """
    response = WriteTxnMarkersResponse()
    waiting: Waiting = []
    for marker in request.markers:
        result = WritableTxnMarkerResult(marker.producer_id)
        for topic in marker.topics:
            partitions = [_write(services, marker, topic.name, index, waiting) for index in topic.partition_indexes]
            result.topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
        response.markers.append(result)
    return asyncio.ensure_future(_flushed(waiting, response)) if waiting else response


def _write(
    services: Services, marker: WritableTxnMarker, topic: str, index: int, waiting: Waiting
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(index)
    if marker.producer_id == NO_PRODUCER_ID:
        # Kafka's answer, too.
        result.error_code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        return result
    try:
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
        written = services.markers.write_here(topic, index, end)
    except KafkaError as error:
        result.error_code = int(error.code)
        return result
    if written is not None:
        # The sender may have gone when this fails, or may be told before that it takes too long.
        written.add_done_callback(lambda done: done.cancelled() or done.exception())
        waiting.append((written, result))
    return result


async def _flushed(waiting: Waiting, response: WriteTxnMarkersResponse) -> WriteTxnMarkersResponse:
    # A client that goes away does not stop them: groups would never learn of an end that is in the log.
    await asyncio.wait([future for future, _ in waiting], timeout=PATIENCE_S)
    for future, result in waiting:
        result.error_code = int(_outcome(future))
    return response


def _outcome(written: asyncio.Future[None]) -> ErrorCode:
    if not written.done():
        # The sender writes it again.
        return ErrorCode.REQUEST_TIMED_OUT
    error = None if written.cancelled() else written.exception()
    if isinstance(error, KafkaError):
        return error.code
    return ErrorCode.UNKNOWN_SERVER_ERROR if error is not None or written.cancelled() else ErrorCode.NONE
