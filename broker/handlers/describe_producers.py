"""DescribeProducers, API key 61: the producers of a partition, and their open transactions (KIP-664).

Version 0 is the only one. Operators use it to find hanging transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ..topics.topic_names import check_name

if TYPE_CHECKING:
    from ...storage.producers import ProducerStates
    from ..network.request import RequestContext
    from ..services import Services
    from ..topics.topic import Topic

Describe = Callable[[int], PartitionResponse]


def handle(services: Services, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Describe each partition on its own: an error concerns one partition."""
    response = DescribeProducersResponse()
    for asked in request.topics:
        topic = services.topics.get(asked.name)
        describe = _unknown_topic(asked.name) if topic is None else _partitions_of(topic)
        response.topics.append(TopicResponse(asked.name, [describe(index) for index in asked.partition_indexes]))
    return response


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
            partition.check_online()
        except KafkaError as error:
            return PartitionResponse(index, int(error.code), error.message)
        return PartitionResponse(index, active_producers=_states(partition.log.producers))

    return describe


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
