"""Transaction requests: what their versions say, and how each version words the response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ....protocol.errors import ErrorCode
from ....protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ....protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ...topics.topic_names import INTERNAL_TOPICS
from ..calls import Eventual, combine
from ..interfaces import Topics
from .events import Producer, Verified
from .records import KEEPS_EPOCH, NO_EPOCH, NO_ID, RAISES_EPOCH, TopicPartition

# From these versions on, clients know PRODUCER_FENCED: AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, InitProducerId.
FENCED_VERSION = 2
INIT_FENCED_VERSION = 4
# From this version on, an AddPartitionsToTxn has several transactions.
BATCH_VERSION = 4
# From this version on, the client of an EndTxn takes the next epoch from the response (KIP-890).
END_RAISES_EPOCH_VERSION = 5

ResponseT = TypeVar("ResponseT")


class Addition(NamedTuple):
    """One transaction of an AddPartitionsToTxn of any version, and the partitions to add."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    client_version: int
    topics: list[AddPartitionsToTxnTopic]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic.name, index) for topic in self.topics for index in topic.partitions)


def fenced(error: ErrorCode, version: int, since: int = FENCED_VERSION) -> ErrorCode:
    """Return the error with its older name if the client does not know PRODUCER_FENCED."""
    too_old = error is ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if too_old else error


def producer_response(
    response: Callable[..., ResponseT], version: int, since: int = FENCED_VERSION
) -> Callable[[Producer], ResponseT]:
    """Return the function that makes the response of an InitProducerId or EndTxn; see `fenced`."""

    def respond(answer: Producer) -> ResponseT:
        error = fenced(answer.error, version, since)
        if error is not ErrorCode.NONE:
            return response(error_code=error, producer_id=NO_ID, producer_epoch=NO_EPOCH)
        return response(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    return respond


def offsets_response(version: int) -> Callable[[ErrorCode], AddOffsetsToTxnResponse]:
    """Return the function that makes the response of an AddOffsetsToTxn."""
    return lambda error: AddOffsetsToTxnResponse(error_code=fenced(error, version))


# -- AddPartitionsToTxn


def additions(request: AddPartitionsToTxnRequest, version: int) -> list[Addition]:
    """Return the transactions of a request: one of a client, or several of another broker."""
    if version < BATCH_VERSION:
        one = Addition(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            KEEPS_EPOCH,
            request.v3_and_below_topics,
        )
        return [one]
    return [
        Addition(
            each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only, RAISES_EPOCH, each.topics
        )
        for each in request.transactions
    ]


def rejected_partitions(addition: Addition, topics: Topics, version: int) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that cannot be in a transaction: they do not exist, or are internal to the broker."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for place in addition.partitions:
        name, index = place
        topic = topics.get(name)
        # Other brokers add the groups' partitions here, clients by AddOffsetsToTxn.
        if version < BATCH_VERSION and name in INTERNAL_TOPICS:
            errors[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or topic.partition(index) is None:
            errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def none_added(addition: Addition, errors: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResult:
    """Return the result when some partitions are rejected: the others are not attempted."""
    return _result(addition, lambda place: errors.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED))


def added(addition: Addition, version: int) -> Callable[[Verified | ErrorCode], AddPartitionsToTxnResult]:
    """Return the function that makes one transaction's result."""

    def respond(answer: Verified | ErrorCode) -> AddPartitionsToTxnResult:
        if isinstance(answer, Verified):
            # Also in version 4, as in Kafka: only brokers use it.
            return _result(
                addition, lambda place: ErrorCode.NONE if place in answer.added else ErrorCode.TRANSACTION_ABORTABLE
            )
        error = fenced(answer, version)
        return _result(addition, lambda place: error)

    return respond


def added_response(
    results: Sequence[Eventual[AddPartitionsToTxnResult]], version: int
) -> Eventual[AddPartitionsToTxnResponse]:
    """Return the response of an AddPartitionsToTxn, once the last transaction has its result."""

    def respond(parts: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        if version >= BATCH_VERSION:
            return AddPartitionsToTxnResponse(results_by_transaction=parts)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=parts[0].topic_results)

    return combine(results, respond)


def _result(addition: Addition, error_of: Callable[[TopicPartition], ErrorCode]) -> AddPartitionsToTxnResult:
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, error_of(TopicPartition(topic.name, index)))
                for index in topic.partitions
            ],
        )
        for topic in addition.topics
    ]
    return AddPartitionsToTxnResult(addition.transactional_id, topics)
