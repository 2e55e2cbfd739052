"""ShareGroupHeartbeat and ShareGroupDescribe: what is wrong with a request, and answers as responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .....protocol.errors import ErrorCode
from .....protocol.messages import share_group_describe as describe_api
from .....protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ...interfaces import Topics
from ..consumer.changes import by_topic
from ..consumer.events import Beat, Rejection
from ..consumer.state import Place
from ..group import Group
from .events import LEAVE_EPOCH
from .state import Member, ShareGroup

# A member id is a UUID that the client has made, or as long.
MAX_MEMBER_ID = 36

Answer = Beat | Rejection | ErrorCode


def rejection(request: ShareGroupHeartbeatRequest) -> Rejection | None:
    """Return what is wrong with a heartbeat whatever the group is, in Kafka's order and words."""
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
        return Rejection(ErrorCode.INVALID_REQUEST)
    why = _invalid(request)
    return None if why is None else Rejection(ErrorCode.INVALID_REQUEST, why)


def _invalid(request: ShareGroupHeartbeatRequest) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVE_EPOCH else None


def heartbeat_response(interval_ms: int) -> Callable[[Answer], ShareGroupHeartbeatResponse]:
    """Return the function that makes the response."""

    def respond(answer: Answer) -> ShareGroupHeartbeatResponse:
        if isinstance(answer, Rejection):
            return ShareGroupHeartbeatResponse(error_code=answer.error, error_message=answer.message)
        if isinstance(answer, ErrorCode):
            return ShareGroupHeartbeatResponse(error_code=answer)
        assignment = None
        if answer.assignment is not None:
            topics = by_topic(answer.assignment).items()
            assignment = Assignment([TopicPartitions(topic_id, indexes) for topic_id, indexes in topics])
        return ShareGroupHeartbeatResponse(
            member_id=answer.member_id,
            member_epoch=answer.epoch,
            heartbeat_interval_ms=interval_ms if answer.epoch >= 0 else 0,
            assignment=assignment,
        )

    return respond


# -- Descriptions


def not_share(group_id: str, group: Group | None) -> Rejection | None:
    """Return why a group is no share group, None if it is one."""
    if group is not None and group.share is not None:
        return None
    is_other = group is not None and not group.is_new()
    why = f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."
    return Rejection(ErrorCode.GROUP_ID_NOT_FOUND, why)


def describe(group_id: str, group: Group | None, error: ErrorCode, assignor: str) -> describe_api.DescribedGroup:
    """Return a group of ShareGroupDescribe, without its members."""
    if error is ErrorCode.NONE and not group_id:
        error = ErrorCode.INVALID_GROUP_ID
    if error is not ErrorCode.NONE:
        return describe_api.DescribedGroup(error_code=error, group_id=group_id)
    missing = not_share(group_id, group)
    if missing is not None:
        return describe_api.DescribedGroup(error_code=missing.error, error_message=missing.message, group_id=group_id)
    assert group is not None and group.share is not None
    body = group.share
    return describe_api.DescribedGroup(
        group_id=group_id,
        group_state=body.state.value,
        group_epoch=body.epoch,
        assignment_epoch=body.assignment_epoch,
        assignor_name=assignor,
    )


def add_members(described: describe_api.DescribedGroup, body: ShareGroup, topics: Topics) -> Iterator[int]:
    """Add the members to a description, one a step."""
    for member in list(body.members.values()):
        described.members.append(_described(member, topics))
        yield 1 + len(member.current.assigned)


def _described(member: Member, topics: Topics) -> describe_api.Member:
    said, now = member.said, member.current
    assert said is not None
    return describe_api.Member(
        member.member_id,
        said.rack_id,
        now.epoch,
        said.client_id,
        said.client_host,
        list(said.subscribed_topic_names),
        _assignment(now.assigned, topics),
    )


def _assignment(places: Iterable[Place], topics: Topics) -> describe_api.Assignment:
    """Return partitions with the names of their topics. A deleted topic is left out."""
    listed: list[describe_api.TopicPartitions] = []
    for topic_id, indexes in by_topic(places).items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            listed.append(describe_api.TopicPartitions(topic_id, topic.name, indexes))
    return describe_api.Assignment(listed)
