"""ListOffsets, API key 2: an offset for a time, or for one of the sentinels.

Version 0 returns several offsets, newest first: the end of the log, and where segments begin that were last written
before a time. Kafka dropped it with 4.0. Version 1 brought the offset of a record by its timestamp, 2 isolation levels,
4 leader epochs, 7 the record with the largest timestamp (-3), 8 the earliest on local disk (-4), 9 the latest in tiered
storage (-5), 10 a time-out, 11 the earliest that waits for upload (-6). There is no tiered storage here: everything is
local, -5 and -6 find nothing.

A thread looks up what goes by time: that may wait for the disk, and walk through a segment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...storage.log_view import LogView
from ..network.request import RequestContext
from ..services import Services
from ..topics.disk_reads import read_each, read_from_disk
from ..topics.partition import Partition
from ..topics.partition_state import READ_TO_END

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The version that brought each sentinel. No other negative number is valid.
_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
# From this version on clients know OFFSET_NOT_AVAILABLE.
FIRST_WITH_NOT_AVAILABLE = 5
# The replica ids of clients that are no broker.
CONSUMER = -1
DEBUGGING_CONSUMER = -2
_NO_TIMESTAMP = -1
_NO_OFFSET = -1

# (timestamp, offset, leader epoch)
Found = tuple[int, int, int]
_NOTHING: Found = (_NO_TIMESTAMP, _NO_OFFSET, -1)
# Topic, partition.
_Key = tuple[str, int]
_Search = tuple[Partition, Callable[[LogView], object]]
_NOT_LOOKED_UP = object()


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]:
    """Respond partition by partition. As in Kafka, one that is named twice gets one error."""
    searches = _searches(services, context, request)
    if not searches:
        return _response(services, context, request, {})

    async def search() -> ListOffsetsResponse:
        found = await read_each(read_from_disk(*each, services.threads) for each in searches.values())
        return _response(services, context, request, dict(zip(searches, found, strict=True)))

    return asyncio.ensure_future(search())


def _searches(services: Services, context: RequestContext, request: ListOffsetsRequest) -> dict[_Key, _Search]:
    """Return the look-ups that memory cannot answer: offsets by time, one for each partition."""
    searches: dict[_Key, _Search] = {}
    for topic in request.topics:
        for each in topic.partitions:
            partition = services.topics.partition(topic.name, each.partition_index)
            if partition is None or not partition.is_online:
                continue
            look = _search(partition, each, request, context.api_version)
            if look is not None:
                searches[topic.name, each.partition_index] = partition, look
    return searches


def _search(
    partition: Partition, wanted: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> Callable[[LogView], object] | None:
    timestamp = wanted.timestamp
    if version == 0:
        count = wanted.max_num_offsets
        return (lambda view: view.starts_before(timestamp, count)) if timestamp >= 0 and count >= 0 else None
    if timestamp == MAX_TIMESTAMP:
        return lambda view: view.max_timestamp()
    if timestamp >= 0:
        up_to = _end(partition, request)
        return lambda view: view.find_time(timestamp, up_to)
    return None


def _response(
    services: Services, context: RequestContext, request: ListOffsetsRequest, found: dict[_Key, object]
) -> ListOffsetsResponse:
    times = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update((each.partition_index, each) for each in topic.partitions)
    response = ListOffsetsResponse()
    for name, partitions in topics.items():
        if not partitions:
            # As in Kafka: a topic without partitions is left out.
            continue
        results = [
            _result(services, context, request, name, each, times[name, at] > 1, found.get((name, at), _NOT_LOOKED_UP))
            for at, each in partitions.items()
        ]
        response.topics.append(ListOffsetsTopicResponse(name, results))
    return response


def _result(
    services: Services,
    context: RequestContext,
    request: ListOffsetsRequest,
    name: str,
    wanted: ListOffsetsPartition,
    twice: bool,
    found: object,
) -> ListOffsetsPartitionResponse:
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition is asked for twice")
        _check_version(wanted.timestamp, context.api_version)
        partition = services.topics.partition(name, wanted.partition_index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if context.api_version == 0:
            _check_place(partition, request)
            now_ms = services.clock.now_ms()
            offsets = _offsets_before(partition, wanted.timestamp, wanted.max_num_offsets, now_ms, found)
            return ListOffsetsPartitionResponse(wanted.partition_index, old_style_offsets=offsets)
        partition.check_epoch(wanted.current_leader_epoch)
        _check_place(partition, request)
        timestamp, offset, epoch = _find(partition, wanted.timestamp, _end(partition, request), found)
        is_consumer = request.replica_id == CONSUMER
        if partition.replication is not None and is_consumer and _needs_end(wanted.timestamp, offset):
            partition.replication.check_end_known()
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < FIRST_WITH_NOT_AVAILABLE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(wanted.partition_index, int(code))
    response = ListOffsetsPartitionResponse(wanted.partition_index, timestamp=timestamp, offset=offset)
    if context.api_version >= 4:
        response.leader_epoch = epoch
    return response


def _check_place(partition: Partition, request: ListOffsetsRequest) -> None:
    """Raise NOT_LEADER_OR_FOLLOWER where another broker leads. A debugging consumer may ask any replica."""
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.check_online()
    else:
        partition.check_leading()


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return where the log ends for the client: only a consumer sees no more than what is committed."""
    return partition.end_for(request.isolation_level if request.replica_id == CONSUMER else READ_TO_END)


