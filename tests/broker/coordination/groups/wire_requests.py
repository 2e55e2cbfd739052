"""The requests of groups as functions, in any version and over the wire, for the tests of handlers."""

from __future__ import annotations

from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.primitives import ZERO_UUID
from odradek.tests.support.clients.raw import Raw


def join_request(member_id: str = "", version: int = 9, **options: Any) -> JoinGroupRequest:
    """Return the JoinGroup of a member of group g, by default a consumer that supports range."""
    fields = {"session_timeout_ms": 10_000, "protocol_type": "consumer", **options}
    if version >= 1:
        fields.setdefault("rebalance_timeout_ms", 20_000)
    fields.setdefault("protocols", [JoinGroupRequestProtocol("range", b"topics")])
    return JoinGroupRequest(**{"group_id": "g", "member_id": member_id, **fields})


async def join(raw: Raw, member_id: str = "", version: int = 9, **options: Any) -> Any:
    """Send a JoinGroup, and return its response."""
    return await raw.ask(ApiKey.JOIN_GROUP, version, join_request(member_id, version, **options))


async def enter(raw: Raw, version: int = 9, **options: Any) -> Any:
    """Join the group. If the response is MEMBER_ID_REQUIRED, join again with the id that it gives."""
    first = await join(raw, version=version, **options)
    return await join(raw, first.member_id, version, **options) if first.error_code == 79 else first


async def sync(raw: Raw, member_id: str, generation: int, version: int = 5, **options: Any) -> Any:
    """Send a SyncGroup. `assign` maps member ids to assignments."""
    given = [SyncGroupRequestAssignment(name, data) for name, data in options.pop("assign", {}).items()]
    if version >= 5:
        options = {"protocol_type": "consumer", "protocol_name": "range", **options}
    fields = {"group_id": "g", "generation_id": generation, "member_id": member_id, "assignments": given, **options}
    return await raw.ask(ApiKey.SYNC_GROUP, version, SyncGroupRequest(**fields))


async def lead(raw: Raw, **options: Any) -> str:
    """Make a stable group of one member in generation 1. Return the id of the member."""
    member_id = (await enter(raw, **options)).member_id
    group = {"group_id": options["group_id"]} if "group_id" in options else {}
    assert (await sync(raw, member_id, 1, assign={member_id: b"all"}, **group)).error_code == 0
    return member_id


async def heartbeat(raw: Raw, member_id: str, generation: int, version: int = 4, group: str = "g") -> int:
    """Return the error code of a Heartbeat."""
    request = HeartbeatRequest(group, generation, member_id)
    return (await raw.ask(ApiKey.HEARTBEAT, version, request)).error_code


async def leave(raw: Raw, *member_ids: str, version: int = 5, group: str = "g") -> Any:
    """Send a LeaveGroup of dynamic members."""
    request = LeaveGroupRequest(group)
    if version < 3:
        (request.member_id,) = member_ids
    else:
        request.members = [MemberIdentity(member_id) for member_id in member_ids]
    return await raw.ask(ApiKey.LEAVE_GROUP, version, request)


async def commit(
    raw: Raw, at: dict[int, int], version: int = 9, topic: str | bytes = "t", metadata: str | None = "", **rest: Any
) -> list[int]:
    """Return the error codes of an OffsetCommit, one for each partition. Since version 10 `topic` is an id."""
    partitions = [OffsetCommitRequestPartition(index, offset) for index, offset in at.items()]
    for partition in partitions:
        partition.committed_metadata = metadata
        partition.committed_leader_epoch = 3 if version >= 6 else -1
    named = OffsetCommitRequestTopic(topic_id=topic) if isinstance(topic, bytes) else OffsetCommitRequestTopic(topic)
    named.partitions = partitions
    request = OffsetCommitRequest(**{"group_id": "g", "topics": [named], **rest})
    response = await raw.ask(ApiKey.OFFSET_COMMIT, version, request)
    return [partition.error_code for partition in response.topics[0].partitions]


async def fetch(
    raw: Raw, version: int = 9, topic: str | bytes | None = "t", indexes: tuple[int, ...] = (0, 1), group: str = "g"
) -> Any:
    """Send an OffsetFetch of one topic. Since version 10 `topic` is an id; None fetches all offsets."""
    topics = None
    if version < 8:
        if topic is not None:
            topics = [OffsetFetchRequestTopic(str(topic), list(indexes))]
        return await raw.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(group, topics))
    if topic is not None:
        by_id = isinstance(topic, bytes)
        topics = [OffsetFetchRequestTopics("" if by_id else topic, topic if by_id else ZERO_UUID, list(indexes))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
    return await raw.ask(ApiKey.OFFSET_FETCH, version, request)


async def describe(raw: Raw, group: str = "g", version: int = 6, operations: bool = False) -> Any:
    """DescribeGroups of one group."""
    request = DescribeGroupsRequest([group], operations)
    return (await raw.ask(ApiKey.DESCRIBE_GROUPS, version, request)).groups[0]


async def delete_groups(raw: Raw, *groups: str, version: int = 2) -> dict[str, int]:
    """Return the error code of each group of a DeleteGroups."""
    results = (await raw.ask(ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest(list(groups)))).results
    assert len(results) == len(set(groups))
    return {each.group_id: each.error_code for each in results}


async def delete_offsets(raw: Raw, group: str = "g", **partitions: list[int]) -> tuple[int, dict[str, dict[int, int]]]:
    """Return the error of an OffsetDelete, and that of each partition by topic."""
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in partitions.items()
    ]
    response = await raw.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, topics))
    return response.error_code, {
        t.name: {p.partition_index: p.error_code for p in t.partitions} for t in response.topics
    }


async def list_groups(
    raw: Raw, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[tuple[str, str, str, str]]:
    """Return (id, protocol type, state, type) of each group."""
    response = await raw.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest(list(states), list(types)))
    assert response.error_code == 0
    return [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]
