"""Requests of transactions as events, and answers as responses: where their versions differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
from ....protocol.messages.end_txn import EndTxnResponse
from ....protocol.messages.init_producer_id import InitProducerIdResponse
from ..interfaces import Topics
from .events import Answer, Producer, Verified
from .records import KEEPS_EPOCH, NO_EPOCH, NO_ID, RAISES_EPOCH, TopicPartition

FENCED_VERSION = 2
"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn may say PRODUCER_FENCED from here on, InitProducerId from..."""
INIT_FENCED_VERSION = 4
BATCH_VERSION = 4
"""AddPartitionsToTxn: several transactions at once."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
END_RAISES_EPOCH_VERSION = 5
"""EndTxn: the client takes the next epoch from the answer (KIP-890)."""


class Asked(NamedTuple):
    """One transaction of an AddPartitionsToTxn, whatever its version."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    client_version: int
    topics: list[AddPartitionsToTxnTopic]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset((topic.name, index) for topic in self.topics for index in topic.partitions)


def fenced(error: ErrorCode, version: int, since: int = FENCED_VERSION) -> ErrorCode:
    """PRODUCER_FENCED under its older name, where the client does not know the new one."""
    too_old = error is ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if too_old else error


def init_response(version: int) -> Callable[[Producer], InitProducerIdResponse]:
    """Makes the response of an InitProducerId."""

    def respond(answer: Producer) -> InitProducerIdResponse:
        error = fenced(answer.error, version, INIT_FENCED_VERSION)
        if error is not ErrorCode.NONE:
            return InitProducerIdResponse(error_code=error, producer_id=NO_ID, producer_epoch=NO_EPOCH)
        return InitProducerIdResponse(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    return respond


def end_response(version: int) -> Callable[[Producer], EndTxnResponse]:
    """Makes the response of an EndTxn."""

    def respond(answer: Producer) -> EndTxnResponse:
        error = fenced(answer.error, version)
        if error is not ErrorCode.NONE:
            return EndTxnResponse(error_code=error)
        return EndTxnResponse(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    return respond


def offsets_response(version: int) -> Callable[[ErrorCode], AddOffsetsToTxnResponse]:
    """Makes the response of an AddOffsetsToTxn."""
    return lambda error: AddOffsetsToTxnResponse(error_code=fenced(error, version))


# AddPartitionsToTxn.


def asked_of(request: AddPartitionsToTxnRequest, version: int) -> list[Asked]:
    """The transactions that a request is about: one, or several among brokers."""
    if version < BATCH_VERSION:
        one = Asked(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            False,
            KEEPS_EPOCH,
            request.v3_and_below_topics,
        )
        return [one]
    return [
        Asked(each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only, RAISES_EPOCH, each.topics)
        for each in request.transactions
    ]


def refused(asked: Asked, topics: Topics, version: int) -> dict[TopicPartition, ErrorCode]:
    """The partitions that cannot be in a transaction: they do not exist, or a client asks for the broker's own."""
    errors: dict[TopicPartition, ErrorCode] = {}
    for name, index in asked.partitions:
        topic = topics.get(name)
        # Brokers bring the groups' partitions in, clients by AddOffsetsToTxn.
        if version < BATCH_VERSION and name in INTERNAL_TOPICS:
            errors[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or topic.partition(index) is None:
            errors[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def none_added(asked: Asked, errors: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResult:
    """All or none: where partitions are refused the others are not even tried."""
    return _result(asked, lambda place: errors.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED))


def added(asked: Asked, version: int) -> Callable[[Answer], AddPartitionsToTxnResult]:
    """Makes one transaction's part of the response."""

    def respond(answer: Answer) -> AddPartitionsToTxnResult:
        if isinstance(answer, Verified):
            # In version 4 too, as Kafka does; it is among brokers.
            return _result(
                asked, lambda place: ErrorCode.NONE if place in answer.added else ErrorCode.TRANSACTION_ABORTABLE
            )
        assert isinstance(answer, ErrorCode)
        error = fenced(answer, version)
        return _result(asked, lambda place: error)

    return respond


def added_response(
    results: Sequence[AddPartitionsToTxnResult | asyncio.Future[AddPartitionsToTxnResult]], version: int
) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
    """The response of an AddPartitionsToTxn, once the last transaction has answered."""
    waiting = [each for each in results if isinstance(each, asyncio.Future)]

    def response() -> AddPartitionsToTxnResponse:
        parts = [each.result() if isinstance(each, asyncio.Future) else each for each in results]
        if version >= BATCH_VERSION:
            return AddPartitionsToTxnResponse(results_by_transaction=parts)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=parts[0].topic_results)

    if not waiting:
        return response()
    future: asyncio.Future[AddPartitionsToTxnResponse] = asyncio.get_running_loop().create_future()

    def answered(_: asyncio.Future[AddPartitionsToTxnResult]) -> None:
        if not future.done() and all(each.done() for each in waiting):
            future.set_result(response())

    for each in waiting:
        each.add_done_callback(answered)
    return future


def _result(asked: Asked, error_of: Callable[[TopicPartition], ErrorCode]) -> AddPartitionsToTxnResult:
    topics = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, error_of((topic.name, index))) for index in topic.partitions],
        )
        for topic in asked.topics
    ]
    return AddPartitionsToTxnResult(asked.transactional_id, topics)
