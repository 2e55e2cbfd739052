"""The group coordinator: it answers the requests about consumer groups and their committed offsets.

A group belongs to a partition of `__consumer_offsets` (shards.py), and has an actor around its machine (actor.py). Each
request returns a response if that is known at once, otherwise a future of one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Protocol

from ....protocol.errors import ErrorCode
from ....protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ....protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ....protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ....protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ....protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ....protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ...topics.topic_names import OFFSETS_TOPIC
from ..actor import Runtime
from ..calls import Call
from ..interfaces import Clock, Context, StateLog, Timers, Topics
from ..replay import Written
from ..shards import MAX_ID_BYTES, Shards
from ..sweep import Sweep
from . import description, offset_fetch, records, requests
from .actor import GROUPS, GroupActor
from .events import (
    CommitInTransaction,
    CommitOffsets,
    Create,
    Delete,
    DropTopic,
    EndTransaction,
    ExpireOffsets,
    Heartbeat,
    Joined,
    Left,
    Synced,
)
from .group import Group, GroupLimits
from .offset_commit import PLAIN_VERSION, Commit, as_plain, as_transactional
from .records import NO_PRODUCER, OffsetRecord, Record

_log = logging.getLogger(__name__)


class GroupsConfig(Protocol):
    """What the coordinator needs of the broker's configuration."""

    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...
    @property
    def group_max_size(self) -> int: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...


def new_member_id(prefix: str) -> str:
    """A member id that was never given out: the client's or the instance's id, and chance."""
    return f"{prefix}-{uuid.uuid4()}"