def _check_version(timestamp: int, version: int) -> None:
    """Raise UNSUPPORTED_VERSION for a sentinel of a later version; version 0 has a rule of its own."""
    if version and timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} cannot be asked for in this version")


def _find(partition: Partition, timestamp: int, end: int, found: object) -> Found:
    """Return the offset for a time or sentinel. `found` is what the look-up found, or the error that it raised."""
    log = partition.log
    match timestamp:
        case -1:
            return _NO_TIMESTAMP, end, partition.leader_epoch
        case -2 | -4:
            return _NO_TIMESTAMP, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset)
        case -3:
            return _largest_timestamp(partition, end, cast(tuple[int, int], _looked_up(found)))
        case -5 | -6:
            return _NOTHING
        case _:
            return cast("Found | None", _looked_up(found)) or _NOTHING


def _needs_end(timestamp: int, offset: int) -> bool:
    """Return whether a higher high watermark may change the answer: a record that was not found may lie behind it."""
    return timestamp == LATEST or (offset == _NO_OFFSET and (timestamp >= 0 or timestamp == MAX_TIMESTAMP))


def _looked_up(found: object) -> object:
    """Return what a look-up found, or raise what it raised."""
    if found is _NOT_LOOKED_UP:
        # The partition was created after the look-ups had begun.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if isinstance(found, KafkaError):
        raise found
    return found


def _offsets_before(partition: Partition, timestamp: int, count: int, now_ms: int, found: object) -> list[int]:
    """Return at most `count` offsets. The end counts as a segment written just now, unless the newest is empty."""
    if timestamp < EARLIEST or count < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {timestamp} or {count} offsets cannot be asked for")
    log, end = partition.log, partition.high_watermark
    if timestamp == EARLIEST:
        return [log.log_start_offset][:count]
    starts = log.latest_starts(count) if timestamp == LATEST else cast("list[int]", _looked_up(found))
    if (timestamp == LATEST or timestamp >= now_ms) and starts[:1] != [end]:
        starts = [end, *starts]
    return starts[:count]


def _largest_timestamp(partition: Partition, end: int, found: tuple[int, int]) -> Found:
    """Return the record with the largest timestamp; as in Kafka nothing, if the reader may not see it yet."""
    timestamp, offset = found
    if not 0 <= offset < end:
        return _NOTHING
    return timestamp, offset, partition.log.epochs.epoch_for(offset)
