"""DeleteRecords, API key 21: a partition begins at the requested offset, and its older segments are deleted.

Version 1 is as 0, 2 has tagged fields. -1 stands for the high watermark. The response waits until the new log start
offsets are on disk, so that deleted records do not come back after a crash; Kafka writes them later. In a cluster it
waits until every follower on a live broker begins there too, on disk, so that they do not come back with another
leader, also where all have died. A follower that is too late: REQUEST_TIMED_OUT after the request's timeout.ms, though
the leader has deleted the records.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...storage.errors import StorageError
from ..network.request import RequestContext
from ..services import Services
from ..topics.partition import Partition

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
    response, moved = DeleteRecordsResponse(), list[_Moved]()
    for name, offsets in topics.items():
        results = [_delete(services, name, index, offset, moved) for index, offset in offsets.items()]
        response.topics.append(DeleteRecordsTopicResult(name, results))
    return asyncio.ensure_future(_written(services, response, moved, request.timeout_ms))


class _Moved(NamedTuple):
    """A partition whose log begins elsewhere by now."""

    partition: Partition
    reign: int
    offset: int
    result: DeleteRecordsPartitionResult


async def _written(
    services: Services, response: DeleteRecordsResponse, moved: list[_Moved], timeout_ms: int
) -> DeleteRecordsResponse:
    """Return the response once the log start offsets are on disk here, and every follower that is alive has them.

    Sets an error where they cannot be written, or a follower does not fetch.
    """
    homes: dict[Path, list[_Moved]] = {}
    for each in moved:
        homes.setdefault(each.partition.log.directory.parent, []).append(each)
    await asyncio.gather(*(_noted(services, home, some) for home, some in homes.items()))
    await asyncio.gather(*(_replicated(services, each, timeout_ms) for each in moved if not each.result.error_code))
    return response


async def _noted(services: Services, home: Path, moved: list[_Moved]) -> None:
    """Wait until the log start offsets of a data directory are on disk. Sets an error where they cannot be written."""
    try:
        await services.background.checkpoints.write(home)
    except StorageError as error:
        _log.error("the log start offsets cannot be written: %s", error.message)
        for each in moved:
            each.result.error_code, each.result.low_watermark = int(error.code), _NO_LOW_WATERMARK


async def _replicated(services: Services, moved: _Moved, timeout_ms: int) -> None:
    """Wait until no replica on a live broker has the records: one of them may lead next."""
    partition, result, replicas = moved.partition, moved.result, services.replicas
    replica = replicas.get(partition.topic, partition.index) if replicas is not None else None
    if replicas is None or replica is None:
        return
    view = replicas.view

    def attempt(expired: bool) -> int | None:
        partition.check_leading()
        if partition.reign != moved.reign:
            why = f"{replica} has had another leader since its records were deleted"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
        low = replica.low_watermark(view.brokers)
        if low < moved.offset and not expired:
            return None
        if low < moved.offset:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"a follower of {replica} has not deleted the records yet")
        return low

    try:
        low = attempt(False)
        result.low_watermark = await services.purgatory.park((partition,), timeout_ms, attempt) if low is None else low
    except KafkaError as error:
        result.error_code, result.low_watermark = int(error.code), _NO_LOW_WATERMARK


def _delete(
    services: Services, name: str, index: int, offset: int, moved: list[_Moved]
) -> DeleteRecordsPartitionResult:
    try:
        partition, start = _delete_records(services, name, index, offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(index, _NO_LOW_WATERMARK, int(error.code))
    result = DeleteRecordsPartitionResult(index, partition.log.log_start_offset)
    moved.append(_Moved(partition, partition.reign, start, result))
    return result


def _delete_records(services: Services, name: str, index: int, offset: int) -> tuple[Partition, int]:
    """Delete records; return the partition and the offset before which there are none."""
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
    return partition, start
