"""ListOffsets, API key 2: an offset for a time, or for one of the sentinels.

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
            return _largest_timestamp(partition)
        case -5 | -6:
            return _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH
        case _:
            found = log.find_time(timestamp, partition.end_for(isolation_level))
            return found if found is not None else (_NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH)


def _largest_timestamp(partition: Partition) -> Found:
    timestamp, offset = partition.log.max_timestamp()
    if offset < 0:
        return _NO_TIMESTAMP, _NO_OFFSET, _NO_EPOCH
    return timestamp, offset, partition.log.epochs.epoch_for(offset)
