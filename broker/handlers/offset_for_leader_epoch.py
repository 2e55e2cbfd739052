"""OffsetForLeaderEpoch, API key 23: where the records of a leader epoch end (KIP-320).

After a crash the leader epoch is higher. A consumer learns here where the epoch that it knew ended, and so whether
records that it has read are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ..network.request import RequestContext

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return one result for each partition. An error of one does not affect the others."""
    topics = [
        OffsetForLeaderTopicResult(asked.topic, [_answer(services, asked.topic, each) for each in asked.partitions])
        for asked in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(services: Services, name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        topic = services.topics.get(name)
        partition = topic.partition(asked.partition) if topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(int(error.code), asked.partition)
    epoch, end_offset = partition.log.epochs.end_offset_for(asked.leader_epoch, partition.log.log_end_offset)
    return EpochEndOffset(0, asked.partition, epoch, end_offset)
