"""DescribeProducers, API key 61: the producers of a partition, and their open transactions (KIP-664).

Version 0 is the only one. Operators use it to find hanging transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...storage.producers import ProducerStates
from ..network.request import RequestContext
from ..services import Services
from ..topics.topic import Topic
from ..topics.topic_names import check_name
from ..turns import LargeResponse, fill

Describe = Callable[[int], PartitionResponse]


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | LargeResponse[DescribeProducersResponse]:
    """Describe each partition on its own, and once: an error concerns one partition."""
    response = DescribeProducersResponse()
    values = 0
    steps: list[Iterator[int]] = []
    for asked in request.topics:
        topic = services.topics.get(asked.name)
        describe = _unknown_topic(asked.name) if topic is None else _partitions_of(topic)
        partitions = [describe(index) for index in dict.fromkeys(asked.partition_indexes)]
        response.topics.append(TopicResponse(asked.name, partitions))
        values += len(partitions)
        for each in partitions:
            if topic is not None and not each.error_code:
                producers = topic.partitions[each.partition_index].log.producers
                values += len(producers)
                steps.append(_add_states(each, producers))
    return fill(response, chain.from_iterable(steps), values)


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
            partition.check_leading()
        except KafkaError as error:
            return PartitionResponse(index, int(error.code), error.message)
        return PartitionResponse(index)

    return describe


def _add_states(response: PartitionResponse, producers: ProducerStates) -> Iterator[int]:
    """Add the producers of a partition, as they are in the turn in which they are added."""
    for producer_id, each in list(producers.items()):
        state = ProducerState(
            producer_id,
            each.epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            each.current_txn_first_offset,
        )
        response.active_producers.append(state)
        yield 1
