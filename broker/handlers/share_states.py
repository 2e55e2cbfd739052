"""The requests 83 to 87 about share states, which only brokers send. The share coordinator answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.apis import message
from ...protocol.errors import KafkaError
from ...protocol.messages import delete_share_group_state as delete_api
from ...protocol.messages import initialize_share_group_state as initialize_api
from ...protocol.messages import read_share_group_state as read_api
from ...protocol.messages import read_share_group_state_summary as summary_api
from ...protocol.messages import write_share_group_state as write_api
from ..coordination.calls import Eventual, combine
from ..coordination.share_states import events
from ..coordination.share_states.kept_state import state_batches
from ..coordination.share_states.share_state import ShareKey, ShareState
from ..network.request import RequestContext
from ..services import Services
from ..turns import fill


def initialize_share_group_state(
    services: Services, context: RequestContext, request: initialize_api.InitializeShareGroupStateRequest
) -> Eventual[initialize_api.InitializeShareGroupStateResponse]:
    """InitializeShareGroupState, API key 83."""

    def event(token: Any, part: initialize_api.PartitionData) -> events.Initialize:
        return events.Initialize(token, part.state_epoch, part.start_offset)

    return _each(services, context, request, event, initialize_api, initialize_api.InitializeStateResult)


def read_share_group_state(
    services: Services, context: RequestContext, request: read_api.ReadShareGroupStateRequest
) -> Eventual[read_api.ReadShareGroupStateResponse]:
    """ReadShareGroupState, API key 84."""

    def event(token: Any, part: read_api.PartitionData) -> events.Read:
        return events.Read(token, part.leader_epoch)

    def fields_of(state: ShareState) -> dict[str, Any]:
        batches = [read_api.StateBatch(*each) for each in state.batches]
        epoch, start_offset = state.state_epoch, state.start_offset
        return {
            "start_is_chosen": state.is_chosen,
            "state_epoch": epoch,
            "start_offset": start_offset,
            "state_batches": batches,
        }

    return _each(services, context, request, event, read_api, read_api.ReadStateResult, fields_of)


def write_share_group_state(
    services: Services, context: RequestContext, request: write_api.WriteShareGroupStateRequest
) -> Eventual[write_api.WriteShareGroupStateResponse]:
    """WriteShareGroupState, API key 85."""

    def event(token: Any, part: write_api.PartitionData) -> events.Write:
        batches = state_batches(part.state_batches)
        epochs = part.state_epoch, part.leader_epoch
        return events.Write(token, *epochs, part.start_offset, part.delivery_complete_count, batches)

    return _each(services, context, request, event, write_api, write_api.WriteStateResult)


def delete_share_group_state(
    services: Services, context: RequestContext, request: delete_api.DeleteShareGroupStateRequest
) -> Eventual[delete_api.DeleteShareGroupStateResponse]:
    """DeleteShareGroupState, API key 86."""
    return _each(
        services, context, request, lambda token, _: events.Delete(token), delete_api, delete_api.DeleteStateResult
    )


def read_share_group_state_summary(
    services: Services, context: RequestContext, request: summary_api.ReadShareGroupStateSummaryRequest
) -> Eventual[summary_api.ReadShareGroupStateSummaryResponse]:
    """ReadShareGroupStateSummary, API key 87."""

    def fields_of(state: ShareState) -> dict[str, Any]:
        return {
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
        }

    return _each(
        *(services, context, request),
        lambda token, _: events.Summarize(token),
        *(summary_api, summary_api.ReadStateSummaryResult, fields_of),
    )


def _each(
    services: Services,
    context: RequestContext,
    request: Any,
    event: Callable[[Any, Any], events.Request],
    api: Any,
    result: Callable[..., Any],
    fields_of: Callable[[ShareState], dict[str, Any]] = lambda _: {},
) -> Any:
    """Return the response of all partitions. As in Kafka a group without a name, and no partitions, get none.

    `event` is what the coordinator is asked of a partition, `fields_of` the fields of its answer.
    """
    topics = [topic for topic in request.topics if topic.partitions] if request.group_id else []

    def one(topic_id: bytes, part: Any) -> Any:
        def respond_one(answer: events.Answer) -> Any:
            if isinstance(answer, KafkaError):
                return api.PartitionResult(part.partition, error_code=int(answer.code), error_message=answer.message)
            return api.PartitionResult(part.partition, **({} if answer is None else fields_of(answer)))

        key = ShareKey(request.group_id, topic_id, part.partition)
        return services.share_states.ask(key, lambda token: event(token, part), respond_one)

    def respond(done: list[Any]) -> Any:
        left = iter(done)
        results = [result(topic.topic_id, [next(left) for _ in topic.partitions]) for topic in topics]
        response: Any = message(context.api_key, "response")
        # A state may have ten thousand batches, which are encoded in a thread.
        values = sum(len(getattr(each, "state_batches", ())) for each in done)
        return fill(response(results=results), iter(()), values)

    return combine([one(topic.topic_id, part) for topic in topics for part in topic.partitions], respond)
