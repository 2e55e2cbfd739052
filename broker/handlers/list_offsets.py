"""ListOffsets, API key 2: an offset for a time, or for one of the sentinels.

Version 0 gives up to so many offsets, newest first: where segments begin that were last written to before a time, and
the end of the log; Kafka dropped it with 4.0. Version 1 brought the offset of a record by its timestamp.
Version 2 brought isolation levels, 4 leader epochs, 7 the record with the largest timestamp (-3), 8 the earliest on
local disk (-4), 9 the latest in tiered storage (-5), 10 a time-out, 11 the earliest that waits for upload (-6). There
is no tiered storage here: local is all, -5 and -6 find nothing.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ..dispatch import RequestContext
from ..partition import Partition

if TYPE_CHECKING:
    from ..server import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The version from which a sentinel may be asked for. No other negative number may be.
_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NO_TIMESTAMP = -1
_NO_OFFSET = -1
_NO_EPOCH = -1

# (timestamp, offset, leader epoch)
Found = tuple[int, int, int]


def handle(broker: "Broker", context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answers partition by partition; one named twice is refused, once, as Kafka does."""
    times = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update((each.partition_index, each) for each in topic.partitions)
    response = ListOffsetsResponse()
    for name, asked in topics.items():
        answers = [_answer(broker, context, request, name, each, times[name, at] > 1) for at, each in asked.items()]
        response.topics.append(ListOffsetsTopicResponse(name, answers))
    return response


def _answer(
    broker: "Broker",
    context: RequestContext,
    request: ListOffsetsRequest,
    name: str,
    asked: ListOffsetsPartition,
    twice: bool,
) -> ListOffsetsPartitionResponse:
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition is asked for twice")
        topic = broker.topics.get(name)
        partition = topic.partition(asked.partition_index) if topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if context.api_version == 0:
            offsets = _offsets_before(partition, asked.timestamp, asked.max_num_offsets, broker.clock.now_ms())
            return ListOffsetsPartitionResponse(asked.partition_index, old_style_offsets=offsets)
        partition.check_epoch(asked.current_leader_epoch)
        timestamp, offset, epoch = _find(partition, asked.timestamp, request.isolation_level, context.api_version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(asked.partition_index, int(error.code))
    response = ListOffsetsPartitionResponse(asked.partition_index, timestamp=timestamp, offset=offset)
    if context.api_version >= 4:
        response.leader_epoch = epoch
    return response


def _find(partition: Partition, timestamp: int, isolation_level: int, version: int) -> Found:
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} cannot be asked for in this version")
    log = partition.log
    match timestamp:
        case -1:
            end = partition.end_for(isolation_level)
            return _NO_TIMESTAMP, end, partition.leader_epoch
        case -2 | -4:
            return _NO_TIMESTAMP, log.log_start_offset, log.epochs.epoch_for(log.log_start_offset)
        case -3:
            return _largest_timestamp(partition, partition.end_for(isolation_level))
        case -5 | -6:
            return _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH
        case _:
            found = log.find_time(timestamp, partition.end_for(isolation_level))
            return found if found is not None else (_NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH)


def _offsets_before(partition: Partition, timestamp: int, count: int, now_ms: int) -> list[int]:
    """The end of the log counts as a segment that is written to just now, unless the newest one is empty."""
    if timestamp < EARLIEST or count < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {timestamp} or {count} offsets cannot be asked for")
    log, end = partition.log, partition.high_watermark
    if timestamp == EARLIEST:
        return [log.log_start_offset][:count]
    found = log.starts_before(None if timestamp == LATEST else timestamp, count)
    if (timestamp == LATEST or timestamp >= now_ms) and found[:1] != [end]:
        found = [end, *found]
    return found[:count]


def _largest_timestamp(partition: Partition, end: int) -> Found:
    """As Kafka: nothing, rather than another record, where that record may not be seen yet."""
    timestamp, offset = partition.log.max_timestamp()
    if not 0 <= offset < end:
        return _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH
    return timestamp, offset, partition.log.epochs.epoch_for(offset)
