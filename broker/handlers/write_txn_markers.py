"""WriteTxnMarkers, API key 27: ends transactions in partitions, on behalf of another broker's coordinator.

Version 2 adds the transaction version of each marker. An error concerns one partition.
"""

from __future__ import annotations

import asyncio

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.records.batch import NO_PRODUCER_ID
from ..coordination.transactions.markers import TransactionEnd
from ..network.request import RequestContext
from ..services import Services

# Markers that wait for an fsync, and their results.
Waiting = list[tuple["asyncio.Future[None]", WritableTxnMarkerPartitionResult]]


def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
    """Write all markers, then wait for the fsyncs of those that need one."""
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
        waiting.append((written, result))
    return result


async def _flushed(waiting: Waiting, response: WriteTxnMarkersResponse) -> WriteTxnMarkersResponse:
    outcomes = await asyncio.gather(*(future for future, _ in waiting), return_exceptions=True)
    for outcome, (_, result) in zip(outcomes, waiting, strict=True):
        if isinstance(outcome, KafkaError):
            result.error_code = int(outcome.code)
        elif outcome is not None:
            result.error_code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return response
