"""From messages to events and from answers to messages: the only place where the versions of the group APIs differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ....protocol.errors import ErrorCode
from ....protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ....protocol.messages.heartbeat import HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ....protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..interfaces import Topics
from .events import DeleteOffsets, Join, Joined, Leave, Leaver, Left, OffsetsDeleted, Sync, Synced, Token

NULL_PROTOCOL_VERSION = 7
"""From here on JoinGroup can say that there is no protocol; before it says the empty string."""
MEMBER_ID_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
PROTOCOL_NAMED_VERSION = 5
"""From here on a SyncGroup must say of which protocol its assignment is (KIP-559)."""
LEAVE_BATCH_VERSION = 3
GROUP_NOT_FOUND_VERSION = 9
"""From here on OffsetCommit can say that there is no such group (KIP-848); before it speaks of the generation."""


def join_event(
    token: Token[Joined], request: JoinGroupRequest, version: int, client_id: str, client_host: str, new_member_id: str
) -> Join:
    """JoinGroup. Version 0 has no rebalance timeout: it is the session's."""
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
    """What makes the response to a JoinGroup of that version."""
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
            members=[
                JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata)
                for member in answer.members
            ],
        )

    return respond


def sync_event(token: Token[Synced], request: SyncGroupRequest) -> Sync:
    """SyncGroup."""
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
    """The response to a SyncGroup."""
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


def heartbeat_response(error: ErrorCode) -> HeartbeatResponse:
    """The response to a Heartbeat."""
    return HeartbeatResponse(error_code=error)


def leave_event(token: Token[Left], request: LeaveGroupRequest, version: int) -> Leave:
    """LeaveGroup: several members from version 3 on, one before."""
    if version < LEAVE_BATCH_VERSION:
        return Leave(token, [Leaver(request.member_id)])
    return Leave(token, [Leaver(m.member_id, m.group_instance_id, m.reason) for m in request.members])


def leavers(request: LeaveGroupRequest, version: int) -> int:
    """How many members a LeaveGroup names."""
    return 1 if version < LEAVE_BATCH_VERSION else len(request.members)


def leave_response(request: LeaveGroupRequest, version: int) -> Callable[[Left], LeaveGroupResponse]:
    """What makes the response to this LeaveGroup: an error for each member, before version 3 the one for all."""

    def respond(answer: Left) -> LeaveGroupResponse:
        if version < LEAVE_BATCH_VERSION:
            return LeaveGroupResponse(error_code=answer.errors[0])
        members = [_left(member, error) for member, error in zip(request.members, answer.errors, strict=True)]
        return LeaveGroupResponse(members=members)

    return respond


def _left(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member.member_id, member.group_instance_id, error)


def deletion(group_id: str) -> Callable[[ErrorCode], DeletableGroupResult]:
    """What makes the result for one group of a DeleteGroups."""
    return lambda error: DeletableGroupResult(group_id, error)


def delete_offsets_event(
    token: Token[OffsetsDeleted | ErrorCode], request: OffsetDeleteRequest, topics: Topics
) -> DeleteOffsets:
    """OffsetDelete, as far as the partitions exist."""
    partitions: dict[str, list[int]] = {}
    for asked in request.topics:
        indexes = [p.partition_index for p in asked.partitions if _exists(topics, asked.name, p.partition_index)]
        partitions.setdefault(asked.name, []).extend(indexes)
    return DeleteOffsets(token, partitions)


def delete_offsets_response(
    request: OffsetDeleteRequest, topics: Topics
) -> Callable[[OffsetsDeleted | ErrorCode], OffsetDeleteResponse]:
    """What makes the response to this OffsetDelete: an error for all, or one for each partition."""

    def respond(answer: OffsetsDeleted | ErrorCode) -> OffsetDeleteResponse:
        response = OffsetDeleteResponse()
        if isinstance(answer, ErrorCode):
            response.error_code = answer
            return response
        for asked in request.topics:
            if not asked.partitions:
                # As Kafka: nothing was asked of it, nothing is said.
                continue
            results = [_deleted(topics, answer, asked.name, each.partition_index) for each in asked.partitions]
            response.topics.append(OffsetDeleteResponseTopic(asked.name, results))
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


def deletions(
    results: Sequence[DeletableGroupResult | asyncio.Future[DeletableGroupResult]],
) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
    """The response to a DeleteGroups, once the last group has answered."""
    waiting = [each for each in results if isinstance(each, asyncio.Future)]

    def response() -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[r.result() if isinstance(r, asyncio.Future) else r for r in results])

    if not waiting:
        return response()
    future: asyncio.Future[DeleteGroupsResponse] = asyncio.get_running_loop().create_future()

    def answered(_: asyncio.Future[DeletableGroupResult]) -> None:
        if not future.done() and all(each.done() for each in waiting):
            future.set_result(response())

    for each in waiting:
        each.add_done_callback(answered)
    return future
