"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: what is wrong with a request, and answers as responses."""

from __future__ import annotations

from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages import consumer_group_describe as describe_api
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ....protocol.primitives import BLANKS
from ..groups.group import Group
from ..interfaces import Topics
from ..modern.events import Rejection
from ..modern.responses import Description, assignment
from ..outcome import Token
from . import target
from .events import STATIC_LEAVE_EPOCH, ConsumerHeartbeat
from .state import Member

# Since this version a member makes its own id (KIP-1082).
OWN_ID_VERSION = 1


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
    if not request.member_id.strip(BLANKS) and (version >= OWN_ID_VERSION or epoch > 0 or epoch == -1):
        return "MemberId can't be empty."
    if not request.group_id.strip(BLANKS):
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip(BLANKS):
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip(BLANKS):
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


def not_consumer(group_id: str, group: Group | None) -> Rejection | None:
    """Return why a group is no consumer group, None if it is one."""
    if group is not None and group.consumer is not None:
        return None
    is_other = group is not None and (group.recorded or bool(group.roster.members) or group.share is not None)
    why = f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
    return Rejection(ErrorCode.GROUP_ID_NOT_FOUND, why)


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
        said.subscribed_topic_regex or "",  # as in Kafka, though the response could say null
        assignment(describe_api, (*now.assigned, *now.revoking), topics),
        assignment(describe_api, member.target, topics),
        member_type=1 if said.classic_member_metadata is None else 0,
    )


CONSUMER_DESCRIPTION = Description(
    describe_api,
    describe_api.ConsumerGroupDescribeResponse,
    not_consumer,
    lambda group: group.consumer,
    target.assignor_of,
    _described,
)
