"""Requests of members and administrators as events of the group machine, and its answers as responses.

The versions of JoinGroup, SyncGroup and LeaveGroup differ here alone, but for two checks in the coordinator that
compare with versions of this module. Offset commits, fetches and descriptions have modules of their own:
offset_commit.py, offset_fetch.py, description.py.
"""

from __future__ import annotations

from collections.abc import Callable

from ....protocol.errors import ErrorCode
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ....protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..interfaces import Topics
from .events import DeleteOffsets, Join, Joined, Leave, Left, OffsetsDeleted, Sync, Synced, Token

# Since this version of JoinGroup a missing protocol is null. Before, it is an empty string.
NULL_PROTOCOL_VERSION = 7
# Since this version of JoinGroup a new member gets its id first (KIP-394).
MEMBER_ID_VERSION = 4
# Since this version of JoinGroup the response can tell a leader not to assign (KIP-814).
SKIP_ASSIGNMENT_VERSION = 9
# Since this version a SyncGroup must name the protocol of its assignment (KIP-559).
PROTOCOL_NAMED_VERSION = 5
# Since this version a LeaveGroup names several members.
LEAVE_BATCH_VERSION = 3
# Since this version an OffsetCommit to an unknown group is GROUP_ID_NOT_FOUND (KIP-848). Before, ILLEGAL_GENERATION.
GROUP_NOT_FOUND_VERSION = 9


def join_event(
    token: Token[Joined], request: JoinGroupRequest, version: int, client_id: str, client_host: str, new_member_id: str
) -> Join:
    """Return a JoinGroup as an event. Version 0 has no rebalance timeout: the session timeout takes its place."""
    return Join(
        token,
        request.member_id,
        new_member_id,
        request.group_instance_id,
        client_id,
        client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
        request.protocol_type,
        tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        request.reason,
        needs_member_id=version >= MEMBER_ID_VERSION,
        can_skip_assignment=version >= SKIP_ASSIGNMENT_VERSION,
    )


def join_response(version: int) -> Callable[[Joined], JoinGroupResponse]:
    """Return the function that makes the response to a JoinGroup of a version."""
    no_protocol = None if version >= NULL_PROTOCOL_VERSION else ""

    def respond(answer: Joined) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=answer.error,
            generation_id=answer.generation,
            protocol_type=answer.protocol_type,
            protocol_name=no_protocol if answer.protocol is None else answer.protocol,
            leader=answer.leader,
            skip_assignment=answer.skip_assignment,
            member_id=answer.member_id,
            members=answer.members,
        )

    return respond


def sync_event(token: Token[Synced], request: SyncGroupRequest) -> Sync:
    """Return a SyncGroup as an event."""
    return Sync(
        token,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        {assigned.member_id: assigned.assignment for assigned in request.assignments},
        request.protocol_type,
        request.protocol_name,
    )


def sync_response(answer: Synced) -> SyncGroupResponse:
    """Return the response to a SyncGroup."""
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


def leave_event(token: Token[Left], request: LeaveGroupRequest, version: int) -> Leave:
    """Return a LeaveGroup as an event."""
    if version < LEAVE_BATCH_VERSION:
        return Leave(token, [MemberIdentity(request.member_id)])
    return Leave(token, request.members)


def leave_response(request: LeaveGroupRequest, version: int) -> Callable[[Left], LeaveGroupResponse]:
    """Return the function that makes the response: an error for each member, before version 3 one for the request."""

    def respond(answer: Left) -> LeaveGroupResponse:
        if version < LEAVE_BATCH_VERSION:
            return LeaveGroupResponse(error_code=answer.errors[0])
        members = [_left(member, error) for member, error in zip(request.members, answer.errors, strict=True)]
        return LeaveGroupResponse(members=members)

    return respond


def _left(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member.member_id, member.group_instance_id, error)


def delete_offsets_event(
    token: Token[OffsetsDeleted | ErrorCode], request: OffsetDeleteRequest, topics: Topics
) -> DeleteOffsets:
    """Return an OffsetDelete as an event, without the partitions that do not exist."""
    partitions: dict[str, list[int]] = {}
    for topic in request.topics:
        indexes = [p.partition_index for p in topic.partitions if _exists(topics, topic.name, p.partition_index)]
        partitions.setdefault(topic.name, []).extend(indexes)
    return DeleteOffsets(token, partitions)


def delete_offsets_response(
    request: OffsetDeleteRequest, topics: Topics
) -> Callable[[OffsetsDeleted | ErrorCode], OffsetDeleteResponse]:
    """Return the function that makes the response: one error for the request, or one for each partition."""

    def respond(answer: OffsetsDeleted | ErrorCode) -> OffsetDeleteResponse:
        response = OffsetDeleteResponse()
        if isinstance(answer, ErrorCode):
            response.error_code = answer
            return response
        for topic in request.topics:
            if not topic.partitions:
                # Kafka leaves a topic without partitions out of the response.
                continue
            results = [_deleted(topics, answer, topic.name, each.partition_index) for each in topic.partitions]
            response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
        return response

    return respond


def _deleted(topics: Topics, answer: OffsetsDeleted, topic: str, index: int) -> OffsetDeleteResponsePartition:
    error = ErrorCode.NONE
    if not _exists(topics, topic, index):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic in answer.subscribed:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return OffsetDeleteResponsePartition(index, error)


def _exists(topics: Topics, name: str, index: int) -> bool:
    topic = topics.get(name)
    return topic is not None and topic.partition(index) is not None
