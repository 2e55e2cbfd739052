"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: what is wrong with a request, and answers as responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .....protocol.errors import ErrorCode
from .....protocol.messages import consumer_group_describe as describe_api
from .....protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ...interfaces import Topics
from ...outcome import Token
from ..group import Group
from . import target
from .changes import by_topic
from .events import STATIC_LEAVE_EPOCH, Beat, ConsumerHeartbeat, Rejection
from .state import ConsumerGroup, Member, Place

# Since this version a member makes its own id (KIP-1082).
OWN_ID_VERSION = 1

Answer = Beat | Rejection | ErrorCode


def rejection(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> Rejection | None:
    """Return what is wrong with a heartbeat whatever the group is, in Kafka's order and words."""
    why = _invalid(request, version)
    if why is not None:
        return Rejection(ErrorCode.INVALID_REQUEST, why)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        why = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        return Rejection(ErrorCode.UNSUPPORTED_ASSIGNOR, why)
    return None


def _invalid(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    if not request.member_id.strip() and (version >= OWN_ID_VERSION or epoch > 0 or epoch == -1):
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if epoch == 0:
        return _invalid_join(request)
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _invalid_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def heartbeat_event(
    token: Token[Any], request: ConsumerGroupHeartbeatRequest, member_id: str, client_id: str, client_host: str
) -> ConsumerHeartbeat:
    """Return a heartbeat as an event."""
    owned = None
    if request.topic_partitions is not None:
        owned = frozenset((each.topic_id, index) for each in request.topic_partitions for index in each.partitions)
    return ConsumerHeartbeat(
        token,
        member_id,
        request.member_epoch,
        client_id,
        client_host,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        owned,
    )


def heartbeat_response(interval_ms: int) -> Callable[[Answer], ConsumerGroupHeartbeatResponse]:
    """Return the function that makes the response."""

    def respond(answer: Answer) -> ConsumerGroupHeartbeatResponse:
        if isinstance(answer, Rejection):
            return ConsumerGroupHeartbeatResponse(error_code=answer.error, error_message=answer.message)
        if isinstance(answer, ErrorCode):
            return ConsumerGroupHeartbeatResponse(error_code=answer)
        assignment = None
        if answer.assignment is not None:
            topics = by_topic(answer.assignment).items()
            assignment = Assignment([TopicPartitions(topic_id, indexes) for topic_id, indexes in topics])
        return ConsumerGroupHeartbeatResponse(
            member_id=answer.member_id,
            member_epoch=answer.epoch,
            heartbeat_interval_ms=interval_ms if answer.epoch >= 0 else 0,
            assignment=assignment,
        )

    return respond


# -- Descriptions


def describe(group_id: str, group: Group | None, error: ErrorCode) -> describe_api.DescribedGroup:
    """Return a group of ConsumerGroupDescribe, without its members."""
    if error is ErrorCode.NONE and not group_id:
        error = ErrorCode.INVALID_GROUP_ID
    if error is not ErrorCode.NONE:
        return describe_api.DescribedGroup(error_code=error, group_id=group_id)
    if group is None or group.consumer is None:
        is_other = group is not None and (group.recorded or bool(group.roster.members) or group.share is not None)
        why = f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
        not_found = ErrorCode.GROUP_ID_NOT_FOUND
        return describe_api.DescribedGroup(error_code=not_found, error_message=why, group_id=group_id)
    body = group.consumer
    return describe_api.DescribedGroup(
        group_id=group_id,
        group_state=body.state.value,
        group_epoch=body.epoch,
        assignment_epoch=body.assignment_epoch,
        assignor_name=target.assignor_of(body, group.limits.consumer.assignors),
    )


def add_members(described: describe_api.DescribedGroup, body: ConsumerGroup, topics: Topics) -> Iterator[int]:
    """Add the members to a description, one a step."""
    for member in list(body.members.values()):
        described.members.append(_described(member, topics))
        yield 1 + len(member.target)


def _described(member: Member, topics: Topics) -> describe_api.Member:
    said, now = member.said, member.current
    assert said is not None
    return describe_api.Member(
        member.member_id,
        said.instance_id,
        said.rack_id,
        now.epoch,
        said.client_id,
        said.client_host,
        list(said.subscribed_topic_names),
        said.subscribed_topic_regex,
        _assignment((*now.assigned, *now.revoking), topics),
        _assignment(member.target, topics),
        member_type=1 if said.classic_member_metadata is None else 0,
    )


def _assignment(places: Iterable[Place], topics: Topics) -> describe_api.Assignment:
    """Return partitions with the names of their topics. A deleted topic is left out."""
    listed: list[describe_api.TopicPartitions] = []
    for topic_id, indexes in by_topic(places).items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            listed.append(describe_api.TopicPartitions(topic_id, topic.name, indexes))
    return describe_api.Assignment(listed)
