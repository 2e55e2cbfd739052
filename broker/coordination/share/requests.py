"""The requests 83 to 87 about share states: as events of the machine, and its answers as responses.

Only brokers send them. They are imported when the first one comes (network/routes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.errors import KafkaError
from ....protocol.messages import delete_share_group_state as delete_api
from ....protocol.messages import initialize_share_group_state as initialize_api
from ....protocol.messages import read_share_group_state as read_api
from ....protocol.messages import read_share_group_state_summary as summary_api
from ....protocol.messages import write_share_group_state as write_api
from ..calls import Call, Eventual, combine
from ..interfaces import Context
from . import events
from .kept_state import state_batches
from .persister import ShareKey, ShareState

# Makes the event of a call for one partition of a request.
Ask = Callable[[ShareKey, Callable[[Call[events.Answer, Any]], events.Request], Callable[[events.Answer], Any]], Any]


def initialize(
    ask: Ask, context: Context, request: initialize_api.InitializeShareGroupStateRequest
) -> Eventual[initialize_api.InitializeShareGroupStateResponse]:
    """Answer an InitializeShareGroupState."""

    def one(key: ShareKey, part: initialize_api.PartitionData) -> Eventual[initialize_api.PartitionResult]:
        return ask(
            key,
            lambda token: events.Initialize(token, part.state_epoch, part.start_offset),
            lambda answer: initialize_api.PartitionResult(part.partition, *_error(answer)),
        )

    return _each(request, one, initialize_api.InitializeStateResult, initialize_api.InitializeShareGroupStateResponse)


def read(
    ask: Ask, context: Context, request: read_api.ReadShareGroupStateRequest
) -> Eventual[read_api.ReadShareGroupStateResponse]:
    """Answer a ReadShareGroupState."""

    def one(key: ShareKey, part: read_api.PartitionData) -> Eventual[read_api.PartitionResult]:
        def respond(answer: events.Answer) -> read_api.PartitionResult:
            if not isinstance(answer, ShareState):
                return read_api.PartitionResult(part.partition, *_error(answer))
            batches = [read_api.StateBatch(*each) for each in answer.batches]
            return read_api.PartitionResult(
                part.partition, state_epoch=answer.state_epoch, start_offset=answer.start_offset, state_batches=batches
            )

        return ask(key, lambda token: events.Read(token, part.leader_epoch), respond)

    return _each(request, one, read_api.ReadStateResult, read_api.ReadShareGroupStateResponse)


def write(
    ask: Ask, context: Context, request: write_api.WriteShareGroupStateRequest
) -> Eventual[write_api.WriteShareGroupStateResponse]:
    """Answer a WriteShareGroupState."""

    def one(key: ShareKey, part: write_api.PartitionData) -> Eventual[write_api.PartitionResult]:
        def event(token: Call[events.Answer, Any]) -> events.Write:
            return events.Write(
                token,
                part.state_epoch,
                part.leader_epoch,
                part.start_offset,
                part.delivery_complete_count,
                state_batches(part.state_batches),
            )

        return ask(key, event, lambda answer: write_api.PartitionResult(part.partition, *_error(answer)))

    return _each(request, one, write_api.WriteStateResult, write_api.WriteShareGroupStateResponse)


def delete(
    ask: Ask, context: Context, request: delete_api.DeleteShareGroupStateRequest
) -> Eventual[delete_api.DeleteShareGroupStateResponse]:
    """Answer a DeleteShareGroupState."""

    def one(key: ShareKey, part: delete_api.PartitionData) -> Eventual[delete_api.PartitionResult]:
        return ask(key, events.Delete, lambda answer: delete_api.PartitionResult(part.partition, *_error(answer)))

    return _each(request, one, delete_api.DeleteStateResult, delete_api.DeleteShareGroupStateResponse)


def summarize(
    ask: Ask, context: Context, request: summary_api.ReadShareGroupStateSummaryRequest
) -> Eventual[summary_api.ReadShareGroupStateSummaryResponse]:
    """Answer a ReadShareGroupStateSummary."""

    def one(key: ShareKey, part: summary_api.PartitionData) -> Eventual[summary_api.PartitionResult]:
        def respond(answer: events.Answer) -> summary_api.PartitionResult:
            if not isinstance(answer, ShareState):
                return summary_api.PartitionResult(part.partition, *_error(answer))
            return summary_api.PartitionResult(
                part.partition,
                state_epoch=answer.state_epoch,
                leader_epoch=answer.leader_epoch,
                start_offset=answer.start_offset,
                delivery_complete_count=answer.delivery_complete_count,
            )

        return ask(key, events.Summarize, respond)

    return _each(request, one, summary_api.ReadStateSummaryResult, summary_api.ReadShareGroupStateSummaryResponse)


def _each(
    request: Any, one: Callable[[ShareKey, Any], Any], result: Callable[..., Any], response: Callable[..., Any]
) -> Any:
    """Return the response of all partitions. As in Kafka a group without a name, and no partitions, get none."""
    topics = [topic for topic in request.topics if topic.partitions] if request.group_id else []
    parts = [
        one(ShareKey(request.group_id, topic.topic_id, part.partition), part)
        for topic in topics
        for part in topic.partitions
    ]

    def respond(done: list[Any]) -> Any:
        left = iter(done)
        return response(results=[result(topic.topic_id, [next(left) for _ in topic.partitions]) for topic in topics])

    return combine(parts, respond)


def _error(answer: events.Answer) -> tuple[int, str | None]:
    return (int(answer.code), answer.message) if isinstance(answer, KafkaError) else (0, None)