class GroupCoordinator:
    """The consumer groups of one broker, from `start` to `stop`."""

    def __init__(
        self,
        config: GroupsConfig,
        log: StateLog,
        timers: Timers,
        clock: Clock,
        topics: Topics,
        logger: logging.Logger = _log,
        new_member_id: Callable[[str], str] = new_member_id,
    ) -> None:
        self._config = config
        self._clock = clock
        self._topics = topics
        self._new_member_id = new_member_id
        self._limits = GroupLimits(config.group_initial_rebalance_delay_ms, config.group_max_size)
        self.shards: Shards[GroupActor, Record] = Shards(
            OFFSETS_TOPIC, log, timers, clock, logger, self._new_actor, self._decode
        )
        # Invariant: only groups of partitions that this broker owns.
        self.groups = self.shards.actors
        # The groups that a producer's open transaction may have offsets of, by partition and producer id.
        self._in_transactions: dict[tuple[int, int], set[str]] = {}
        self._expiry = Sweep(timers, clock, lambda: config.offsets_retention_check_interval_ms, self._expire)

    def start(self) -> None:
        """Load every partition."""
        self.shards.start()
        self._expiry.start()

    def stop(self) -> None:
        """Tell waiting members to look for another coordinator (NOT_COORDINATOR). Idempotent."""
        self._expiry.stop()
        for partition in list(self.shards.owned):
            self.unload(partition)
        self.shards.stop()

    def unload(self, partition: int) -> None:
        """Give a partition up, with its groups."""
        self.shards.unload(partition)
        for key in [key for key in self._in_transactions if key[0] == partition]:
            del self._in_transactions[key]

    def _new_actor(self, group_id: str, partition: int, runtime: Runtime) -> GroupActor:
        return GroupActor(group_id, partition, Group(group_id, self._limits), GROUPS, runtime)

    def _decode(self, written: Written, partition: int) -> tuple[str, Record] | None:
        record = records.decode_record(written.key, written.value)
        if record is None:
            return None
        if written.producer_id != NO_PRODUCER and isinstance(record, OffsetRecord):
            record = record._replace(producer_id=written.producer_id)
            self._in_transactions.setdefault((partition, written.producer_id), set()).add(record.group_id)
        return record.group_id, record

    # -- Membership

    def join(
        self, context: Context, request: JoinGroupRequest
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """JoinGroup. A first join without a member id makes the group."""
        version = context.api_version
        respond = requests.join_response(version)
        error = self._check_join(request)
        actor = self.groups.get(request.group_id)
        if error is ErrorCode.NONE and actor is None:
            error = self._check(request.group_id)
            if error is ErrorCode.NONE:
                error = _check_first_join(request)
        if error is not ErrorCode.NONE:
            return respond(Joined(error, request.member_id))
        if actor is None:
            actor = self.shards.add(request.group_id)
            actor.feed(Create())
        prefix = context.client_id if request.group_instance_id is None else request.group_instance_id
        new_id = "" if request.member_id else self._new_member_id(prefix)
        call = Call(respond)
        actor.feed(requests.join_event(call, request, version, context.client_id, context.client_host, new_id))
        return call.result()

    def sync(
        self, context: Context, request: SyncGroupRequest
    ) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        if context.api_version >= requests.PROTOCOL_NAMED_VERSION and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            return requests.sync_response(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        actor = self._joined(request.group_id)
        if actor is None:
            return requests.sync_response(Synced(self._absent(request.group_id)))
        call = Call(requests.sync_response)
        actor.feed(requests.sync_event(call, request))
        return call.result()

    def heartbeat(
        self, context: Context, request: HeartbeatRequest
    ) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
        """Heartbeat. While the group is being read nobody can say that the member is unknown, so it is let be."""
        actor = self._joined(request.group_id)
        if actor is None:
            error = self._absent(request.group_id)
            return HeartbeatResponse(
                error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            )
        call = Call(requests.heartbeat_response)
        actor.feed(Heartbeat(call, request.member_id, request.group_instance_id, request.generation_id))
        return call.result()

    def leave(
        self, context: Context, request: LeaveGroupRequest
    ) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
        """LeaveGroup."""
        version = context.api_version
        respond = requests.leave_response(request, version)
        actor = self._joined(request.group_id)
        if actor is not None:
            call = Call(respond)
            actor.feed(requests.leave_event(call, request, version))
            return call.result()
        error = self._absent(request.group_id)
        if error is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error)
        return respond(Left([error] * requests.leavers(request, version)))

    # -- Offsets

    def commit_offsets(
        self, context: Context, request: OffsetCommitRequest
    ) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
        """OffsetCommit. From outside of any group (generation -1) it makes a group that has offsets and no members."""
        commit = Commit(
            request, context.api_version, self._topics, self._config.offset_metadata_max_bytes, self._clock.now_ms()
        )
        if not commit.asks_group:
            return commit.response
        generation = request.generation_id_or_member_epoch
        actor = self.groups.get(request.group_id)
        if actor is None:
            error = self._check(request.group_id)
            if error is ErrorCode.NONE and generation >= 0:
                known = context.api_version >= requests.GROUP_NOT_FOUND_VERSION
                error = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
            if error is not ErrorCode.NONE:
                return commit.answer(error)
            actor = self.shards.add(request.group_id)
        call = Call(commit.answer)
        actor.feed(CommitOffsets(call, request.member_id, request.group_instance_id, generation, commit.records))
        return call.result()

    def commit_in_transaction(
        self, context: Context, request: TxnOffsetCommitRequest, verify: Callable[[int], ErrorCode]
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """TxnOffsetCommit. `verify` checks that the group's partition belongs to the transaction."""
        version, producer_id = context.api_version, request.producer_id
        commit = Commit(
            as_plain(request),
            PLAIN_VERSION,
            self._topics,
            self._config.offset_metadata_max_bytes,
            self._clock.now_ms(),
            producer_id,
        )
        if not commit.asks_group:
            return as_transactional(commit.response, version)
        group_id = request.group_id
        error = self._check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        partition = self.shards.partition_of(group_id)
        if error is ErrorCode.NONE:
            error = verify(partition)
        actor = self.groups.get(group_id)
        if error is ErrorCode.NONE and actor is None and request.generation_id >= 0:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return as_transactional(commit.answer(error), version)
        actor = actor or self.shards.add(group_id)
        self._in_transactions.setdefault((partition, producer_id), set()).add(group_id)

        def respond(answer: ErrorCode) -> TxnOffsetCommitResponse:
            return as_transactional(commit.answer(answer), version)

        call = Call(respond)
        producer = producer_id, request.producer_epoch
        actor.feed(
            CommitInTransaction(
                call, request.member_id, request.group_instance_id, request.generation_id, commit.records, producer
            )
        )
        return call.result()

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """The marker of a producer's transaction is in this partition of the log: its groups learn how it ended."""
        for group_id in self._in_transactions.pop((partition, producer_id), ()):
            actor = self.groups.get(group_id)
            if actor is not None:
                actor.feed(EndTransaction(producer_id, commit))

    def fetch_offsets(self, context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """OffsetFetch, from the cache. `require_stable` holds back what an undecided transaction may change."""
        version = context.api_version
        groups = [
            offset_fetch.fetch_group(
                asked, self._offsets_of(asked.group_id), self._topics, version, request.require_stable
            )
            for asked in offset_fetch.groups_of(request, version)
        ]
        return offset_fetch.response_of(request, groups, version)

    def delete_offsets(
        self, context: Context, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
        """OffsetDelete."""
        respond = requests.delete_offsets_response(request, self._topics)
        actor = self.groups.get(request.group_id)
        if actor is None:
            return respond(self._missing(request.group_id))
        call = Call(respond)
        actor.feed(requests.delete_offsets_event(call, request, self._topics))
        return call.result()

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: every group forgets how far it had come in it."""
        for actor in list(self.groups.values()):
            if actor.state.offsets.with_pending(topic):
                actor.feed(DropTopic(topic))

    def _expire(self) -> None:
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for actor in list(self.groups.values()):
            actor.feed(ExpireOffsets(retention_ms))

    # -- Administration

    def delete(
        self, context: Context, request: DeleteGroupsRequest
    ) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
        """DeleteGroups. A group that is named twice is deleted and answered once."""
        results = [self._delete(group_id) for group_id in dict.fromkeys(request.groups_names)]
        return requests.deletions(results)

    def _delete(self, group_id: str) -> DeletableGroupResult | asyncio.Future[DeletableGroupResult]:
        respond = requests.deletion(group_id)
        actor = self.groups.get(group_id)
        if actor is None:
            error = self._check(group_id)
            return respond(ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else error)
        call = Call(respond)
        actor.feed(Delete(call))
        return call.result()

    # -- Description

    def describe(self, context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """DescribeGroups."""
        response = DescribeGroupsResponse()
        for group_id in dict.fromkeys(request.groups):
            actor = self.groups.get(group_id)
            error = self._check(group_id) if actor is None else ErrorCode.NONE
            group = None if actor is None else actor.state
            response.groups.append(description.describe(group_id, group, error, context.api_version))
            if request.include_authorized_operations and not response.groups[-1].error_code:
                response.groups[-1].authorized_operations = description.ALL_OPERATIONS
            if request.include_history and group is not None:
                response.groups[-1].history = description.history(group, self._clock.now_ms())
        return response

    def list(self, context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
        """ListGroups."""
        if self.shards.loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups = (actor.state for actor in self.groups.values())
        return ListGroupsResponse(groups=description.list_groups(groups, request.states_filter, request.types_filter))

    # -- Checks

    def _check(self, group_id: str) -> ErrorCode:
        """Return why this broker does not coordinate a group; NONE if it does."""
        return ErrorCode.INVALID_GROUP_ID if len(group_id.encode()) > MAX_ID_BYTES else self.shards.check(group_id)

    def _joined(self, group_id: str) -> GroupActor | None:
        """The group that a member speaks of. The empty name can hold offsets, as Kafka's, but no members."""
        return self.groups.get(group_id) if group_id else None

    def _absent(self, group_id: str) -> ErrorCode:
        """What a member is told whose group is not in the cache."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        error = self._check(group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.NONE else error

    def _missing(self, group_id: str) -> ErrorCode:
        """What an administrator is told whose group is not in the cache."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        error = self._check(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else error

    def _check_join(self, request: JoinGroupRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def _offsets_of(self, group_id: str) -> offset_fetch.Found:
        actor = self.groups.get(group_id)
        if actor is not None:
            return offset_fetch.Found(ErrorCode.NONE, actor.state.offsets)
        return offset_fetch.Found(self._check(group_id), None)


def _check_first_join(request: JoinGroupRequest) -> ErrorCode:
    """For a group that does not exist: what it would be made from must make sense, and its member cannot have an id."""
    if request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not request.protocol_type or not request.protocols:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
