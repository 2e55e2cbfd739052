"""DescribeProducers, API key 61: whom a partition remembers, and which of them has a transaction open (KIP-664).

Version 0 is the only one. An operator finds a hanging transaction by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ...storage.producers import ProducerStates
    from ..dispatch import RequestContext
    from ..server import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answers partition by partition."""
    response = DescribeProducersResponse()
    for asked in request.topics:
        topic = broker.topics.get(asked.name)
        answers: list[PartitionResponse] = []
        for index in asked.partition_indexes:
            partition = topic.partition(index) if topic is not None else None
            if partition is None:
                # As Kafka: a sentence where the topic is not there, none where the partition is not.
                why = None if topic is not None else f"there is no topic {asked.name}"
                answers.append(PartitionResponse(index, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), why))
            else:
                answers.append(PartitionResponse(index, active_producers=_states(partition.log.producers)))
        response.topics.append(TopicResponse(asked.name, answers))
    return response


def _states(producers: ProducerStates) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id,
            each.epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            each.current_txn_first_offset,
        )
        for producer_id, each in producers.items()
    ]
