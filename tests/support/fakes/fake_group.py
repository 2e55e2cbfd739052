"""A group coordinator of one group with one member at a time, enough to drive a client through every error.

It speaks both protocols. In the consumer protocol `generation` is the member's epoch, and `target` its assignment.
"""

from __future__ import annotations

from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from odradek.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.share_group_describe import DescribedGroup as SharedGroup
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse

from .wire import Call, Step


class FakeGroup:
    """A group of one member: the one that joined last, which is the leader."""

    def __init__(self) -> None:
        self.node_id = 1
        # What a commit with another generation or epoch is told.
        self._outdated = ErrorCode.ILLEGAL_GENERATION
        self.generation = 0
        self.member_id = ""
        # The member has joined, and has not synced: commits have to wait.
        self.syncing = False
        self._numbers = iter(range(1, 1000))
        self.committed: dict[tuple[str, int], int] = {}
        # The leader epoch and the text of each commit.
        self.details: dict[tuple[str, int], tuple[int, str]] = {}
        self.left: list[str] = []
        # Between heartbeats of the consumer protocol.
        self.interval_ms = 5
        # Of the consumer protocol: (topic, partition), None for all partitions of what the member reads.
        self.target: set[tuple[str, int]] | None = None
        # What the member says that it reads and owns.
        self.reads: list[str] = []
        self.owned: set[tuple[str, int]] = set()
        # The assignment that the member was told last.
        self._told: set[tuple[str, int]] | None = None

    def defaults(self, wire: Any) -> dict[ApiKey, Step]:
        self._wire = wire
        return {
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._consumer_heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self._describe_none,
            ApiKey.SHARE_GROUP_DESCRIBE: self._describe_none,
            ApiKey.LEAVE_GROUP: self._leave,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch,
        }

    def forget(self, topic: str) -> None:
        """Drop the committed offsets of a deleted topic, as a broker does."""
        self.committed = {place: offset for place, offset in self.committed.items() if place[0] != topic}

    def _check(self, call: Call, generation: int, member_id: str) -> ErrorCode:
        if call.node.node_id != self.node_id:
            return ErrorCode.NOT_COORDINATOR
        if member_id != self.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else self._outdated

    async def _join(self, call: Call) -> Any:
        request = call.request
        if call.node.node_id != self.node_id:
            return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if not request.member_id:
            self.member_id = f"member-{next(self._numbers)}"
            if call.version >= 4:
                return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self.member_id)
        elif request.member_id != self.member_id:
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.generation += 1
        self.syncing = True
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=self.member_id,
            member_id=self.member_id,
            members=[JoinGroupResponseMember(self.member_id, None, request.protocols[0].metadata)],
        )

    async def _sync(self, call: Call) -> Any:
        code = self._check(call, call.request.generation_id, call.request.member_id)
        self.syncing = self.syncing and bool(code)
        assignment = b"" if code or not call.request.assignments else call.request.assignments[0].assignment
        return SyncGroupResponse(error_code=code, assignment=assignment)

    async def _heartbeat(self, call: Call) -> Any:
        return HeartbeatResponse(error_code=self._check(call, call.request.generation_id, call.request.member_id))

    async def _describe_none(self, call: Call) -> Any:
        """Groups of the newer kinds that are not there."""
        code, ids = ErrorCode.GROUP_ID_NOT_FOUND, call.request.group_ids
        if call.key is ApiKey.SHARE_GROUP_DESCRIBE:
            return ShareGroupDescribeResponse(groups=[SharedGroup(error_code=code, group_id=each) for each in ids])
        return ConsumerGroupDescribeResponse(groups=[DescribedGroup(error_code=code, group_id=each) for each in ids])

    async def _consumer_heartbeat(self, call: Call) -> Any:
        request = call.request
        if call.node.node_id != self.node_id:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if request.member_epoch < 0:
            self.left.append(request.member_id)
            if request.member_id == self.member_id:
                self.member_id, self.owned = "", set()
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        self._outdated = ErrorCode.STALE_MEMBER_EPOCH
        if request.member_epoch == 0:
            self.member_id, self._told = request.member_id, None
            self.generation += 1
        elif request.member_id != self.member_id:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        elif request.member_epoch not in (self.generation, self.generation - 1):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        if request.subscribed_topic_names is not None:
            self.reads = request.subscribed_topic_names
        if request.topic_partitions is not None:
            self.owned = {
                (self._wire.topic_name("", topic.topic_id), number)
                for topic in request.topic_partitions
                for number in topic.partitions
            }
        whole = request.rebalance_timeout_ms >= 0
        return ConsumerGroupHeartbeatResponse(
            member_id=self.member_id,
            member_epoch=self.generation,
            heartbeat_interval_ms=self.interval_ms,
            assignment=self._assignment(whole),
        )

    def _assignment(self, whole: bool) -> Assignment | None:
        """The assignment, None where the member knows it."""
        topics = self._wire.topics
        every = {(name, number) for name in self.reads if name in topics for number in range(len(topics[name]))}
        target = every if self.target is None else self.target
        if target == self._told and not whole:
            return None
        self._told = target
        by_topic: dict[str, list[int]] = {}
        for name, number in sorted(target):
            by_topic.setdefault(name, []).append(number)
        return Assignment([TopicPartitions(self._wire.topic_id(name), found) for name, found in by_topic.items()])

    async def _leave(self, call: Call) -> Any:
        leaving = [member.member_id for member in call.request.members] or [call.request.member_id]
        self.left += leaving
        if self.member_id in leaving:
            self.member_id = ""
        return LeaveGroupResponse()

    async def _commit(self, call: Call) -> Any:
        request = call.request
        code = ErrorCode.NONE
        if request.generation_id_or_member_epoch >= 0 or request.member_id:
            code = self._check(call, request.generation_id_or_member_epoch, request.member_id)
            if not code and self.syncing:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        response = OffsetCommitResponse()
        for topic in request.topics:
            name = self._wire.topic_name(topic.name, topic.topic_id)
            answers = OffsetCommitResponseTopic(topic.name, topic.topic_id)
            if not name:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            for each in topic.partitions:
                if not code:
                    place = name, each.partition_index
                    self.committed[place] = each.committed_offset
                    self.details[place] = each.committed_leader_epoch, each.committed_metadata or ""
                answers.partitions.append(OffsetCommitResponsePartition(each.partition_index, code))
            response.topics.append(answers)
        return response

    async def _fetch(self, call: Call) -> Any:
        if call.version < 8:
            return OffsetFetchResponse(topics=[self._old(topic) for topic in call.request.topics or ()])
        group = call.request.groups[0]
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [self._committed(topic.name, topic.topic_id, number) for number in topic.partition_indexes],
            )
            for topic in group.topics or ()
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group.group_id, topics)])

    def _old(self, topic: Any) -> OffsetFetchResponseTopic:
        partitions = [
            OffsetFetchResponsePartition(number, self.committed.get((topic.name, number), -1), -1, "")
            for number in topic.partition_indexes
        ]
        return OffsetFetchResponseTopic(topic.name, partitions)

    def _committed(self, name: str, topic_id: bytes, number: int) -> OffsetFetchResponsePartitions:
        place = self._wire.topic_name(name, topic_id), number
        epoch, text = self.details.get(place, (-1, ""))
        if not place[0]:
            return OffsetFetchResponsePartitions(number, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)
        return OffsetFetchResponsePartitions(number, self.committed.get(place, -1), epoch, text)
