"""ShareGroupHeartbeat and ShareGroupDescribe: what is wrong with a request, and answers as responses."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages import share_group_describe as describe_api
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ....protocol.primitives import BLANKS
from ..interfaces import Topics
from ..modern.events import LEAVE_EPOCH, Rejection
from ..modern.responses import Description, assignment
from .initialization import not_share
from .state import Member

# A member id is a UUID that the client has made, or as long.
MAX_MEMBER_ID = 36


def rejection(request: ShareGroupHeartbeatRequest) -> Rejection | None:
    """Return what is wrong with a heartbeat whatever the group is, in Kafka's order and words."""
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
        return Rejection(ErrorCode.INVALID_REQUEST)
    why = _invalid(request)
    return None if why is None else Rejection(ErrorCode.INVALID_REQUEST, why)


def _invalid(request: ShareGroupHeartbeatRequest) -> str | None:
    if not request.group_id.strip(BLANKS):
        return "GroupId can't be empty."
    if not request.member_id.strip(BLANKS):
        return "MemberId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip(BLANKS):
        return "RackId can't be empty."
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVE_EPOCH else None


# -- Descriptions


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
        assignment(describe_api, now.assigned, topics),
    )


def description(assignor: str) -> Description:
    """Return how share groups are described, which have one assignor."""
    return Description(
        describe_api,
        describe_api.ShareGroupDescribeResponse,
        not_share,
        lambda group: group.share,
        lambda group: assignor,
        _described,
    )
