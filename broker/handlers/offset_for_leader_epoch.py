"""OffsetForLeaderEpoch, API key 23: where the records of a leader epoch end (KIP-320).

After a crash the leader epoch is higher. A consumer learns here where the epoch that it knew ended, and so whether
records that it has read are lost.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ..network.request import RequestContext
from ..services import Services


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return one result for each partition. An error of one does not affect the others."""
    topics = [
        OffsetForLeaderTopicResult(topic.topic, [_result(services, topic.topic, each) for each in topic.partitions])
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _result(services: Services, name: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = services.topics.partition(name, requested.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_epoch(requested.current_leader_epoch)
        partition.check_leading()
    except KafkaError as error:
        return EpochEndOffset(int(error.code), requested.partition)
    epoch, end_offset = partition.log.epochs.end_offset_for(requested.leader_epoch, partition.log.log_end_offset)
    return EpochEndOffset(0, requested.partition, epoch, end_offset)
