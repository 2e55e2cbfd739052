"""DeleteRecords, API key 21: a partition begins at the requested offset, and its older segments are deleted.

Version 1 is as 0, 2 has tagged fields. -1 stands for the high watermark. The response waits until the new log start
offsets are on disk, so that deleted records do not come back after a crash; Kafka writes them later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...storage.errors import StorageError
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services

_log = logging.getLogger(__name__)

HIGH_WATERMARK = -1
_NO_LOW_WATERMARK = -1


def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> asyncio.Future[DeleteRecordsResponse]:
    """Return one result for each partition. An error of one does not affect the others.

    For a partition that is named twice the last offset counts.
    """
    topics: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update((each.partition_index, each.offset) for each in topic.partitions)
    response = DeleteRecordsResponse()
    for name, offsets in topics.items():
        results = [_delete(services, name, index, offset) for index, offset in offsets.items()]
        response.topics.append(DeleteRecordsTopicResult(name, results))
    return asyncio.ensure_future(_written(services, response))


async def _written(services: Services, response: DeleteRecordsResponse) -> DeleteRecordsResponse:
    """Return the response once the log start offsets are on disk, with an error where they cannot be written."""
    try:
        await services.background.checkpoints.write()
    except StorageError as error:
        _log.error("the log start offsets cannot be written: %s", error.message)
        for result in (each for topic in response.topics for each in topic.partitions if not each.error_code):
            result.error_code, result.low_watermark = int(error.code), _NO_LOW_WATERMARK
    return response


def _delete(services: Services, name: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        return DeleteRecordsPartitionResult(index, _delete_records(services, name, index, offset))
    except KafkaError as error:
        return DeleteRecordsPartitionResult(index, _NO_LOW_WATERMARK, int(error.code))


def _delete_records(services: Services, name: str, index: int, offset: int) -> int:
    """Delete records and return the new log start offset."""
    topic = services.topics.get(name)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the broker's own")
    partition.check_leading()
    if "delete" not in topic.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of {name} does not allow to delete")
    end = partition.high_watermark
    start = end if offset == HIGH_WATERMARK else offset
    if not 0 <= start <= end:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is past the high watermark {end}")
    services.background.record_deletion.delete_records(partition, start)
    return partition.log.log_start_offset
